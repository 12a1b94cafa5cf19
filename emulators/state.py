"""What an emulated part is like at one instant: the one state that the NVML library, the exporter page, the kernel log and the BMC show.

Field names and units are those of the product's tables (docs/tables.md), so that one state can be held against what a collector made of
it; None means that this part has no such value.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(kw_only=True)
class LinkState:
    """One NVLink; counters since driver load."""

    is_up: bool = True
    speed_mb_s: float = 26562.0
    crc_total: int = 0
    replay_total: int = 0
    recovery_total: int = 0


@dataclass(kw_only=True)
class GpuState:
    """One GPU; counters as the hardware shows them (volatile ones restart at driver load)."""

    gpu_uuid: str
    serial: str
    pci: str
    gpu_index: int
    gpu_model: str = "NVIDIA H100 80GB HBM3"
    is_lost: bool = False
    is_hidden: bool = False  # gone from the device list
    uptime_s: float = 0.0
    temp_c: float = 30.0
    memory_temp_c: float | None = 38.0
    thermal_margin_c: float | None = 55.0
    power_w: float = 70.0
    power_limit_w: float = 700.0
    energy_mj_total: int = 0
    sm_clock_mhz: float = 1980.0
    memory_clock_mhz: float = 2619.0
    clock_event_reasons: int = 1
    sw_power_cap_ns_total: int = 0
    sw_thermal_ns_total: int = 0
    hw_thermal_ns_total: int = 0
    hw_power_brake_ns_total: int = 0
    gpu_util_ratio: float = 0.0
    memory_util_ratio: float = 0.0
    memory_used_mb: float = 0.0
    memory_total_mb: float = 81559.0
    pcie_replay_total: int = 0
    pcie_correctable_total: int = 0
    pcie_l0_to_recovery_total: int = 0
    pcie_link_gen: int = 5
    pcie_link_width: int = 16
    recovery_action: int = 0
    xid_last: int | None = None
    dram_ce_volatile_total: int = 0
    dram_ue_volatile_total: int = 0
    sram_ce_volatile_total: int = 0
    sram_ue_volatile_total: int = 0
    dram_ce_aggregate_total: int = 0
    dram_ue_aggregate_total: int = 0
    sram_ce_aggregate_total: int = 0
    sram_ue_aggregate_total: int = 0
    sram_threshold_exceeded: bool = False
    remapped_rows_ce_total: int = 0
    remapped_rows_ue_total: int = 0
    remap_pending: bool = False
    remap_failure: bool = False
    remap_banks_low: int = 0
    remap_banks_none: int = 0
    fabric_state: int = 3
    ecc_mode: bool = True
    links: list[LinkState] = field(default_factory=lambda: [LinkState() for _ in range(18)])


@dataclass(kw_only=True)
class ChassisState:
    """One node's chassis as its BMC sees it; `gpu_temps_c` by slot."""

    node: str
    serial: str
    power_is_on: bool = True
    inlet_temp_c: float = 24.0
    outlet_temp_c: float = 40.0
    fan_rpm: list[float] = field(default_factory=lambda: [9000.0] * 6)
    psu_input_w: list[float] = field(default_factory=lambda: [1200.0] * 4)
    psu_input_v: list[float] = field(default_factory=lambda: [230.0] * 4)
    psu_is_present: list[bool] = field(default_factory=lambda: [True] * 4)
    power_w: float = 4800.0
    gpu_temps_c: list[float] = field(default_factory=lambda: [30.0] * 8)


@dataclass(frozen=True, kw_only=True)
class KernelEvent:
    """One thing the node's kernel log says; the emulated log renders it in the driver's format."""

    at_ns: int
    node: str
    kind: str  # xid, bus_loss, sxid, boot
    gpu_uuid: str | None = None
    serial: str | None = None
    pci: str | None = None
    code: int | None = None
    message: str = ""
    caused_by: int | None = None
