// Process lists under all the names and layouts that drivers gave them.
#include "emu.h"
#include <string.h>

#ifdef EMU_R535
// Drivers 535.43 to 535.86 wrote a longer structure under the name of version 3.
struct listed { unsigned int pid; unsigned long long memory; unsigned int gpu_instance, compute_instance; unsigned long long extra; };
#else
struct listed { unsigned int pid; unsigned long long memory; unsigned int gpu_instance, compute_instance; };
_Static_assert(sizeof(struct listed) == sizeof(nvmlProcessInfo_t), "process entry");
#endif
_Static_assert(offsetof(nvmlProcessInfo_t, gpuInstanceId) == sizeof(nvmlProcessInfo_v1_t), "version 1 ends before the instances");

static nvmlReturn_t list(const struct emu_gpu *gpu, unsigned *count, void *out, size_t size) {
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t rc = emu_allowed(gpu, Q_process_count);
  unsigned room = *count;
  if (rc) return rc;
  *count = gpu->process_count;
  if (gpu->process_count && (!out || room < gpu->process_count)) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (unsigned i = 0; i < gpu->process_count; i++) {
    struct listed entry = {.pid = gpu->process_pid[i], .memory = gpu->process_memory[i], .gpu_instance = EMU_WHOLE_GPU, .compute_instance = EMU_WHOLE_GPU};
    memcpy((char *)out + i * size, &entry, size);
  }
  return NVML_SUCCESS;
}

static nvmlReturn_t none(const struct emu_gpu *gpu, unsigned *count) {
  nvmlReturn_t rc = count ? emu_allowed(gpu, Q_process_count) : NVML_ERROR_INVALID_ARGUMENT;
  if (!rc) *count = 0;
  return rc;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount, nvmlProcessInfo_t *infos) {
  EMU_GPU(device);
  EMU_RETURN(list(gpu, infoCount, infos, sizeof(struct listed)));
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *infoCount, nvmlProcessInfo_v2_t *infos) {
  EMU_GPU(device);
  EMU_RETURN(list(gpu, infoCount, infos, sizeof *infos));
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *infoCount, nvmlProcessInfo_v1_t *infos) {
  EMU_GPU(device);
  EMU_RETURN(list(gpu, infoCount, infos, sizeof *infos));
}

#define EMU_NO_PROCESSES(call, type) \
  nvmlReturn_t call(nvmlDevice_t device, unsigned int *infoCount, type *infos) { \
    (void)infos; \
    EMU_GPU(device); \
    EMU_RETURN(none(gpu, infoCount)); \
  }

EMU_NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t)
EMU_NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
EMU_NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
EMU_NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t)
EMU_NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
EMU_NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
