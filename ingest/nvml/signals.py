"""What is read of a GPU, in which tier, and by which ways: the table that the worker reads by and the supervisor names columns from.

A signal has one or more columns and an ordered list of ways to read them: a field of nvmlDeviceGetFieldValues, or a named call. A way
that the driver does not have (not supported, deprecated, not found, other struct version) gives place to the next without a gap; when
none is left, the model does not have the signal. Field ids and units: signals.md 4; ids 199 and 200 changed meaning and are never read.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

HOT, WARM, COLD, DAILY = "hot", "warm", "cold", "daily"
TIERS = {HOT: 0, WARM: 1, COLD: 2, DAILY: 3}


class Field(NamedTuple):
    """A field value; the column is the raw value times `factor`."""

    id: int
    factor: float = 1.0
    scope: int = 0


class Call(NamedTuple):
    """A named call of `ingest.nvml.calls`; gives one value per column, and the quality of those that it means otherwise."""

    name: str
    marks: Mapping[str, str] = MappingProxyType({})


class Signal(NamedTuple):
    """Columns that are read together."""

    columns: tuple[str, ...]
    type: type
    tier: str
    ways: tuple[Field | Call, ...]


def _one(column: str, kind: type, tier: str, *ways: Field | Call) -> Signal:
    return Signal((column,), kind, tier, ways)


SIGNALS: tuple[Signal, ...] = (
    # hot: one batch of fields and a few calls
    _one("temp_c", float, HOT, Field(308), Call("temperature_v"), Call("temperature")),
    _one("memory_temp_c", float, HOT, Field(82)),
    _one("power_w", float, HOT, Field(186, 0.001), Call("power_usage")),
    _one("energy_mj_total", int, HOT, Field(83), Call("energy")),
    _one("sw_power_cap_ns_total", int, HOT, Field(74)),
    _one("sw_thermal_ns_total", int, HOT, Field(269)),
    _one("hw_thermal_ns_total", int, HOT, Field(270)),
    _one("hw_power_brake_ns_total", int, HOT, Field(271)),
    _one("pcie_replay_total", int, HOT, Field(94), Call("pcie_replay")),
    _one("recovery_action", int, HOT, Field(230)),
    _one("clock_event_reasons", int, HOT, Call("clock_event_reasons"), Call("clock_throttle_reasons")),
    _one("sm_clock_mhz", float, HOT, Call("sm_clock")),
    _one("memory_clock_mhz", float, HOT, Call("memory_clock")),
    Signal(("gpu_util_ratio", "memory_util_ratio"), float, HOT, (Call("utilization"),)),
    # The first version counts the reserved part as used, 480 MiB on an H100, and does not tell how much that is.
    Signal(("memory_used_mb", "memory_total_mb"), float, HOT, (Call("memory_v2"), Call("memory", {"memory_used_mb": "with_reserved"}))),
    _one("uptime_s", float, HOT, Call("uptime")),
    # warm
    _one("ecc_ce_volatile_total", int, WARM, Field(3), Call("ecc_ce_volatile")),
    _one("ecc_ue_volatile_total", int, WARM, Field(4), Call("ecc_ue_volatile")),
    _one("ecc_ce_aggregate_total", int, WARM, Field(5), Call("ecc_ce_aggregate")),
    _one("ecc_ue_aggregate_total", int, WARM, Field(6), Call("ecc_ue_aggregate")),
    _one("dram_ce_volatile_total", int, WARM, Field(11), Call("dram_ce_volatile")),
    _one("dram_ue_volatile_total", int, WARM, Field(12), Call("dram_ue_volatile")),
    _one("sram_ce_volatile_total", int, WARM, Call("sram_ce_volatile")),
    _one("sram_ue_volatile_total", int, WARM, Call("sram_ue_volatile")),
    _one("remapped_rows_ce_total", int, WARM, Field(142)),
    _one("remapped_rows_ue_total", int, WARM, Field(143)),
    _one("remap_pending", bool, WARM, Field(144)),
    _one("remap_failure", bool, WARM, Field(145)),
    _one("thermal_margin_c", float, WARM, Call("margin")),
    _one("power_limit_w", float, WARM, Call("power_limit"), Field(190, 0.001)),
    _one("pcie_link_gen", int, WARM, Call("pcie_gen")),
    _one("pcie_link_width", int, WARM, Call("pcie_width")),
    _one("pcie_correctable_total", int, WARM, Field(173)),
    _one("pcie_l0_to_recovery_total", int, WARM, Field(169)),
    _one("fabric_state", int, WARM, Call("fabric_state_v"), Call("fabric_state")),
    # cold
    Signal(("remap_banks_low", "remap_banks_none"), int, COLD, (Call("remap_histogram"),)),
    _one("sram_threshold_exceeded", bool, COLD, Call("sram_threshold")),
    _one("retired_pages_total", int, COLD, Call("retired_pages")),
    _one("retired_pages_pending", bool, COLD, Field(31)),
    _one("ecc_mode", bool, COLD, Field(1), Call("ecc_mode")),
)

LINK_COLUMNS = ("is_up", "speed_mb_s", "crc_total", "replay_total", "recovery_total", "recovery_failed_total")
# Link fields: column and the ways to read it, the link in the scope id; up to NVLink 4 first, then NVLink 5.
LINK_FIELDS: dict[str, tuple[int, ...]] = {
    "is_up": (165,),
    "speed_mb_s": (164, 90),
    "crc_total": (163, 211),
    "replay_total": (161,),
    "recovery_total": (162, 215),
    "recovery_failed_total": (214,),
}
LINK_COUNT_FIELD = 91
# Column of gpu_samples that sums a link column up.
LINK_TOTALS = {
    "nvlink_active": "is_up",
    "nvlink_crc_total": "crc_total",
    "nvlink_replay_total": "replay_total",
    "nvlink_recovery_total": "recovery_total",
}
# Counters that the GPU keeps for life: no restart explains a step back.
LIFETIME = tuple(
    column
    for signal in SIGNALS
    for column in signal.columns
    if column.endswith("_total") and column.startswith(("ecc_ce_aggregate", "ecc_ue_aggregate", "remapped", "retired"))
)
# Counters that restart together at driver load and GPU reset: a joint step back is a new epoch.
VOLATILE = (
    *(column for signal in SIGNALS for column in signal.columns if column.endswith("_total") and column not in LIFETIME),
    *(total for total in LINK_TOTALS if total.endswith("_total")),
)


def columns_of_tier(tier: str) -> tuple[str, ...]:
    """Name the columns that a poll of this tier asks for."""
    return tuple(column for signal in SIGNALS if TIERS[signal.tier] <= TIERS[tier] for column in signal.columns)
