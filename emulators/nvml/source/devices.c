// Handles and the machine's own facts: versions, counts, lookups, and the MIG instances of a GPU.
#include "emu.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Handles point into a table of this process and carry the generation they were made in: one that is older than its GPU is lost.
static struct nvmlDevice_st handles[2048];
static unsigned handle_count;
static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;

nvmlReturn_t emu_handle(unsigned slot, unsigned instance, nvmlDevice_t *device) {
  struct emu_gpu gpu;
  emu_read_gpu(slot, &gpu);
  if (gpu.handle_rc) return gpu.handle_rc;
  pthread_mutex_lock(&handles_lock);
  unsigned at = 0;
  while (at < handle_count &&
         !(handles[at].slot == slot && handles[at].instance == instance && handles[at].generation == gpu.generation))
    at++;
  nvmlReturn_t rc = at < sizeof handles / sizeof *handles ? NVML_SUCCESS : NVML_ERROR_MEMORY;
  if (!rc && at == handle_count) handles[handle_count++] = (struct nvmlDevice_st){EMU_MAGIC, slot, gpu.generation, instance};
  if (!rc) *device = &handles[at];
  pthread_mutex_unlock(&handles_lock);
  return rc;
}

int emu_is_handle(nvmlDevice_t device) { return device >= handles && device < handles + handle_count && device->magic == EMU_MAGIC; }

nvmlReturn_t emu_text(const char *text, char *out, unsigned length) {
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  if (strlen(text) + 1 > length) return NVML_ERROR_INSUFFICIENT_SIZE;
  strcpy(out, text);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
  EMU_MACHINE();
  EMU_RETURN(emu_text(machine.driver_version, version, length));
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length) {
  EMU_MACHINE();
  EMU_RETURN(emu_text(machine.nvml_version, version, length));
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
  EMU_MACHINE();
  EMU_OUT(version);
  *version = (int)machine.cuda_version;
  EMU_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length) {
  EMU_MACHINE();
  char link[64], target[512];
  snprintf(link, sizeof link, "/proc/%u/exe", pid);
  ssize_t size = readlink(link, target, sizeof target - 1);
  if (size < 0) EMU_RETURN(NVML_ERROR_NOT_FOUND);
  target[size] = 0;
  EMU_RETURN(emu_text(target, name, length));
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
  EMU_MACHINE();
  EMU_OUT(count);
  *count = machine.count;
  EMU_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count) { return nvmlDeviceGetCount_v2(count); }

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
  EMU_MACHINE();
  EMU_OUT(device);
  EMU_BELOW(index, machine.count);
  EMU_RETURN(emu_handle(machine.slots[index], EMU_WHOLE_GPU, device));
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device) { return nvmlDeviceGetHandleByIndex_v2(index, device); }

typedef int (*matcher)(const struct emu_gpu *gpu, const void *wanted);

static nvmlReturn_t find(const struct emu_machine *machine, matcher matches, const void *wanted, nvmlDevice_t *device) {
  for (unsigned i = 0; i < machine->count; i++) {
    struct emu_gpu gpu;
    emu_read_gpu(machine->slots[i], &gpu);
    if (matches(&gpu, wanted)) return emu_handle(machine->slots[i], EMU_WHOLE_GPU, device);
  }
  return NVML_ERROR_NOT_FOUND;
}

static int has_uuid(const struct emu_gpu *gpu, const void *wanted) { return !strcmp(gpu->uuid, wanted); }
static int has_serial(const struct emu_gpu *gpu, const void *wanted) { return gpu->serial[0] && !strcmp(gpu->serial, wanted); }
static int has_address(const struct emu_gpu *gpu, const void *wanted) {
  const unsigned *address = wanted;
  return gpu->pci_domain == address[0] && gpu->pci_bus == address[1] && gpu->pci_device == address[2];
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
  EMU_MACHINE();
  EMU_OUT(uuid && device);
  EMU_RETURN(find(&machine, has_uuid, uuid, device));
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device) {
  EMU_MACHINE();
  EMU_OUT(serial && device);
  EMU_RETURN(find(&machine, has_serial, serial, device));
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device) {
  EMU_MACHINE();
  EMU_OUT(pciBusId && device);
  unsigned address[3];
  if (sscanf(pciBusId, "%x:%x:%x", &address[0], &address[1], &address[2]) != 3) EMU_RETURN(NVML_ERROR_INVALID_ARGUMENT);
  EMU_RETURN(find(&machine, has_address, address, device));
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *pciBusId, nvmlDevice_t *device) {
  return nvmlDeviceGetHandleByPciBusId_v2(pciBusId, device);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index) {
  EMU_GPU(device);
  EMU_OUT(index);
  struct emu_machine machine;
  emu_read_machine(&machine);
  for (*index = 0; *index < machine.count && machine.slots[*index] != device->slot;) ++*index;
  EMU_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
  EMU_GPU(device);
  char text[128];
  if (device->instance == EMU_WHOLE_GPU) snprintf(text, sizeof text, "%s", gpu->uuid);
  else snprintf(text, sizeof text, "MIG-%s/%u/%u", gpu->uuid, gpu->instance_gi[device->instance], gpu->instance_ci[device->instance]);
  EMU_RETURN(emu_text(text, uuid, length));
}

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t *mode) {
  EMU_GPU(device);
  EMU_OUT(mode);
  struct emu_machine machine;
  emu_read_machine(&machine);
  *mode = machine.is_persistent ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
  EMU_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetDriverModel_v2(nvmlDevice_t device, nvmlDriverModel_t *current, nvmlDriverModel_t *pending) {
  (void)current, (void)pending;
  EMU_GPU(device);
  EMU_RETURN(NVML_ERROR_NOT_SUPPORTED);  // Windows only
}

nvmlReturn_t nvmlDeviceGetDriverModel(nvmlDevice_t device, nvmlDriverModel_t *current, nvmlDriverModel_t *pending) {
  return nvmlDeviceGetDriverModel_v2(device, current, pending);
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *isMigDevice) {
  EMU_GPU(device);
  EMU_OUT(isMigDevice);
  *isMigDevice = device->instance != EMU_WHOLE_GPU;
  EMU_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count) {
  EMU_GPU(device);
  EMU_OUT(count);
  *count = gpu->rc[Q_mig_mode] ? 0 : EMU_INSTANCES;
  EMU_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *migDevice) {
  EMU_GPU(device);
  EMU_OUT(migDevice);
  EMU_TRY(emu_allowed(gpu, Q_mig_mode));
  EMU_BELOW(index, EMU_INSTANCES);
  if (!gpu->mig_mode || index >= gpu->instance_count) EMU_RETURN(NVML_ERROR_NOT_FOUND);
  EMU_RETURN(emu_handle(device->slot, index, migDevice));
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t migDevice, nvmlDevice_t *device) {
  EMU_GPU(migDevice);
  EMU_OUT(device);
  if (migDevice->instance == EMU_WHOLE_GPU) EMU_RETURN(NVML_ERROR_INVALID_ARGUMENT);
  EMU_RETURN(emu_handle(migDevice->slot, EMU_WHOLE_GPU, device));
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id) {
  EMU_GPU(device);
  EMU_OUT(id);
  if (device->instance == EMU_WHOLE_GPU) EMU_RETURN(NVML_ERROR_NOT_SUPPORTED);
  *id = gpu->instance_gi[device->instance];
  EMU_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id) {
  EMU_GPU(device);
  EMU_OUT(id);
  if (device->instance == EMU_WHOLE_GPU) EMU_RETURN(NVML_ERROR_NOT_SUPPORTED);
  *id = gpu->instance_ci[device->instance];
  EMU_RETURN(NVML_SUCCESS);
}
