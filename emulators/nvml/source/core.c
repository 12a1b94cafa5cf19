// Life of the library in one process: mapping the state, reading it under sequence locks, and the gates that every call passes.
#include "emu.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct emu_state *emu_state;
static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER;    // init and shutdown
static pthread_mutex_t driver = PTHREAD_MUTEX_INITIALIZER;  // the driver's global lock: a fault may hold it while it hangs
static unsigned references;
static unsigned attached;             // slots that this process has attached to since init
static char loaded_version[80];       // the driver this process was loaded for: an upgrade underneath makes every call fail
static FILE *trace;

void emu_pause(uint64_t microseconds) {
  struct timespec left = {microseconds / 1000000, (microseconds % 1000000) * 1000};
  while (microseconds && nanosleep(&left, &left) && errno == EINTR) {}
}

// A reader copies the block and tries again while a writer was in it; a writer that died inside costs at most ~0.1 s and is counted.
static void read_block(const uint32_t *seq, void *copy, const void *block, size_t size) {
  for (unsigned tries = 0; tries < 2000; tries++) {
    uint32_t before = __atomic_load_n(seq, __ATOMIC_ACQUIRE);
    if (!(before & 1)) {
      memcpy(copy, block, size);
      __atomic_thread_fence(__ATOMIC_ACQUIRE);
      if (__atomic_load_n(seq, __ATOMIC_RELAXED) == before) return;
    }
    if (tries < 1000) sched_yield(); else emu_pause(100);
  }
  memcpy(copy, block, size);
  __atomic_add_fetch(&emu_state->torn_reads, 1, __ATOMIC_RELAXED);
}

void emu_read_machine(struct emu_machine *copy) {
  read_block(&emu_state->machine_seq, copy, &emu_state->machine, sizeof *copy);
}

void emu_read_gpu(unsigned slot, struct emu_gpu *copy) {
  read_block(&emu_state->gpu_seq[slot], copy, &emu_state->gpus[slot], sizeof *copy);
}

static nvmlReturn_t map_state(void) {
  const char *path = getenv("NVML_EMU_STATE");
  int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (file < 0) return NVML_ERROR_DRIVER_NOT_LOADED;
  struct stat status;
  nvmlReturn_t rc = NVML_ERROR_DRIVER_NOT_LOADED;
  if (!fstat(file, &status) && status.st_size >= (off_t)sizeof *emu_state) {
    struct emu_state *mapped = mmap(NULL, sizeof *mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    rc = mapped == MAP_FAILED ? NVML_ERROR_UNKNOWN : NVML_SUCCESS;
    if (!rc && (mapped->magic != EMU_MAGIC || mapped->abi != EMU_ABI || mapped->size != sizeof *mapped)) {
      munmap(mapped, sizeof *mapped);
      rc = NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    }
    if (!rc) emu_state = mapped;
  }
  close(file);
  return rc;
}

static nvmlReturn_t machine_code(const struct emu_machine *machine) {
  if (machine->init_rc) return machine->init_rc;
  return strcmp(machine->driver_version, loaded_version) ? NVML_ERROR_LIB_RM_VERSION_MISMATCH : NVML_SUCCESS;
}

static nvmlReturn_t start(void) {
  if (!trace && getenv("NVML_EMU_TRACE")) trace = fopen(getenv("NVML_EMU_TRACE"), "ae");
  if (!emu_state) {
    nvmlReturn_t rc = map_state();
    if (rc) return rc;
  }
  struct emu_machine machine;
  emu_read_machine(&machine);
  if (!loaded_version[0]) strcpy(loaded_version, machine.driver_version);
  nvmlReturn_t rc = machine_code(&machine);
  if (!rc) references++, attached = 0;
  return rc;
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
  (void)flags;
  pthread_mutex_lock(&life);
  nvmlReturn_t rc = start();
  pthread_mutex_unlock(&life);
  EMU_RETURN(rc);
}

nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
nvmlReturn_t nvmlInit(void) { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlShutdown(void) {
  pthread_mutex_lock(&life);
  nvmlReturn_t rc = references ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
  if (references) references--;
  pthread_mutex_unlock(&life);
  EMU_RETURN(rc);
}

nvmlReturn_t emu_leave(const char *call, nvmlReturn_t rc) {
  if (trace) fprintf(trace, "%d %s %d\n", (int)getpid(), call, rc), fflush(trace);
  return rc;
}

static void crash(uint32_t action) {
  if (action == EMU_FAULT_ABORT) abort();
  if (action == EMU_FAULT_SEGV) raise(SIGSEGV);
}

// Faults are named by call, or by call@slot.
static nvmlReturn_t apply_faults(const char *call, int slot) {
  char at_slot[96];
  snprintf(at_slot, sizeof at_slot, "%s@%d", call, slot);
  for (unsigned i = 0; i < EMU_FAULTS; i++) {
    struct emu_fault *shared = &emu_state->faults[i], fault;
    if (!shared->action) continue;
    read_block(&emu_state->machine_seq, &fault, shared, sizeof fault);
    if (!fault.action || (strcmp(fault.symbol, call) && strcmp(fault.symbol, at_slot))) continue;
    int32_t left = __atomic_load_n(&emu_state->fault_calls[i], __ATOMIC_RELAXED);
    if (!left) continue;
    if (left > 0 && __atomic_sub_fetch(&emu_state->fault_calls[i], 1, __ATOMIC_RELAXED) < 0) continue;
    if (fault.holds_lock) pthread_mutex_lock(&driver);
    emu_pause(fault.latency_us);
    if (fault.holds_lock) pthread_mutex_unlock(&driver);
    crash(fault.action);
    if (fault.rc) return fault.rc;
  }
  return NVML_SUCCESS;
}

static nvmlReturn_t enter(const char *call, int slot, struct emu_machine *machine) {
  if (!references) return NVML_ERROR_UNINITIALIZED;
  __atomic_add_fetch(&emu_state->calls, 1, __ATOMIC_RELAXED);
  pthread_mutex_lock(&driver);  // waits for a hang that holds the driver
  pthread_mutex_unlock(&driver);
  emu_read_machine(machine);
  nvmlReturn_t rc = machine_code(machine);
  return rc ? rc : apply_faults(call, slot);
}

nvmlReturn_t emu_enter_machine(const char *call, struct emu_machine *machine) { return enter(call, -1, machine); }

static int is_listed(const struct emu_machine *machine, unsigned slot) {
  for (unsigned i = 0; i < machine->count; i++)
    if (machine->slots[i] == slot) return 1;
  return 0;
}

// Without persistence mode the first call of a process attaches the GPU.
static void attach(const struct emu_machine *machine, unsigned slot) {
  if (__atomic_fetch_or(&attached, 1u << slot, __ATOMIC_RELAXED) & 1u << slot) return;
  if (!machine->is_persistent) emu_pause(machine->first_call_us);
}

nvmlReturn_t emu_enter_gpu(const char *call, nvmlDevice_t device, const struct emu_gpu **gpu) {
  static __thread struct emu_gpu copy;
  struct emu_machine machine;
  if (references && !emu_is_handle(device)) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t rc = enter(call, references ? (int)device->slot : -1, &machine);
  if (rc) return rc;
  attach(&machine, device->slot);
  emu_read_gpu(device->slot, &copy);
  emu_pause(copy.latency_us);
  if (copy.latency_us) emu_read_gpu(device->slot, &copy);
  *gpu = &copy;
  if (copy.generation != device->generation || !is_listed(&machine, device->slot)) return NVML_ERROR_GPU_IS_LOST;
  return copy.device_rc;
}

nvmlReturn_t emu_stub(const char *call) {
  struct emu_machine machine;
  const char *code = getenv("NVML_EMU_STUB_RC");
  nvmlReturn_t rc = emu_enter_machine(call, &machine);
  return emu_leave(call, rc ? rc : code ? (nvmlReturn_t)atoi(code) : NVML_ERROR_NOT_SUPPORTED);
}

const char *nvmlErrorString(nvmlReturn_t rc) {
  static const char *const TEXTS[] = {
    "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions", "Already Initialized", "Not Found",
    "Insufficient Size", "Insufficient External Power", "Driver Not Loaded", "Timeout", "Interrupt Request Issue",
    "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM", "GPU is lost", "GPU requires reset",
    "The operating system has blocked the request.", "Driver/library version mismatch", "In use by another client",
    "Insufficient Memory", "No data", "vGPU ECC not supported", "Insufficient resources", "Frequency not supported",
    "Argument version mismatch", "Deprecated", "Not Ready", "No GPU found", "Invalid state",
  };
  return (unsigned)rc < sizeof TEXTS / sizeof *TEXTS ? TEXTS[rc] : "Unknown Error";
}
