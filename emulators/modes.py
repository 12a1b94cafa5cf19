"""The failure modes of the emulated fleet: rate, share with a visible precursor, lead and repair of each, and the profiles.

Rates are failures per 1000 node-days in service of the Llama 3 interruption table (419 events in 110,592 node-days), with 0.15 and
0.30 carved out of "faulty GPU" for the bus and for NVLink. Shares and leads are guesses except for HBM and DRAM: sweep them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_THOUSAND_NODE_DAYS = 110.592


@dataclass(frozen=True)
class Lead:
    """Time from the first sign to the failure: lognormal by median and sigma, or uniform between two bounds, in hours."""

    median_h: float = 0.0
    sigma: float = 0.0
    low_h: float = 0.05
    high_h: float = 24 * 30.0
    is_uniform: bool = False


@dataclass(frozen=True)
class Mode:
    """One failure mode; `scope` says what it befalls: a gpu, a node, a job on a healthy node, or a planned outage."""

    id: str
    scope: str  # gpu, node, job or maintenance
    rate: float
    share: float = 0.0
    lead: Lead = Lead()
    repeat_p: float = 0.0  # a repair that did not help: the same part fails again
    action: str = "reboot"  # what usually ends it
    rma_p: float = 0.0  # share that needs a new part

    @property
    def is_hardware(self) -> bool:
        """Tell hardware from software and planned outages."""
        return self.scope in ("gpu", "node")


def _counted(events: float) -> float:
    return events / _THOUSAND_NODE_DAYS


_HOURS = Lead(low_h=1.0, high_h=48.0, is_uniform=True)
_MODES = (
    Mode("hbm_ue", "gpu", _counted(72), 0.40, Lead(20.0, 1.8), 0.29, "reset", 0.30),
    Mode("sram_ecc", "gpu", _counted(19), 0.10, Lead(4.0, 1.0), 0.10, "reset", 0.50),
    Mode("gpu_faulty", "gpu", _counted(148) - 0.45, 0.25, Lead(6.0, 1.5), 0.20, "reseat", 0.50),
    Mode("gsp", "gpu", _counted(17), 0.0, Lead(), 0.05, "reboot"),
    Mode("fell_off_bus", "gpu", 0.15, 0.60, Lead(0.25, 0.6, 0.1, 1.0), 0.15, "reseat", 0.20),
    Mode("pmu_spi", "gpu", 0.0, 0.0, Lead(), 0.0, "reset"),
    Mode("nvlink", "gpu", 0.30, 0.35, Lead(12.0, 1.5), 0.25, "reset", 0.15),
    Mode("nic", "node", _counted(7), 0.30, _HOURS, 0.0, "reseat", 0.30),
    Mode("switch_cable", "node", _counted(35), 0.30, _HOURS, 0.0, "reseat", 0.20),
    Mode("thermal", "gpu", _counted(6), 0.80, Lead(low_h=24.0, high_h=336.0, is_uniform=True), 0.0, "reseat", 0.20),
    Mode("psu_vr", "node", _counted(3), 0.30, Lead(low_h=2.0, high_h=24.0, is_uniform=True), 0.0, "rma", 1.0),
    Mode("ssd", "node", _counted(3), 0.50, Lead(72.0, 0.8), 0.0, "rma", 1.0),
    Mode("dram", "node", _counted(2), 0.60, Lead(13.0, 0.8), 0.0, "rma", 1.0),
    Mode("cpu", "node", _counted(2), action="rma", rma_p=1.0),
    Mode("chassis", "node", _counted(2), action="reseat"),
    Mode("io_board", "node", _counted(2), action="rma", rma_p=1.0),
    Mode("sdc", "gpu", _counted(6), action="rma", rma_p=1.0),
    Mode("pcie_degraded", "gpu", 0.25, action="reseat"),
    Mode("software", "job", _counted(54)),
    Mode("nccl_watchdog", "job", _counted(7)),
    Mode("dependency", "job", _counted(2)),
    Mode("host_maintenance", "maintenance", _counted(32), 1.0, Lead(low_h=4.0, high_h=72.0, is_uniform=True)),
)
MODES: Mapping[str, Mode] = {mode.id: mode for mode in _MODES}
OUTSIDE_THE_SUM = frozenset({"pcie_degraded", "pmu_spi"})
TABLE_TOTAL = sum(mode.rate for mode in _MODES if mode.id not in OUTSIDE_THE_SUM)
HARDWARE_TOTAL = sum(mode.rate for mode in _MODES if mode.is_hardware and mode.id not in OUTSIDE_THE_SUM)
REPAIR_SUCCESS = {"restart": 0.4, "reset": 0.5, "reboot": 0.6, "reseat": 0.7, "rma": 1.0}
DIAGNOSTIC_SENSITIVITY = 0.7

_TOTALS = {"llama3": TABLE_TOTAL, "rsc1": 6.5, "rsc2": 2.34}
# Shares of a fleet for showing: enough failures of each precursor-rich mode within two months.
_SHOW_MIX = {
    "hbm_ue": 0.24,
    "nvlink": 0.17,
    "thermal": 0.16,
    "fell_off_bus": 0.16,
    "gpu_faulty": 0.08,
    "gsp": 0.05,
    "psu_vr": 0.05,
    "sram_ecc": 0.03,
    "switch_cable": 0.02,
    "nic": 0.015,
    "sdc": 0.005,
    "ssd": 0.005,
    "dram": 0.005,
    "cpu": 0.005,
    "io_board": 0.005,
}
PROFILES = (*_TOTALS, "show")


def rates(profile: str = "llama3", profile_scope: str = "all") -> dict[str, float]:
    """Give failures per 1000 node-days of each mode; `profile_scope` "hardware" leaves software and maintenance rows unscaled.

    The profile "show" has the hardware total of Llama 3 in a mix that is rich in precursors.
    """
    if profile == "show":
        return {id_: _show_rate(mode) for id_, mode in MODES.items()}
    target = _TOTALS[profile]
    if profile_scope == "all":
        return {id_: mode.rate * target / TABLE_TOTAL for id_, mode in MODES.items()}
    factor = target / HARDWARE_TOTAL if profile != "llama3" else 1.0
    return {id_: mode.rate * (factor if mode.is_hardware else 1.0) for id_, mode in MODES.items()}


def _show_rate(mode: Mode) -> float:
    if mode.scope == "job":
        return mode.rate
    if mode.scope == "maintenance":
        return mode.rate / 5.0
    return HARDWARE_TOTAL * _SHOW_MIX.get(mode.id, 0.0)
