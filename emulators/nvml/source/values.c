// Quantities: what a GPU may say (rules and return codes per quantity), ECC sums, and the field values.
#include "emu.h"
#include <string.h>

nvmlReturn_t emu_allowed(const struct emu_gpu *gpu, unsigned quantity) {
  unsigned rules = EMU_QUANTITIES[quantity].rules;
  if (gpu->rc[quantity]) return gpu->rc[quantity];
  if (rules & EMU_RULE_ECC && (gpu->rc[Q_ecc_mode] || !gpu->ecc_mode)) return NVML_ERROR_NOT_SUPPORTED;
  if (rules & EMU_RULE_MIG && gpu->mig_mode) return NVML_ERROR_NOT_SUPPORTED;
  if (rules & EMU_RULE_ROOT) {
    struct emu_machine machine;
    emu_read_machine(&machine);
    if (!machine.is_privileged) return NVML_ERROR_NO_PERMISSION;
  }
  return NVML_SUCCESS;
}

union emu_value emu_load(const struct emu_gpu *gpu, unsigned quantity, unsigned index) {
  const char *at = (const char *)gpu + EMU_QUANTITIES[quantity].offset;
  union emu_value value = {0};
  switch (EMU_QUANTITIES[quantity].kind) {
    case 'U': value.u = ((const uint64_t *)at)[index]; break;
    case 'd': value.d = ((const double *)at)[index]; break;
    case 'i': value.i = ((const int32_t *)at)[index]; break;
    default: value.u = ((const uint32_t *)at)[index];
  }
  if (quantity == Q_link_up && gpu->mig_mode) value.u = 0;  // the links of a MIG-enabled GPU report down
  return value;
}

uint64_t emu_number(union emu_value value, char kind) {
  if (kind == 'd') return (uint64_t)(int64_t)value.d;
  return kind == 'i' ? (uint64_t)(int64_t)value.i : value.u;
}

nvmlReturn_t emu_link(const struct emu_gpu *gpu, unsigned link) {
  if (gpu->rc[Q_link_count] || !gpu->link_count) return NVML_ERROR_NOT_SUPPORTED;
  return link < gpu->link_count ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

// From Turing on a GPU counts in DRAM and SRAM alone; a total is the sum of both.
nvmlReturn_t emu_ecc(const struct emu_gpu *gpu, unsigned kind, unsigned counter, unsigned location, uint64_t *count) {
  const uint64_t *counts = gpu->ecc + (kind * 2 + counter) * EMU_ECC_LOCATIONS;
  nvmlReturn_t rc = emu_allowed(gpu, Q_ecc);
  if (rc) return rc;
  if (location == EMU_ECC_TOTAL) *count = counts[EMU_DRAM] + counts[EMU_SRAM];
  else if (location == EMU_DRAM || location == EMU_SRAM) *count = counts[location];
  else return NVML_ERROR_NOT_SUPPORTED;
  return NVML_SUCCESS;
}

static uint64_t sum_links(const struct emu_gpu *gpu, const struct emu_field *field) {
  uint64_t sum = 0;
  for (unsigned link = 0; link < gpu->link_count; link++) sum += emu_load(gpu, field->quantity, link * field->stride + field->index).u;
  return sum;
}

static nvmlReturn_t element(const struct emu_gpu *gpu, const struct emu_field *field, unsigned scope, unsigned *index) {
  unsigned link = field->rule == EMU_ON_LINK ? field->scope : scope;
  *index = field->index;
  switch (field->rule) {
    case EMU_ON_SCOPE_LINK: case EMU_LINK_OR_ALL: case EMU_ON_LINK:
      *index += link * field->stride;
      return emu_link(gpu, link);
    case EMU_LANE:
      *index = scope;
      return scope < gpu->pcie_width_max ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
    default:
      return NVML_SUCCESS;
  }
}

static nvmlReturn_t read_field(const struct emu_gpu *gpu, const struct emu_field *field, unsigned scope, union emu_value *value) {
  nvmlReturn_t rc = emu_allowed(gpu, field->quantity);
  if (rc) return rc;
  if (field->rule == EMU_ECC) return emu_ecc(gpu, field->index, field->stride, field->scope, &value->u);
  if (field->rule == EMU_TOTAL || (field->rule == EMU_LINK_OR_ALL && scope == EMU_WHOLE_GPU)) {
    value->u = sum_links(gpu, field);
    return emu_link(gpu, 0);
  }
  unsigned index;
  rc = element(gpu, field, scope, &index);
  if (!rc) *value = emu_load(gpu, field->quantity, index);
  return rc;
}

static const struct emu_field *find_field(const struct emu_machine *machine, unsigned id, unsigned scope, nvmlReturn_t *rc) {
  if (EMU_GENERATION == 1206 && (id == 199 || id == 200)) id = 399 - id;  // 12.6 had the two the other way round
  *rc = machine->unknown_field_rc ? machine->unknown_field_rc : NVML_ERROR_NOT_SUPPORTED;
  for (unsigned i = 0; i < EMU_FIELD_COUNT; i++) {
    const struct emu_field *field = &EMU_FIELD_TABLE[i];
    if (field->id != id || field->since > EMU_GENERATION) continue;
    if (field->rule != EMU_SCOPE || field->scope == scope) return field;
    *rc = scope < NVML_POWER_SCOPE_COUNT ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
  }
  return NULL;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount, nvmlFieldValue_t *values) {
  EMU_GPU(device);
  EMU_OUT(values && valuesCount > 0);
  struct emu_machine machine;
  emu_read_machine(&machine);
  for (int i = 0; i < valuesCount; i++) {
    nvmlFieldValue_t *out = &values[i];
    union emu_value value = {0};
    const struct emu_field *field = find_field(&machine, out->fieldId, out->scopeId, &out->nvmlReturn);
    if (field) out->nvmlReturn = read_field(gpu, field, out->scopeId, &value);
    out->timestamp = (long long)(machine.scenario_ns / 1000);
    out->latencyUsec = gpu->field_latency_us;
    out->valueType = field ? (nvmlValueType_t)field->value_type : NVML_VALUE_TYPE_UNSIGNED_INT;
    memset(&out->value, 0, sizeof out->value);
    if (out->nvmlReturn) continue;
    if (out->valueType == NVML_VALUE_TYPE_DOUBLE) out->value.dVal = value.d;
    else if (out->valueType == NVML_VALUE_TYPE_SIGNED_INT) out->value.siVal = value.i;
    else if (out->valueType == NVML_VALUE_TYPE_UNSIGNED_INT) out->value.uiVal = (unsigned)value.u;
    else out->value.ullVal = value.u;
  }
  EMU_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t errorType, nvmlEccCounterType_t counterType,
                                         unsigned long long *eccCounts) {
  EMU_GPU(device);
  EMU_OUT(eccCounts);
  EMU_BELOW(errorType, 2);
  EMU_BELOW(counterType, 2);
  EMU_RETURN(emu_ecc(gpu, errorType, counterType, EMU_ECC_TOTAL, (uint64_t *)eccCounts));
}

nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t errorType, nvmlEccCounterType_t counterType,
                                             nvmlMemoryLocation_t locationType, unsigned long long *count) {
  EMU_GPU(device);
  EMU_OUT(count);
  EMU_BELOW(errorType, 2);
  EMU_BELOW(counterType, 2);
  EMU_BELOW(locationType, EMU_ECC_LOCATIONS);
  EMU_RETURN(emu_ecc(gpu, errorType, counterType, locationType, (uint64_t *)count));
}
