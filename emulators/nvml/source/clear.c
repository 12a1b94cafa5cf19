// The calls that change a GPU's counters: what an administrator clears is cleared for every process.
#include "emu.h"
#include "seqlock.h"
#include <string.h>

// The block to write to, held until emu_seq_commit.
static struct emu_gpu *begin(unsigned slot) {
  emu_seq_begin(&emu_state->gpu_seq[slot]);
  return &emu_state->gpus[slot];
}

nvmlReturn_t nvmlDeviceClearEccErrorCounts(nvmlDevice_t device, nvmlEccCounterType_t counterType) {
  EMU_GPU(device);
  EMU_BELOW(counterType, 2);
  EMU_TRY(emu_allowed(gpu, Q_ecc));
  struct emu_machine machine;
  emu_read_machine(&machine);
  if (!machine.is_privileged) EMU_RETURN(NVML_ERROR_NO_PERMISSION);
  struct emu_gpu *block = begin(device->slot);
  for (unsigned kind = 0; kind < 2; kind++)
    memset(block->ecc + (kind * 2 + counterType) * EMU_ECC_LOCATIONS, 0, EMU_ECC_LOCATIONS * sizeof *block->ecc);
  emu_seq_commit(&emu_state->gpu_seq[device->slot]);
  EMU_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceResetNvLinkErrorCounters(nvmlDevice_t device, unsigned int link) {
  EMU_GPU(device);
  EMU_LINK(link);
  EMU_TRY(emu_allowed(gpu, Q_link_errors));
  struct emu_gpu *block = begin(device->slot);
  memset(block->link_errors + link * EMU_LINK_ERROR_COLUMNS, 0, EMU_LINK_ERROR_COLUMNS * sizeof *block->link_errors);
  emu_seq_commit(&emu_state->gpu_seq[device->slot]);
  EMU_RETURN(NVML_SUCCESS);
}
