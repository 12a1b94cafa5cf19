"""Write a `GpuState` into the block of its GPU: which state field is which quantity, in which unit."""

from __future__ import annotations

from typing import Any

from emulators.nvml.layout import LINKS, QUANTITY
from emulators.state import GpuState, LinkState

MIB = 1024 * 1024
NOT_SUPPORTED = 3
# state field, quantity, factor: plain numbers
_NUMBERS: tuple[tuple[str, str, float], ...] = (
    ("uptime_s", "uptime_s", 1),
    ("power_w", "power_average_mw", 1000),
    ("power_w", "power_instant_mw", 1000),
    ("power_limit_w", "power_limit_mw", 1000),
    ("energy_mj_total", "energy_mj", 1),
    ("clock_event_reasons", "clock_event_reasons", 1),
    ("sw_thermal_ns_total", "sw_thermal_ns", 1),
    ("hw_thermal_ns_total", "hw_thermal_ns", 1),
    ("hw_power_brake_ns_total", "hw_power_brake_ns", 1),
    ("gpu_util_ratio", "gpu_util_percent", 100),
    ("memory_util_ratio", "memory_util_percent", 100),
    ("memory_used_mb", "memory_used", MIB),
    ("memory_total_mb", "memory_total", MIB),
    ("pcie_replay_total", "pcie_replay", 1),
    ("pcie_l0_to_recovery_total", "pcie_l0_to_recovery", 1),
    ("pcie_link_gen", "pcie_gen", 1),
    ("pcie_link_width", "pcie_width", 1),
    ("recovery_action", "recovery_action", 1),
    ("remapped_rows_ce_total", "remapped_ce", 1),
    ("remapped_rows_ue_total", "remapped_ue", 1),
    ("remap_pending", "remap_pending", 1),
    ("remap_failure", "remap_failure", 1),
    ("sram_threshold_exceeded", "sram_threshold_exceeded", 1),
    ("fabric_state", "fabric_state", 1),
    ("ecc_mode", "ecc_mode", 1),
    ("ecc_mode", "ecc_mode_pending", 1),
)
_OPTIONAL = (("memory_temp_c", "memory_temp_c"), ("thermal_margin_c", "margin_c"))
# state field, place in ecc[corrected, uncorrected][volatile, aggregate][location 2 DRAM, 7 SRAM]
_ECC = tuple(
    (f"{place}_{kind}_{counter}_total", (kind_at * 2 + counter_at) * 8 + location)
    for place, location in (("dram", 2), ("sram", 7))
    for kind_at, kind in enumerate(("ce", "ue"))
    for counter_at, counter in enumerate(("volatile", "aggregate"))
)


def show_identity(gpu: GpuState, block: Any) -> None:
    """Write who the GPU is and where it sits."""
    domain, bus, device = gpu.pci.split(".")[0].split(":")
    block.uuid, block.serial, block.name = gpu.gpu_uuid.encode(), gpu.serial.encode(), gpu.gpu_model.encode()
    block.pci_domain, block.pci_bus, block.pci_device = int(domain, 16), int(bus, 16), int(device, 16)


def show_gpu(gpu: GpuState, block: Any) -> None:
    """Write what changes while a GPU works; fields that the state leaves None are not supported."""
    values = vars(gpu)
    block.temp_c = gpu.temp_c
    for name, quantity, factor in _NUMBERS:
        setattr(block, quantity, round(values[name] * factor))
    for name, quantity in _OPTIONAL:
        value = values[name]
        block.rc[QUANTITY[quantity]] = NOT_SUPPORTED if value is None else 0
        setattr(block, quantity, int(value or 0))
    for name, place in _ECC:
        block.ecc[place] = values[name]
    block.rc[QUANTITY["uptime_s"]] = 0
    block.policy_ns[0] = gpu.sw_power_cap_ns_total
    block.clock_mhz[0] = block.clock_mhz[1] = int(gpu.sm_clock_mhz)
    block.clock_mhz[2] = int(gpu.memory_clock_mhz)
    block.pcie_errors[0] = gpu.pcie_correctable_total
    block.sram_status[2], block.sram_status[5] = gpu.sram_ce_aggregate_total, gpu.sram_ce_volatile_total
    block.sram_status[1], block.sram_status[4] = gpu.sram_ue_aggregate_total, gpu.sram_ue_volatile_total
    _show_spares(gpu, block)


def _show_spares(gpu: GpuState, block: Any) -> None:
    """Banks that lost spare rows are no longer among those with all of theirs."""
    histogram = block.remap_histogram
    banks = sum(histogram)
    histogram[3], histogram[4] = gpu.remap_banks_low, gpu.remap_banks_none
    histogram[0] = banks - histogram[1] - histogram[2] - gpu.remap_banks_low - gpu.remap_banks_none


def link_values(links: list[LinkState]) -> list[tuple[Any, ...]]:
    """Pick what of the links is shown; equal values need not be written again."""
    return [(link.is_up, link.speed_mb_s, link.replay_total, link.recovery_total, link.crc_total) for link in links]


def show_links(values: list[tuple[Any, ...]], block: Any) -> None:
    """Write the state, speed and errors of every link (Hopper and earlier: replays, recoveries, CRC errors)."""
    assert len(values) <= LINKS, f"BUG: the layout has room for {LINKS} links"
    block.link_count = len(values)
    for link, (is_up, speed, replays, recoveries, crc) in enumerate(values):
        block.link_up[link] = is_up
        block.link_speed_mb_s[link] = int(speed)
        block.link_errors[link * 5 : link * 5 + 3] = (replays, recoveries, crc)
