"""The state file shared by the library and its controller, declared once: C structs and the Python mirror are both made from this.

Members are laid out by size (8 bytes first), so that no compiler inserts padding. A GPU's members are also its quantities: the index of
a member is the index of its return code in `rc` (0: the GPU has it; 3: NVML_ERROR_NOT_SUPPORTED; any other code is given as it is).
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

MAGIC = 0x4C4D564E  # "NVML"
ABI = 1
GPUS, LINKS, FAULTS, RING, PROCESSES, INSTANCES, ADDRESSES = 16, 18, 24, 64, 8, 7, 8
NVLINK5 = 22  # fields 201-222 of one link
FEC = 16  # fields 235-250 of one link
NO_INSTANCE = 0xFFFFFFFF

C_TYPES: dict[str, tuple[str, Any]] = {
    "u64": ("uint64_t", ctypes.c_uint64),
    "f64": ("double", ctypes.c_double),
    "u32": ("uint32_t", ctypes.c_uint32),
    "i32": ("int32_t", ctypes.c_int32),
    "char": ("char", ctypes.c_char),
}
ECC, MIG, ROOT = 1, 2, 4  # rules: unknown while ECC is off, while MIG is on, without root


class Member(NamedTuple):
    """One value of the state: `kind` is a key of C_TYPES, `rules` a mask of ECC, MIG, ROOT."""

    name: str
    kind: str
    length: int = 1
    rules: int = 0


def _u64(*names: str, length: int = 1, rules: int = 0) -> list[Member]:
    return [Member(name, "u64", length, rules) for name in names]


def _u32(*names: str, length: int = 1, rules: int = 0) -> list[Member]:
    return [Member(name, "u32", length, rules) for name in names]


def _i32(*names: str, length: int = 1, rules: int = 0) -> list[Member]:
    return [Member(name, "i32", length, rules) for name in names]


def _text(**sizes: int) -> list[Member]:
    return [Member(name, "char", size) for name, size in sizes.items()]


MACHINE = [
    *_u64("scenario_ns"),
    *_u32("driver_generation", "count", "cuda_version", "is_privileged", "is_persistent", "first_call_us"),
    *_u32("slots", length=GPUS),  # list index -> slot
    *_i32("init_rc", "unknown_field_rc"),
    *_text(driver_version=80, nvml_version=80, boot_id=40),
]
FAULT = [*_u32("action", "latency_us", "holds_lock"), *_i32("rc"), *_text(symbol=80)]
EVENT = [*_u64("type", "data", "timestamp_us"), *_u32("gpu_instance", "compute_instance")]

GPU = [
    *_u64("memory_total", "memory_used", "memory_reserved", "bar1_total", "bar1_used", "energy_mj", "clock_event_reasons"),
    Member("policy_ns", "u64", 16),  # time limited per nvmlPerfPolicyType
    *_u64("sw_thermal_ns", "hw_thermal_ns", "hw_power_brake_ns", "event_types"),
    *_u64("ecc", length=32, rules=ECC),  # [corrected, uncorrected][volatile, aggregate][location]
    *_u64("sram_status", length=11, rules=ECC | ROOT),  # in the order of nvmlEccSramErrorStatus_v1_t
    *_u64("pcie_tx_bytes", "pcie_rx_bytes", "bbx_flush_at_us", "bbx_flush_us", "smoothing_limited_ns"),
    *_u64("link_errors", length=LINKS * 5),  # replay, recovery, CRC flit, CRC data, ECC
    *_u64("link_bytes", length=LINKS * 4),  # data TX, data RX, raw TX, raw RX
    *_u64("nvlink5", length=LINKS * NVLINK5),
    *_u64("fec", length=LINKS * FEC),
    *_u64("raw_errors", length=LINKS * 2),
    *_u64("raw_ber", length=LINKS * 3),
    *_u64("process_memory", length=PROCESSES),
    *_u64("instance_memory", length=INSTANCES),
    Member("temp_c", "f64"),
    *_u32("memory_temp_c", "shutdown_c", "slowdown_c", "memory_max_c", "gpu_max_c"),
    *_i32("margin_c", "shutdown_limit_c", "slowdown_limit_c", "memory_max_limit_c", "gpu_max_limit_c"),
    *_u32("power_average_mw", "power_instant_mw", "module_average_mw", "module_instant_mw", "memory_average_mw", "memory_instant_mw"),
    *_u32("power_min_mw", "power_max_mw", "power_default_mw", "power_limit_mw", "power_requested_mw"),
    *_u32("module_min_mw", "module_max_mw", "module_default_mw", "module_limit_mw", "module_requested_mw"),
    *_u32("clock_mhz", "clock_max_mhz", "clock_application_mhz", length=4),  # graphics, SM, memory, video
    *_u32("gpu_util_percent", "memory_util_percent", rules=MIG),
    *_u32("encoder_percent", "decoder_percent", "performance_state", "power_state", "fan_percent"),
    *_u32("pcie_gen", "pcie_gen_max", "pcie_gen_device_max", "pcie_width", "pcie_width_max", "pcie_replay", "pcie_rollover"),
    *_u32("pcie_l0_to_recovery"),
    *_u32("pcie_errors", length=10),  # fields 173-182
    *_u32("pcie_lane_errors", length=32),
    *_u32("remapped_ce", "remapped_ue", "remap_pending", "remap_failure", rules=MIG),
    *_u32("remapped_ce_inactive", "remapped_ue_inactive", rules=MIG),
    *_u32("remap_histogram", length=5),  # max, high, partial, low, none
    *_u32("banks_active", "banks_inactive", "bank_pending", "bank_histogram_max", "bank_histogram_none"),
    *_u32("retired_sbe", "retired_dbe", "retired_pending", "retired_pending_sbe", "retired_pending_dbe"),
    *_u32("sram_threshold_exceeded", rules=ECC | ROOT),
    *_u32("sram_address_count", rules=ECC | ROOT),
    *_u32("sram_addresses", length=ADDRESSES * 7, rules=ECC | ROOT),
    *_u32("channel_repair_pending", "tpc_repair_pending", "memory_unrepairable", "recovery_action", "inforom_rc", "uptime_s"),
    *_u32("ecc_mode", "ecc_mode_pending", "mig_mode", "mig_mode_pending", "compute_mode", "display_mode", "display_active"),
    *_u32("link_count", "link_version", "mig_query_capable", "link_power_threshold_max"),
    *_u32("link_up", "link_speed_mb_s", "link_data_rate_mb_s", "link_low_power", "link_low_power_threshold", length=LINKS),
    *_u32("c2c_links", "c2c_enabled", "c2c_status", "c2c_max_mb_s", "c2c_errors", "c2c_replays", "c2c_replays_b2b", "c2c_power_state"),
    *_u32("fabric_state", "fabric_health_mask", "fabric_summary", "fabric_clique", "fabric_rc"),
    *_u32("smoothing_percent_left", rules=ROOT),
    *_u32("minor", "pci_domain", "pci_bus", "pci_device", "pci_device_id", "pci_subsystem_id", "capability_major", "capability_minor"),
    *_u32("module_id", "platform_slot", "platform_tray", "platform_host", "platform_peer", "architecture", "brand"),
    *_u32("process_count", rules=MIG),
    *_u32("process_pid", length=PROCESSES),
    *_u32("instance_count"),
    *_u32("instance_gi", "instance_ci", length=INSTANCES),
    *_text(name=96, uuid=96, serial=32, vbios=32, inforom_image=16, part_number=80, gsp_firmware=64, chassis_serial=16),
    *_text(ib_guid=16, cluster_uuid=16),
]
# How the driver treats the GPU, beside what the GPU is: not quantities.
CONDITION = [*_u32("generation", "latency_us", "field_latency_us"), *_i32("device_rc", "handle_rc"), Member("rc", "i32", len(GPU))]

QUANTITY = {member.name: index for index, member in enumerate(GPU)}


def in_memory_order(members: list[Member]) -> list[Member]:
    """Order members so that each is aligned without padding."""
    return sorted(members, key=lambda member: -ctypes.sizeof(C_TYPES[member.kind][1]))


def _mirror(name: str, members: list[Member]) -> Any:
    fields = [(m.name, C_TYPES[m.kind][1] * m.length if m.length > 1 else C_TYPES[m.kind][1]) for m in in_memory_order(members)]
    size = sum(ctypes.sizeof(kind) for _, kind in fields)
    if size % 8:
        fields.append(("_padding", ctypes.c_char * (8 - size % 8)))
    return type(name, (ctypes.Structure,), {"_fields_": fields})


Machine: Any = _mirror("Machine", MACHINE)
Fault: Any = _mirror("Fault", FAULT)
Event: Any = _mirror("Event", EVENT)
Gpu: Any = _mirror("Gpu", GPU + CONDITION)


class Ring(ctypes.Structure):
    """The last events of one GPU; `posted` only grows, `lost` counts what a slow reader missed."""

    _fields_ = (("posted", ctypes.c_uint64), ("lost", ctypes.c_uint64), ("events", Event * RING))


class State(ctypes.Structure):
    """The whole file: head, values that the library itself changes, then the blocks under a sequence lock each."""

    _fields_ = (
        ("magic", ctypes.c_uint32),
        ("abi", ctypes.c_uint32),
        ("size", ctypes.c_uint64),
        ("calls", ctypes.c_uint64),
        ("torn_reads", ctypes.c_uint64),
        ("bell", ctypes.c_uint32),  # futex: grows with every event and reload
        ("machine_seq", ctypes.c_uint32),
        ("gpu_seq", ctypes.c_uint32 * GPUS),
        ("fault_calls", ctypes.c_int32 * FAULTS),  # calls for which a fault is still on; below zero: for ever
        ("machine", Machine),
        ("faults", Fault * FAULTS),
        ("rings", Ring * GPUS),
        ("gpus", Gpu * GPUS),
    )


BLOCKS: dict[str, tuple[Any, list[Member]]] = {
    "machine": (Machine, MACHINE),
    "fault": (Fault, FAULT),
    "event": (Event, EVENT),
    "gpu": (Gpu, GPU + CONDITION),
}
