// Calls about a GPU's parts whose answers are more than one quantity: memory, PCI, temperatures, power, links, fabric, InfoROM.
#include "emu.h"
#include <stdio.h>
#include <string.h>

static uint64_t memory_total(const struct emu_gpu *gpu, nvmlDevice_t device) {
  return device->instance == EMU_WHOLE_GPU ? gpu->memory_total : gpu->instance_memory[device->instance];
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
  EMU_GPU(device);
  EMU_OUT(memory);
  EMU_TRY(emu_allowed(gpu, Q_memory_total));
  memory->total = memory_total(gpu, device);
  memory->used = gpu->memory_used + gpu->memory_reserved;  // version 1 counts the reserved part as used
  memory->free = memory->total > memory->used ? memory->total - memory->used : 0;
  EMU_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
  EMU_GPU(device);
  EMU_OUT(memory);
  EMU_VERSION(memory->version != nvmlMemory_v2);
  EMU_TRY(emu_allowed(gpu, Q_memory_total));
  memory->total = memory_total(gpu, device);
  memory->reserved = gpu->memory_reserved;
  memory->used = gpu->memory_used;
  uint64_t taken = memory->used + memory->reserved;
  memory->free = memory->total > taken ? memory->total - taken : 0;
  EMU_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *bar1Memory) {
  EMU_GPU(device);
  EMU_OUT(bar1Memory);
  EMU_TRY(emu_allowed(gpu, Q_bar1_total));
  bar1Memory->bar1Total = gpu->bar1_total;
  bar1Memory->bar1Used = gpu->bar1_used;
  bar1Memory->bar1Free = gpu->bar1_total - gpu->bar1_used;
  EMU_RETURN(NVML_SUCCESS);
}

static void fill_pci(const struct emu_gpu *gpu, nvmlPciInfo_t *pci) {
  memset(pci, 0, sizeof *pci);
  pci->domain = gpu->pci_domain;
  pci->bus = gpu->pci_bus;
  pci->device = gpu->pci_device;
  pci->pciDeviceId = gpu->pci_device_id;
  pci->pciSubSystemId = gpu->pci_subsystem_id;
  snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xffff, pci->bus & 0xff, pci->device & 0xff);
  snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus & 0xff, pci->device & 0xff);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
  EMU_GPU(device);
  EMU_OUT(pci);
  fill_pci(gpu, pci);
  EMU_RETURN(NVML_SUCCESS);
}

// Older versions of the structure are beginnings of it: callers have room for no more.
static nvmlReturn_t older_pci(nvmlDevice_t device, nvmlPciInfo_t *pci, size_t size) {
  nvmlPciInfo_t full;
  nvmlReturn_t rc = nvmlDeviceGetPciInfo_v3(device, pci ? &full : NULL);
  if (!rc) memcpy(pci, &full, size);
  return rc;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci) {
  return older_pci(device, pci, offsetof(nvmlPciInfo_t, busId));
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci) {
  return older_pci(device, pci, offsetof(nvmlPciInfo_t, pciSubSystemId));
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensorType, unsigned int *temp) {
  EMU_GPU(device);
  EMU_OUT(temp);
  EMU_BELOW(sensorType, NVML_TEMPERATURE_COUNT);
  EMU_PUT(*temp, Q_temp_c, 0);
  EMU_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t thresholdType, unsigned int *temp) {
  static const unsigned QUANTITIES[] = {Q_shutdown_c, Q_slowdown_c, Q_memory_max_c, Q_gpu_max_c};
  EMU_GPU(device);
  EMU_OUT(temp);
  EMU_BELOW(thresholdType, NVML_TEMPERATURE_THRESHOLD_COUNT);
  if ((unsigned)thresholdType >= sizeof QUANTITIES / sizeof *QUANTITIES) EMU_RETURN(NVML_ERROR_NOT_SUPPORTED);
  EMU_PUT(*temp, QUANTITIES[thresholdType], 0);
  EMU_RETURN(NVML_SUCCESS);
}

// A 1-s average where the GPU keeps one, else (GA100) the instant value.
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *power) {
  EMU_GPU(device);
  EMU_OUT(power);
  unsigned quantity = gpu->rc[Q_power_average_mw] == NVML_ERROR_NOT_SUPPORTED ? Q_power_instant_mw : Q_power_average_mw;
  EMU_PUT(*power, quantity, 0);
  EMU_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, nvmlPerfPolicyType_t perfPolicyType, nvmlViolationTime_t *violTime) {
  EMU_GPU(device);
  EMU_OUT(violTime);
  EMU_BELOW(perfPolicyType, NVML_PERF_POLICY_COUNT);
  struct emu_machine machine;
  emu_read_machine(&machine);
  violTime->referenceTime = machine.scenario_ns / 1000;
  EMU_PUT(violTime->violationTime, Q_policy_ns, perfPolicyType);
  EMU_RETURN(NVML_SUCCESS);
}

static nvmlReturn_t sampled_percent(const struct emu_gpu *gpu, unsigned quantity, unsigned *percent, unsigned *period) {
  nvmlReturn_t rc = percent && period ? emu_allowed(gpu, quantity) : NVML_ERROR_INVALID_ARGUMENT;
  if (rc) return rc;
  *percent = (unsigned)emu_load(gpu, quantity, 0).u;
  *period = 167000;  // 1/6 s
  return rc;
}

nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned int *utilization, unsigned int *samplingPeriodUs) {
  EMU_GPU(device);
  EMU_RETURN(sampled_percent(gpu, Q_encoder_percent, utilization, samplingPeriodUs));
}

nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned int *utilization, unsigned int *samplingPeriodUs) {
  EMU_GPU(device);
  EMU_RETURN(sampled_percent(gpu, Q_decoder_percent, utilization, samplingPeriodUs));
}

nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned int fan, unsigned int *speed) {
  EMU_GPU(device);
  EMU_OUT(speed);
  if (fan) EMU_RETURN(NVML_ERROR_INVALID_ARGUMENT);
  EMU_PUT(*speed, Q_fan_percent, 0);
  EMU_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter, unsigned int *value) {
  EMU_GPU(device);
  EMU_OUT(value);
  EMU_BELOW(counter, NVML_PCIE_UTIL_COUNT);
  emu_pause(20000);  // the driver measures for 20 ms
  *value = 0;
  EMU_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link, nvmlNvLinkErrorCounter_t counter,
                                             unsigned long long *counterValue) {
  EMU_GPU(device);
  EMU_OUT(counterValue);
  EMU_LINK(link);
  EMU_BELOW(counter, EMU_LINK_ERROR_COLUMNS);
  EMU_PUT(*counterValue, Q_link_errors, link * EMU_LINK_ERROR_COLUMNS + counter);
  EMU_RETURN(NVML_SUCCESS);
}

static nvmlReturn_t fabric_code(const struct emu_gpu *gpu) {
  nvmlReturn_t rc = emu_allowed(gpu, Q_fabric_state);
  return rc ? rc : gpu->fabric_state ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info) {
  EMU_GPU(device);
  EMU_OUT(info);
  EMU_TRY(fabric_code(gpu));
  memcpy(info->clusterUuid, gpu->cluster_uuid, sizeof info->clusterUuid);
  info->status = gpu->fabric_rc;
  info->cliqueId = gpu->fabric_clique;
  info->state = gpu->fabric_state;
  EMU_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *info) {
  EMU_GPU(device);
  EMU_OUT(info);
  int is_v3 = info->version == nvmlGpuFabricInfo_v3 && EMU_GENERATION >= 1300;
  EMU_VERSION(!is_v3 && info->version != nvmlGpuFabricInfo_v2);
  EMU_TRY(fabric_code(gpu));
  memcpy(info->clusterUuid, gpu->cluster_uuid, sizeof info->clusterUuid);
  info->status = gpu->fabric_rc;
  info->cliqueId = gpu->fabric_clique;
  info->state = gpu->fabric_state;
  info->healthMask = gpu->fabric_health_mask;
  if (is_v3) info->healthSummary = (unsigned char)gpu->fabric_summary;
  EMU_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetPlatformInfo(nvmlDevice_t device, nvmlPlatformInfo_t *info) {
  EMU_GPU(device);
  EMU_OUT(info);
  EMU_VERSION(info->version != nvmlPlatformInfo_v2);
  EMU_TRY(emu_allowed(gpu, Q_module_id));
  memcpy(info->ibGuid, gpu->ib_guid, sizeof info->ibGuid);
  memcpy(info->chassisSerialNumber, gpu->chassis_serial, sizeof info->chassisSerialNumber);
  info->slotNumber = (unsigned char)gpu->platform_slot;
  info->trayIndex = (unsigned char)gpu->platform_tray;
  info->hostId = (unsigned char)gpu->platform_host;
  info->peerType = (unsigned char)gpu->platform_peer;
  info->moduleId = (unsigned char)gpu->module_id;
  EMU_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts(nvmlDevice_t device, nvmlEccSramUniqueUncorrectedErrorCounts_t *counts) {
  EMU_GPU(device);
  EMU_OUT(counts);
  EMU_VERSION(counts->version != nvmlEccSramUniqueUncorrectedErrorCounts_v1);
  EMU_TRY(emu_allowed(gpu, Q_sram_address_count));
  unsigned room = counts->entryCount, held = gpu->sram_address_count;
  counts->entryCount = held;
  if (!counts->entries || room < held) EMU_RETURN(counts->entries ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS);
  _Static_assert(sizeof *counts->entries == 7 * sizeof(uint32_t), "an entry is seven words, as in the state");
  memcpy(counts->entries, gpu->sram_addresses, held * sizeof *counts->entries);
  EMU_RETURN(NVML_SUCCESS);
}

// The number of pages is known; their addresses are not part of the state.
nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, nvmlPageRetirementCause_t cause, unsigned int *pageCount,
                                       unsigned long long *addresses) {
  EMU_GPU(device);
  EMU_OUT(pageCount);
  EMU_BELOW(cause, NVML_PAGE_RETIREMENT_CAUSE_COUNT);
  unsigned quantity = cause == NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR ? Q_retired_dbe : Q_retired_sbe;
  EMU_TRY(emu_allowed(gpu, quantity));
  unsigned room = *pageCount;
  *pageCount = (unsigned)emu_load(gpu, quantity, 0).u;
  if (addresses && room < *pageCount) EMU_RETURN(NVML_ERROR_INSUFFICIENT_SIZE);
  for (unsigned i = 0; addresses && i < *pageCount; i++) addresses[i] = 0;
  EMU_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, nvmlPageRetirementCause_t cause, unsigned int *pageCount,
                                          unsigned long long *addresses, unsigned long long *timestamps) {
  unsigned room = pageCount ? *pageCount : 0;
  nvmlReturn_t rc = nvmlDeviceGetRetiredPages(device, cause, pageCount, addresses);
  for (unsigned i = 0; !rc && timestamps && i < *pageCount && i < room; i++) timestamps[i] = 0;
  return rc;
}

nvmlReturn_t nvmlDeviceValidateInforom(nvmlDevice_t device) {
  EMU_GPU(device);
  EMU_RETURN(gpu->rc[Q_inforom_rc] ? gpu->rc[Q_inforom_rc] : (int)gpu->inforom_rc);
}

nvmlReturn_t nvmlDeviceGetLastBBXFlushTime(nvmlDevice_t device, unsigned long long *timestamp, unsigned long *durationUs) {
  EMU_GPU(device);
  EMU_OUT(timestamp && durationUs);
  EMU_PUT(*timestamp, Q_bbx_flush_at_us, 0);
  EMU_PUT(*durationUs, Q_bbx_flush_us, 0);
  EMU_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version) {
  EMU_GPU(device);
  EMU_TEXT(Q_gsp_firmware, version, NVML_GSP_FIRMWARE_VERSION_BUF_SIZE);
  EMU_RETURN(NVML_SUCCESS);
}
