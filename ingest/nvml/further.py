"""Signals beyond the columns of gpu_samples: they become rows of other_readings under these names, when they change and once a day.

NVLink 5 counters are read over all links at once (scope 0xFFFFFFFF); bit error rates come packed and are unpacked to numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingest.nvml.signals import COLD, DAILY, WARM, Call, Field, Signal

ALL_LINKS = 0xFFFFFFFF
PCIE_LANES = 16
_PCIE = (
    *("nak_received", "receiver_error", "bad_tlp", "nak_sent", "bad_dllp"),
    *("non_fatal_error", "fatal_error", "unsupported_request", "lcrc_error"),
)
_NVLINK5 = {
    206: "malformed_packet",
    207: "buffer_overrun",
    208: "receive_error",
    209: "remote_error",
    210: "general_error",
    211: "integrity_error",
    212: "discard",
    213: "recovery_succeeded",
    214: "recovery_failed",
    219: "effective_error",
    221: "symbol_error",
    289: "raw_error_lane0",
    290: "raw_error_lane1",
}
_FIELDS = {
    WARM: {
        22: "dram_ce_aggregate_total",
        23: "dram_ue_aggregate_total",
        75: "thermal_policy_ns_total",
        76: "sync_boost_ns_total",
        77: "board_limit_ns_total",
        78: "low_utilization_ns_total",
        79: "reliability_ns_total",
        81: "below_base_clocks_ns_total",
        95: "pcie_replay_rollover_total",
        231: "c2c_crc_interrupt_total",
        232: "c2c_replay_total",
        233: "c2c_replay_back_to_back_total",
        234: "c2c_power_state",
        301: "remapped_rows_ce_inactive_total",
        302: "remapped_rows_ue_inactive_total",
        303: "bank_remaps_active_total",
        304: "bank_remaps_inactive_total",
        306: "banks_without_spares",
        307: "bank_remap_pending",
    },
    COLD: {
        2: "ecc_mode_pending",
        92: "retired_pages_pending_ce",
        93: "retired_pages_pending_ue",
        170: "c2c_links",
        171: "c2c_status",
        172: "c2c_max_mb_s",
        193: "shutdown_margin_c",
        194: "slowdown_margin_c",
        195: "memory_max_margin_c",
        196: "gpu_max_margin_c",
        197: "pcie_tx_bytes_total",
        198: "pcie_rx_bytes_total",
        258: "power_smoothing_life_left_percent",
        305: "banks_with_all_spares",
        309: "power_smoothing_limited_ns_total",
    },
}
_POWER = {187: "power_limit_min_w", 188: "power_limit_max_w", 189: "power_limit_default_w", 192: "power_limit_requested_w"}
_CALLS = {
    WARM: (
        ("fabric", ("fabric_health_mask", "fabric_health_summary", "fabric_clique")),
        ("repair", ("channel_repair_pending", "tpc_repair_pending")),
        ("unrepairable_memory", ("memory_unrepairable",)),
        ("sram_ce_aggregate", ("sram_ce_aggregate_total",)),
        ("sram_ue_aggregate", ("sram_ue_aggregate_total",)),
        ("mig_mode", ("mig_mode",)),
        ("performance_state", ("performance_state",)),
        ("graphics_clock", ("graphics_clock_mhz",)),
        ("video_clock", ("video_clock_mhz",)),
    ),
    COLD: (
        ("sram_detail", ("sram_parity_aggregate_total", "sram_secded_aggregate_total", "sram_l2_total", "sram_sm_total", "sram_pcie_total",
                         "sram_mcu_total", "sram_other_total")),
        ("sram_addresses", ("sram_unique_addresses",)),
        ("remap_spares", ("remap_banks_max", "remap_banks_high", "remap_banks_partial")),
        ("shutdown_threshold", ("shutdown_c",)),
        ("slowdown_threshold", ("slowdown_c",)),
        ("memory_max_threshold", ("memory_max_c",)),
        ("gpu_max_threshold", ("gpu_max_c",)),
        ("sm_clock_max", ("sm_clock_max_mhz",)),
        ("memory_clock_max", ("memory_clock_max_mhz",)),
        ("pcie_gen_max", ("pcie_link_gen_max",)),
        ("pcie_width_max", ("pcie_link_width_max",)),
        ("persistence", ("persistence_mode",)),
        ("platform", ("platform_slot", "platform_tray", "platform_host", "module_id")),
        ("bbx_flush", ("bbx_flush_ms",)),
        ("process_count", ("compute_process_count",)),
    ),
    DAILY: (("inforom", ("inforom_valid",)),),
}  # fmt: skip


def _fields() -> Iterator[tuple[str, str, Field]]:
    """Give tier, name and field of the signals that are field values."""
    for tier, fields in _FIELDS.items():
        yield from ((tier, name, Field(number)) for number, name in fields.items())
    yield from ((WARM, f"pcie_{name}_total", Field(174 + at)) for at, name in enumerate(_PCIE))
    yield from ((WARM, f"pcie_lane{lane}_error_total", Field(183, scope=lane)) for lane in range(PCIE_LANES))
    yield from ((COLD, name, Field(number, 0.001)) for number, name in _POWER.items())
    yield from ((WARM, name, Field(186, 0.001, scope)) for scope, name in ((1, "module_power_w"), (2, "memory_power_w")))
    yield from ((WARM, f"nvlink_{name}_total", Field(number, scope=ALL_LINKS)) for number, name in _NVLINK5.items())
    yield from ((WARM, f"nvlink_fec_{place}_total", Field(235 + place, scope=ALL_LINKS)) for place in range(16))


FURTHER = (
    *(Signal((name,), float, tier, (field,)) for tier, name, field in _fields()),
    *(Signal(names, float, tier, (Call(call),)) for tier, calls in _CALLS.items() for call, names in calls),
)
BER_FIELDS = {220: "nvlink_effective_ber", 222: "nvlink_symbol_ber"}


def unpack_ber(word: int) -> float:
    """Unpack a bit error rate: bits 0-7 exponent e, 8-11 mantissa m, m × 10^-e; m 15 with e 255, or m 0, is no error at all."""
    mantissa, exponent = word >> 8 & 0xF, word & 0xFF
    if mantissa == 0 or (mantissa, exponent) == (15, 255):
        return 0.0
    return mantissa * 10.0**-exponent
