"""What each GPU model is like when idle: values of one captured machine each (`nvidia-smi -q` in NVIDIA/k8s-test-infra).

A quantity that the capture does not show is not supported. Values that are assumptions and not in any capture are named in `assumed`.
Identifiers are synthetic: they come from the state that is shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MIB = 1024 * 1024
Value = float | tuple[float, ...] | str


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Baseline of one model: quantity to value; a tuple fills an array from its start."""

    model: str
    driver_version: str
    cuda_version: int
    is_persistent: bool = True
    values: dict[str, Value]
    assumed: frozenset[str] = frozenset()
    links: int = 0
    codes: dict[str, int] = field(default_factory=dict)  # quantity -> return code of its calls

    def baseline(self) -> dict[str, Any]:
        """Everything that this model supports."""
        return {**_EVERY_MODEL, **self.values}


# True of any GPU that a driver serves; what the captures all show alike.
_EVERY_MODEL: dict[str, Value] = {
    "clock_event_reasons": 0x1,
    "event_types": 0x1 | 0x2 | 0x8,
    "encoder_percent": 0,
    "decoder_percent": 0,
    "gpu_util_percent": 0,
    "memory_util_percent": 0,
    "memory_used": 0,
    "performance_state": 0,
    "compute_mode": 0,
    "display_active": 0,
    "ecc_mode": 1,
    "ecc_mode_pending": 1,
    "ecc": (0,) * 32,
    "process_count": 0,
    "recovery_action": 0,
    "inforom_rc": 0,
    "pcie_rollover": 0,
    "minor": 0,
    "brand": 0,
    "name": "",
    "uuid": "",
    "serial": "",
    "pci_domain": 0,
    "pci_bus": 0,
    "pci_device": 0,
}

H100 = Profile(
    model="NVIDIA H100 80GB HBM3",
    driver_version="580.105.08",
    cuda_version=13000,
    links=18,
    values={
        "vbios": "96.00.99.00.01",
        "inforom_image": "G520.0200.00.05",
        "pci_device_id": 0x233010DE,
        "pci_subsystem_id": 0x16C110DE,
        "memory_total": 81559 * MIB,
        "memory_reserved": 480 * MIB,
        "bar1_total": 131072 * MIB,
        "bar1_used": 0,
        "temp_c": 30,
        "memory_temp_c": 38,
        "margin_c": 56,
        "shutdown_limit_c": -8,
        "slowdown_limit_c": -2,
        "memory_max_limit_c": 0,
        "gpu_max_limit_c": 0,
        "power_average_mw": 69000,
        "power_instant_mw": 69000,
        "memory_average_mw": 40000,
        "memory_instant_mw": 40000,
        "power_min_mw": 200_000,
        "power_max_mw": 700_000,
        "power_default_mw": 700_000,
        "power_limit_mw": 700_000,
        "power_requested_mw": 700_000,
        "clock_mhz": (345, 345, 2619, 765),
        "clock_max_mhz": (1980, 1980, 2619, 1545),
        "clock_application_mhz": (1980, 1980, 2619, 1545),
        "power_state": 0,
        "policy_ns": (7_015_000_000_000,),
        "sw_thermal_ns": 0,
        "hw_thermal_ns": 0,
        "hw_power_brake_ns": 0,
        "energy_mj": 0,
        "pcie_gen": 5,
        "pcie_gen_max": 5,
        "pcie_gen_device_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "pcie_replay": 150,
        "pcie_l0_to_recovery": 0,
        "pcie_errors": (0,) * 10,
        "remapped_ce": 0,
        "remapped_ue": 0,
        "remap_pending": 0,
        "remap_failure": 0,
        "remap_histogram": (2560, 0, 0, 0, 0),
        "sram_status": (0,) * 11,
        "sram_threshold_exceeded": 0,
        "channel_repair_pending": 0,
        "tpc_repair_pending": 0,
        "fabric_state": 3,
        "fabric_clique": 0,
        "module_id": 1,
        "c2c_enabled": 0,
        "bbx_flush_at_us": 0,
        "bbx_flush_us": 110_000,
        "mig_mode": 0,
        "mig_mode_pending": 0,
        "capability_major": 9,
        "capability_minor": 0,
        "architecture": 9,
        "link_count": 18,
        "link_version": 4,
        "link_up": (1,) * 18,
        "link_speed_mb_s": (26562,) * 18,
        "link_errors": (0,) * 90,
        "link_bytes": (0,) * 72,
    },
    assumed=frozenset({"energy_mj", "pcie_l0_to_recovery", "pcie_errors", "link_errors", "link_bytes", "link_version"}),
)

PROFILES = {profile.model: profile for profile in (H100,)}
