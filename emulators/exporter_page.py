"""The text page of a dcgm-exporter, from the state of a node's GPUs.

Families follow our counters file as far as `GpuState` knows them, under the legacy names; integers print as `%d`, doubles as `%f`, label
values are not escaped, a value that the hardware does not have has no series, and a GPU that is lost or hidden has none at all. The text
around the values is made once per set of labels, so that a page of 8 GPUs costs a fraction of a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any

from emulators.state import GpuState

XID_MESSAGES = {
    13: "Graphics Engine Exception",
    31: "GPU memory page fault",
    43: "GPU stopped processing",
    45: "Preemptive cleanup, due to previous errors -- Most likely to see when running multiple cuda applications and hitting a DBE",
    48: "Double Bit ECC Error",
    63: "ECC page retirement or row remapping recording event",
    64: "ECC page retirement or row remapper recording failure",
    74: "NVLINK Error",
    79: "GPU has fallen off the bus",
    94: "Contained ECC error",
    95: "Uncontained ECC error",
    119: "GSP RPC Timeout",
}


@dataclass(frozen=True)
class Family:
    """One metric family: how its value is read from a GPU's state (None: no series) and printed."""

    name: str
    type: str
    format: str
    value: Callable[[GpuState], Any]


def _counter(name: str, value: str | Callable[[GpuState], Any]) -> Family:
    return Family(name, "counter", "%d", attrgetter(value) if isinstance(value, str) else value)


def _gauge(name: str, value: str | Callable[[GpuState], Any], form: str = "%d") -> Family:
    return Family(name, "gauge", form, attrgetter(value) if isinstance(value, str) else value)


FAMILIES: tuple[Family, ...] = (
    _gauge("DCGM_FI_DEV_SM_CLOCK", "sm_clock_mhz"),
    _gauge("DCGM_FI_DEV_MEM_CLOCK", "memory_clock_mhz"),
    _gauge("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "clock_event_reasons"),
    _gauge("DCGM_FI_DEV_MEMORY_TEMP", "memory_temp_c"),
    _gauge("DCGM_FI_DEV_GPU_TEMP", "temp_c"),
    _gauge("DCGM_FI_DEV_GPU_TEMP_LIMIT", "thermal_margin_c"),
    _gauge("DCGM_FI_DEV_POWER_USAGE", "power_w", "%f"),
    _gauge("DCGM_FI_DEV_POWER_USAGE_INSTANT", "power_w", "%f"),
    _gauge("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "power_limit_w", "%f"),
    _counter("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "energy_mj_total"),
    _counter("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "pcie_replay_total"),
    _gauge("DCGM_FI_DEV_PCIE_LINK_GEN", "pcie_link_gen"),
    _gauge("DCGM_FI_DEV_PCIE_LINK_WIDTH", "pcie_link_width"),
    _gauge("DCGM_FI_DEV_GPU_UTIL", lambda gpu: round(gpu.gpu_util_ratio * 100)),
    _gauge("DCGM_FI_DEV_MEM_COPY_UTIL", lambda gpu: round(gpu.memory_util_ratio * 100)),
    _gauge("DCGM_FI_DEV_FB_FREE", lambda gpu: gpu.memory_total_mb - gpu.memory_used_mb),
    _gauge("DCGM_FI_DEV_FB_USED", "memory_used_mb"),
    _gauge("DCGM_FI_DEV_FB_RESERVED", lambda _: 0),
    _gauge("DCGM_FI_DEV_ECC_CURRENT", "ecc_mode"),
    _counter("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", lambda gpu: gpu.dram_ce_volatile_total + gpu.sram_ce_volatile_total),
    _counter("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", lambda gpu: gpu.dram_ue_volatile_total + gpu.sram_ue_volatile_total),
    _counter("DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", lambda gpu: gpu.dram_ce_aggregate_total + gpu.sram_ce_aggregate_total),
    _counter("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", lambda gpu: gpu.dram_ue_aggregate_total + gpu.sram_ue_aggregate_total),
    _counter("DCGM_FI_DEV_ECC_SBE_VOL_DEV", "dram_ce_volatile_total"),
    _counter("DCGM_FI_DEV_ECC_DBE_VOL_DEV", "dram_ue_volatile_total"),
    _counter("DCGM_FI_DEV_ECC_SBE_AGG_DEV", "dram_ce_aggregate_total"),
    _counter("DCGM_FI_DEV_ECC_DBE_AGG_DEV", "dram_ue_aggregate_total"),
    _counter("DCGM_FI_DEV_ECC_SBE_VOL_SRM", "sram_ce_volatile_total"),
    _counter("DCGM_FI_DEV_ECC_DBE_VOL_SRM", "sram_ue_volatile_total"),
    _counter("DCGM_FI_DEV_ECC_SBE_AGG_SRM", "sram_ce_aggregate_total"),
    _counter("DCGM_FI_DEV_ECC_DBE_AGG_SRM", "sram_ue_aggregate_total"),
    _gauge("DCGM_FI_DEV_THRESHOLD_SRM", "sram_threshold_exceeded"),
    _gauge("DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_LOW", "remap_banks_low"),
    _gauge("DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_NONE", "remap_banks_none"),
    _counter("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "remapped_rows_ue_total"),
    _counter("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "remapped_rows_ce_total"),
    _gauge("DCGM_FI_DEV_ROW_REMAP_FAILURE", "remap_failure"),
    _gauge("DCGM_FI_DEV_ROW_REMAP_PENDING", "remap_pending"),
    _counter("DCGM_FI_DEV_NVLINK_ERROR_DL_CRC", lambda gpu: sum(link.crc_total for link in gpu.links)),
    _counter("DCGM_FI_DEV_NVLINK_ERROR_DL_RECOVERY", lambda gpu: sum(link.recovery_total for link in gpu.links)),
    _counter("DCGM_FI_DEV_NVLINK_ERROR_DL_REPLAY", lambda gpu: sum(link.replay_total for link in gpu.links)),
    _gauge("DCGM_FI_DEV_FABRIC_MANAGER_STATUS", "fabric_state"),
    _counter("DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", "sw_power_cap_ns_total"),
    _counter("DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", "sw_thermal_ns_total"),
    _counter("DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", "hw_thermal_ns_total"),
    _counter("DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS", "hw_power_brake_ns_total"),
    _counter("DCGM_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS", "pcie_correctable_total"),
    _gauge("DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", "recovery_action"),
)
XID = "DCGM_FI_DEV_XID_ERRORS"


@dataclass(frozen=True)
class Labels:
    """What the labels of a page are made of, apart from the GPU: the host's name and label, and the driver."""

    host: str = ""
    host_label: str = "hostname"
    driver_version: str = "580.105.08"


def render(gpus: Sequence[GpuState], labels: Labels | None = None) -> bytes:
    """Print the page of a node's GPUs."""
    labels = labels or Labels()
    shown = [gpu for gpu in gpus if not (gpu.is_lost or gpu.is_hidden)]
    named = tuple(labels_of(gpu, labels) for gpu in shown)
    rows = [[family.value(gpu) for gpu in shown] for family in FAMILIES]
    absent = tuple((at, n) for at, row in enumerate(rows) if None in row for n, value in enumerate(row) if value is None)
    text = _template(named, absent) % tuple(value for row in rows for value in row if value is not None)
    return (text + _xids(shown, named)).encode()


def labels_of(gpu: GpuState, labels: Labels) -> str:
    """Print the labels of a GPU's series."""
    return _labels((gpu.gpu_index, gpu.gpu_uuid, gpu.pci, gpu.gpu_model, gpu.serial), labels)


@lru_cache(maxsize=4_096)
def _template(named: tuple[str, ...], absent: tuple[tuple[int, int], ...]) -> str:
    lines: list[str] = []
    for at, family in enumerate(FAMILIES):
        lines += (f"# HELP {family.name} {family.name}", f"# TYPE {family.name} {family.type}")
        for n, own in enumerate(named):
            if (at, n) not in absent:
                lines.append(f"{family.name}{{{own.replace('%', '%%')}}} {family.format}")
    return "\n".join((*lines, ""))


@lru_cache(maxsize=65_536)
def _labels(gpu: tuple[int, str, str, str, str], labels: Labels) -> str:
    index, uuid, pci, model, serial = gpu
    domain, bus, device = pci.partition(".")[0].split(":")
    address = f"{int(domain, 16):08X}:{bus.upper()}:{device.upper()}.0"
    return (
        f'gpu="{index}",UUID="{uuid}",pci_bus_id="{address}",device="nvidia{index}",modelName="{model}",'
        f'{labels.host_label}="{labels.host}",DCGM_FI_DRIVER_VERSION="{labels.driver_version}",DCGM_FI_DEV_SERIAL="{serial}"'
    )


def _xids(gpus: Sequence[GpuState], named: Sequence[str]) -> str:
    """Print the sticky last XID of the GPUs that ever had one (DCGM 4.5 and later: no series before the first)."""
    lines = [
        f'{XID}{{{own},err_code="{gpu.xid_last}",err_msg="{XID_MESSAGES.get(gpu.xid_last, "Unknown Error")}"}} {gpu.xid_last}'
        for gpu, own in zip(gpus, named, strict=True)
        if gpu.xid_last is not None
    ]
    return "\n".join((f"# HELP {XID} {XID}", f"# TYPE {XID} gauge", *lines, "")) if lines else ""
