"""What real exporters do to their pages, each seen in public: set on one node, seen by whoever scrapes it.

Content: names of DCGM 4.6 or of the old namespace, pod and MIG rows, values that vanish or leak as sentinels, a last-XID gauge of 0 where
there never was one, windowed XID counts, explicit timestamps, a page frozen by a dead host engine or emptied by a stalled one.
Transport: a status, an empty 200 during a reload, a cut or slow body.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from emulators.exporter_page import FAMILIES, XID, XID_MESSAGES, Family, Labels, labels_of
from emulators.state import GpuState

XID_COUNT = "DCGM_EXP_XID_ERRORS_COUNT"
RENAMED = {  # DCGM 4.6
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
    "DCGM_FI_DEV_MEMORY_TEMP": "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS",
    "DCGM_FI_DEV_GPU_TEMP": "DCGM_FI_DEV_GPU_TEMP_CELSIUS",
    "DCGM_FI_DEV_GPU_TEMP_LIMIT": "DCGM_FI_DEV_GPU_TEMP_MARGIN_CELSIUS",
    "DCGM_FI_DEV_POWER_USAGE": "DCGM_FI_DEV_BOARD_POWER_WATTS",
    "DCGM_FI_DEV_POWER_USAGE_INSTANT": "DCGM_FI_DEV_BOARD_POWER_RAW_WATTS",
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": "DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS",
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": "DCGM_FI_DEV_PCIE_REPLAY_TOTAL",
    "DCGM_FI_DEV_GPU_UTIL": "DCGM_FI_DEV_GPU_UTIL_RATIO",
    "DCGM_FI_DEV_ECC_CURRENT": "DCGM_FI_DEV_ECC_MODE",
    "DCGM_FI_DEV_THRESHOLD_SRM": "DCGM_FI_DEV_SRAM_EXCEEDED",
    "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_LOW": "DCGM_FI_DEV_BANK_REMAP_AVAIL_LOW",
    "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_NONE": "DCGM_FI_DEV_BANK_REMAP_AVAIL_NONE",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL",
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": "DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": "DCGM_FI_DEV_ROW_REMAP_FAILED",
    "DCGM_FI_DEV_NVLINK_ERROR_DL_CRC": "DCGM_FI_DEV_NVLINK_CRC_ERROR_TOTAL",
    "DCGM_FI_DEV_NVLINK_ERROR_DL_RECOVERY": "DCGM_FI_DEV_NVLINK_RECOVERY_TOTAL",
    "DCGM_FI_DEV_NVLINK_ERROR_DL_REPLAY": "DCGM_FI_DEV_NVLINK_REPLAY_TOTAL",
    "DCGM_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS": "DCGM_FI_DEV_PCIE_CORRECTABLE_ERROR_TOTAL",
    "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION": "DCGM_FI_DEV_GPU_RECOVERY_ACTION",
    XID: "DCGM_FI_DEV_XID_ERROR",
}


@dataclass(frozen=True, kw_only=True)
class Quirks:
    """How one node's exporter departs from the plain page; maps are keyed by GPU UUID, families by their legacy names."""

    namespace: str = "legacy"  # legacy, renamed (4.6) or old (lower case, uuid)
    host_label: str = "hostname"
    pods: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    drops_idle: bool = False  # GPUs without a pod vanish as soon as one has a pod
    instances: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    blanks: frozenset[tuple[str, str]] = frozenset()  # (UUID, family): no series
    leaks: Mapping[tuple[str, str], str] = field(default_factory=dict)  # (UUID, family): text in place of the value
    xid_starts_at_zero: bool = False  # before DCGM 4.5
    xid_counts: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    stamps_ms: Mapping[str, int] = field(default_factory=dict)
    is_stalled: bool = False  # the host engine answers nothing: no series of any GPU
    is_frozen: bool = False  # the page is what it was when this began
    status: int = 200
    is_empty: bool = False  # hot reload
    cut_at: int | None = None  # bytes
    delay_s: float = 0.0


def render_quirky(gpus: Sequence[GpuState], labels: Labels, quirks: Quirks) -> bytes:
    """Print a page line by line, as its quirks want it."""
    return _Printer(labels, quirks).page(() if quirks.is_stalled else gpus).encode()


class _Printer:
    def __init__(self, labels: Labels, quirks: Quirks) -> None:
        self._labels = Labels(labels.host, quirks.host_label, labels.driver_version)
        self._quirks = quirks

    def page(self, gpus: Sequence[GpuState]) -> str:
        shown = [gpu for gpu in gpus if not (gpu.is_lost or gpu.is_hidden)]
        if self._quirks.drops_idle and self._quirks.pods:
            shown = [gpu for gpu in shown if gpu.gpu_uuid in self._quirks.pods]
        blocks = [self._block(family.name, family.type, self._family(family, shown)) for family in FAMILIES]
        blocks.append(self._block(XID, "gauge", self._last_xids(shown)))
        blocks.append(self._block(XID_COUNT, "counter", self._xid_counts(shown)))
        return "".join(blocks)

    def _block(self, name: str, kind: str, lines: Iterator[str]) -> str:
        body = "".join(f"{line}\n" for line in lines)
        name = self._name(name)
        return f"# HELP {name} {name}\n# TYPE {name} {kind}\n{body}" if body else ""

    def _family(self, family: Family, gpus: Sequence[GpuState]) -> Iterator[str]:
        for gpu in gpus:
            key = (gpu.gpu_uuid, family.name)
            value = family.value(gpu)
            if value is not None and key not in self._quirks.blanks:
                yield from self._series(family.name, gpu, self._quirks.leaks.get(key, family.format % value))

    def _last_xids(self, gpus: Sequence[GpuState]) -> Iterator[str]:
        for gpu in gpus:
            code = 0 if gpu.xid_last is None and self._quirks.xid_starts_at_zero else gpu.xid_last
            if code is not None:
                message = XID_MESSAGES.get(code, "Unknown Error") if code else "No Error"
                yield from self._series(XID, gpu, str(code), f'err_code="{code}",err_msg="{message}"')

    def _xid_counts(self, gpus: Sequence[GpuState]) -> Iterator[str]:
        for gpu in gpus:
            for code, count in self._quirks.xid_counts.get(gpu.gpu_uuid, {}).items():
                yield from self._series(XID_COUNT, gpu, str(count), f'window_size_in_ms="300000",xid="{code}"')

    def _series(self, name: str, gpu: GpuState, value: str, more: str = "") -> Iterator[str]:
        own = labels_of(gpu, self._labels)
        if self._quirks.namespace == "old":
            own = own.replace("UUID=", "uuid=")
        stamp = self._quirks.stamps_ms.get(gpu.gpu_uuid)
        for copy in self._copies(gpu.gpu_uuid):
            block = ",".join(filter(None, (own, more, copy)))
            yield f"{self._name(name)}{{{block}}} {value}" + (f" {stamp}" if stamp is not None else "")

    def _copies(self, uuid: str) -> list[str]:
        pod_label = "pod_name" if self._quirks.namespace == "old" else "pod"
        pods = [f'container="c",namespace="default",{pod_label}="{pod}"' for pod in self._quirks.pods.get(uuid, ())]
        instances = [f'GPU_I_PROFILE="1g.10gb",GPU_I_ID="{instance}"' for instance in self._quirks.instances.get(uuid, ())]
        return [*pods, *instances] or [""]

    def _name(self, name: str) -> str:
        if self._quirks.namespace == "renamed":
            return RENAMED.get(name, name)
        if self._quirks.namespace == "old":
            return "dcgm_" + name.removeprefix("DCGM_").removeprefix("FI_").removeprefix("DEV_").lower()
        return name
