// What the files of the emulated library share: state, gates and the macros that the generated getters are made of.
#pragma once
#define _GNU_SOURCE
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>
#include "layout.h"

#ifndef EMU_GENERATION
#define EMU_GENERATION 1305  // header generation, major * 100 + minor
#endif
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

enum { EMU_PLAIN, EMU_SCOPE, EMU_ON_SCOPE_LINK, EMU_LINK_OR_ALL, EMU_ON_LINK, EMU_TOTAL, EMU_LANE, EMU_ECC };
enum { EMU_FAULT_NONE, EMU_FAULT_RC, EMU_FAULT_ABORT, EMU_FAULT_SEGV };
enum { EMU_LINK_ERROR_COLUMNS = 5, EMU_ECC_LOCATIONS = 8, EMU_ECC_TOTAL = 255, EMU_DRAM = 2, EMU_SRAM = 7 };
#define EMU_WHOLE_GPU 0xFFFFFFFFu

struct emu_quantity { uint32_t offset; char kind; uint8_t rules; };
struct emu_field {
  uint16_t id, since, quantity, index, stride, scope;
  uint8_t rule, value_type;
  char kind;
};
extern const struct emu_quantity EMU_QUANTITIES[Q_COUNT];
extern const struct emu_field EMU_FIELD_TABLE[];
extern const unsigned EMU_FIELD_COUNT;

struct nvmlDevice_st { uint32_t magic, slot, generation, instance; };
union emu_value { uint64_t u; int32_t i; double d; };

extern struct emu_state *emu_state;  // the mapped file; NULL before the first init

// Gates: each call passes one; they count it, apply faults and latencies, and give its first return code.
nvmlReturn_t emu_enter_machine(const char *call, struct emu_machine *machine);
nvmlReturn_t emu_enter_gpu(const char *call, nvmlDevice_t device, const struct emu_gpu **gpu);
nvmlReturn_t emu_leave(const char *call, nvmlReturn_t rc);
nvmlReturn_t emu_stub(const char *call);

void emu_read_machine(struct emu_machine *copy);
void emu_read_gpu(unsigned slot, struct emu_gpu *copy);
nvmlReturn_t emu_handle(unsigned slot, unsigned instance, nvmlDevice_t *device);
int emu_is_handle(nvmlDevice_t device);
void emu_pause(uint64_t microseconds);

nvmlReturn_t emu_allowed(const struct emu_gpu *gpu, unsigned quantity);
union emu_value emu_load(const struct emu_gpu *gpu, unsigned quantity, unsigned index);
nvmlReturn_t emu_ecc(const struct emu_gpu *gpu, unsigned kind, unsigned counter, unsigned location, uint64_t *count);
nvmlReturn_t emu_link(const struct emu_gpu *gpu, unsigned link);
nvmlReturn_t emu_text(const char *text, char *out, unsigned length);
uint64_t emu_number(union emu_value value, char kind);

#define EMU_RETURN(rc) return emu_leave(__func__, (rc))
#define EMU_TRY(expression) do { nvmlReturn_t rc_ = (expression); if (rc_ != NVML_SUCCESS) EMU_RETURN(rc_); } while (0)
#define EMU_MACHINE() struct emu_machine machine; EMU_TRY(emu_enter_machine(__func__, &machine))
#define EMU_GPU(device) const struct emu_gpu *gpu = NULL; EMU_TRY(emu_enter_gpu(__func__, (device), &gpu))
#define EMU_OUT(pointer) if (!(pointer)) EMU_RETURN(NVML_ERROR_INVALID_ARGUMENT)
#define EMU_BELOW(index, limit) if ((unsigned)(index) >= (unsigned)(limit)) EMU_RETURN(NVML_ERROR_INVALID_ARGUMENT)
#define EMU_LINK(link) EMU_TRY(emu_link(gpu, (link)))
#define EMU_VERSION(is_wrong) if (is_wrong) EMU_RETURN(NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
#define EMU_PUT(target, quantity, index) do { \
    EMU_TRY(emu_allowed(gpu, (quantity))); \
    (target) = (__typeof__(target))emu_number(emu_load(gpu, (quantity), (index)), EMU_QUANTITIES[quantity].kind); \
  } while (0)
#define EMU_TEXT(quantity, out, length) do { \
    EMU_TRY(emu_allowed(gpu, (quantity))); \
    EMU_TRY(emu_text((const char *)gpu + EMU_QUANTITIES[quantity].offset, (out), (length))); \
  } while (0)
