// Event sets: XIDs and other events of the rings, from the moment of registration on; a wait sleeps on the bell of the state file.
#include "emu.h"
#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct nvmlEventSet_st {
  uint64_t types[EMU_GPUS], next[EMU_GPUS];
  nvmlDevice_t devices[EMU_GPUS];
  uint32_t driver_generation;  // a set dies with the driver it was made in
};

static uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void wait_for_bell(uint32_t heard, uint64_t milliseconds) {
  struct timespec limit = {(time_t)(milliseconds / 1000), (long)(milliseconds % 1000) * 1000000};
  syscall(SYS_futex, &emu_state->bell, FUTEX_WAIT, heard, &limit, NULL, 0);
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) {
  EMU_MACHINE();
  EMU_OUT(set);
  *set = calloc(1, sizeof **set);
  if (*set) (*set)->driver_generation = machine.driver_generation;
  EMU_RETURN(*set ? NVML_SUCCESS : NVML_ERROR_MEMORY);
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  free(set);
  EMU_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long eventTypes, nvmlEventSet_t set) {
  EMU_GPU(device);
  EMU_OUT(set);
  EMU_TRY(emu_allowed(gpu, Q_event_types));
  if (eventTypes & ~gpu->event_types) EMU_RETURN(NVML_ERROR_NOT_SUPPORTED);
  set->types[device->slot] |= eventTypes;
  set->devices[device->slot] = device;
  set->next[device->slot] = __atomic_load_n(&emu_state->rings[device->slot].posted, __ATOMIC_ACQUIRE);
  EMU_RETURN(NVML_SUCCESS);
}

// Severity and log-level filters are taken as "all": the state has no events below them.
nvmlReturn_t nvmlEventSetRegisterGpuOperationalEvents_v1(nvmlEventSet_t eventSet, const nvmlGpuOperationalEventConfig_v1_t *config) {
  EMU_MACHINE();
  EMU_OUT(eventSet && config);
  for (unsigned i = 0; i < machine.count; i++) {
    struct emu_gpu gpu;
    unsigned slot = machine.slots[i];
    emu_read_gpu(slot, &gpu);
    if (strncmp(gpu.uuid, config->uuid, sizeof config->uuid)) continue;
    EMU_TRY(emu_handle(slot, EMU_WHOLE_GPU, &eventSet->devices[slot]));
    eventSet->types[slot] = gpu.event_types;
    eventSet->next[slot] = __atomic_load_n(&emu_state->rings[slot].posted, __ATOMIC_ACQUIRE);
    EMU_RETURN(NVML_SUCCESS);
  }
  EMU_RETURN(NVML_ERROR_GPU_NOT_FOUND);
}

// Take the next event of one GPU; what the ring has overwritten is lost and counted.
static int take(nvmlEventSet_t set, unsigned slot, struct emu_event *event) {
  struct emu_ring *ring = &emu_state->rings[slot];
  while (set->types[slot]) {
    uint64_t posted = __atomic_load_n(&ring->posted, __ATOMIC_ACQUIRE);
    if (posted > set->next[slot] + EMU_RING) {
      __atomic_add_fetch(&ring->lost, posted - EMU_RING - set->next[slot], __ATOMIC_RELAXED);
      set->next[slot] = posted - EMU_RING;
    }
    if (set->next[slot] >= posted) return 0;
    *event = ring->events[set->next[slot] % EMU_RING];
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&ring->posted, __ATOMIC_RELAXED) > set->next[slot] + EMU_RING) continue;  // overwritten while it was read
    set->next[slot]++;
    if (event->type & set->types[slot]) return 1;
  }
  return 0;
}

static nvmlReturn_t wait_event(const char *call, nvmlEventSet_t set, uint64_t milliseconds, nvmlDevice_t *device, struct emu_event *event) {
  for (uint64_t end = now_ms() + milliseconds;;) {
    uint32_t heard = __atomic_load_n(&emu_state->bell, __ATOMIC_ACQUIRE);
    struct emu_machine machine;
    nvmlReturn_t rc = emu_enter_machine(call, &machine);
    if (rc) return rc;
    if (machine.driver_generation != set->driver_generation) return NVML_ERROR_GPU_IS_LOST;
    for (unsigned slot = 0; slot < EMU_GPUS; slot++)
      if (take(set, slot, event)) return *device = set->devices[slot], NVML_SUCCESS;
    uint64_t now = now_ms();
    if (now >= end) return NVML_ERROR_TIMEOUT;
    wait_for_bell(heard, end - now);
  }
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeoutms) {
  EMU_MACHINE();
  EMU_OUT(set && data);
  struct emu_event event;
  EMU_TRY(wait_event(__func__, set, timeoutms, &data->device, &event));
  data->eventType = event.type;
  data->eventData = event.data;
  data->gpuInstanceId = event.gpu_instance;
  data->computeInstanceId = event.compute_instance;
  EMU_RETURN(NVML_SUCCESS);
}

// The first version knows no instances.
nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeoutms) {
  nvmlEventData_t full;
  nvmlReturn_t rc = nvmlEventSetWait_v2(set, &full, timeoutms);
  if (!rc && data) memcpy(data, &full, offsetof(nvmlEventData_t, gpuInstanceId));
  return rc;
}

nvmlReturn_t nvmlEventSetWait_v3(nvmlEventSet_t set, nvmlEventSetWait_v3_t *wait) {
  EMU_MACHINE();
  EMU_OUT(set && wait);
  struct emu_event event;
  nvmlDevice_t device;
  EMU_TRY(wait_event(__func__, set, wait->timeoutMs, &device, &event));
  struct emu_gpu gpu;
  emu_read_gpu(device->slot, &gpu);
  unsigned timeout = wait->timeoutMs;
  memset(wait, 0, sizeof *wait);
  wait->timeoutMs = timeout;
  memcpy(wait->uuid, gpu.uuid, sizeof wait->uuid);
  wait->eventType = event.type;
  wait->eventData = event.data;
  wait->timestampUsec = event.timestamp_us;
  wait->gpuInstanceId = event.gpu_instance;
  wait->computeInstanceId = event.compute_instance;
  EMU_RETURN(NVML_SUCCESS);
}
