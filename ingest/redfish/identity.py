"""Tell which series a metric value belongs to, and which part of the machine the series is about.

A series is named by the first that applies: the property's path and JSON pointer without `/redfish/v1`; for Dell the report, metric id
and FQDD or context; the report and metric id alone. `.../Sensors/X` and `.../Sensors/X#/Reading` are the same series.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from ingest.errors import RecordRejected

ROOT = "/redfish/v1"


class Series(NamedTuple):
    """Identity of a series: `sensor` is the stable id; a series by metric id has no `path` and `pointer`."""

    sensor: str
    path: str = ""
    pointer: str = ""
    metric_id: str = ""
    context: str = ""
    is_misfit: bool = False  # the pointer cannot fit its resource: a resource is an object, never an array


def series_of(entry: Mapping[str, object], report_id: str) -> Series:
    """Name the series of one metric value; raises RecordRejected `wildcard`, `bad_property` or `no_identity`."""
    named = entry.get("MetricProperty")
    if isinstance(named, str) and named.strip():
        return _by_property(named.strip())
    metric_id = entry.get("MetricId")
    if not isinstance(metric_id, str) or not metric_id:
        raise RecordRejected("no_identity", "neither MetricProperty nor MetricId")
    return _by_metric_id(report_id, metric_id, dell_context(entry))


@lru_cache(maxsize=65_536)  # the BMCs of a fleet share their properties
def _by_property(named: str) -> Series:
    if "{" in named:
        raise RecordRejected("wildcard", named)
    path, _, pointer = named.partition("#")
    path, pointer = path.rstrip("/"), pointer.rstrip("/")
    if not path.startswith(ROOT + "/"):
        raise RecordRejected("bad_property", named)
    path = path.removeprefix(ROOT)
    if pointer == "/Reading" and "/Sensors/" in path:
        pointer = ""
    sensor = f"{path}#{pointer}" if pointer else path
    return Series(sensor, path, pointer, is_misfit=pointer.split("/")[1:2] != [] and pointer.split("/")[1].isdigit())


@lru_cache(maxsize=65_536)
def _by_metric_id(report_id: str, metric_id: str, context: str) -> Series:
    sensor = ":".join(part for part in (report_id, metric_id, context) if part)
    return Series(sensor, metric_id=metric_id, context=context)


def dell_context(entry: Mapping[str, object]) -> str:
    """Find Dell's name of the component that a metric id is about; empty when there is none."""
    oem = entry.get("Oem")
    dell = oem.get("Dell") if isinstance(oem, dict) else None
    if not isinstance(dell, dict):
        return ""
    context = dell.get("FQDD") or dell.get("ContextID")
    return context if isinstance(context, str) else ""


class Place(NamedTuple):
    """Where a property lives: `kind` picks the table of signals, `device` names the part (`gpu0`, `psu1`, `gpu0/nvlink3`, `chassis`)."""

    kind: str
    device: str


_GPU = r"(?:HGX_)?GPU_(?:SXM_)?(\d+)"
_PLACES = tuple(
    (re.compile(pattern), kind, device)
    for pattern, kind, device in (
        (rf"/Systems/[^/]+/Processors/{_GPU}/Ports/NVLink_(\d+)(?:/Metrics)?", "port", "gpu{}/nvlink{}"),
        (rf"/Systems/[^/]+/Processors/{_GPU}/Ports/PCIe[^/]*(?:/Metrics)?", "port", "gpu{}/pcie"),
        (rf"/Systems/[^/]+/Processors/{_GPU}(?:/ProcessorMetrics|/Oem/Nvidia/ProcessorResetMetrics)?", "processor", "gpu{}"),
        (r"/Systems/[^/]+/Processors/CPU_(\d+)(?:/ProcessorMetrics)?", "processor", "cpu{}"),
        (rf"/Systems/[^/]+/Memory/{_GPU}_DRAM_(\d+)(?:/MemoryMetrics)?", "memory", "gpu{}/dram{}"),
        (r"/Fabrics/[^/]+/Switches/NVSwitch_(\d+)/Ports/NVLink_(\d+)(?:/Metrics)?", "port", "nvswitch{}/nvlink{}"),
        (r"/Fabrics/[^/]+/Switches/NVSwitch_(\d+)(?:/SwitchMetrics)?", "switch", "nvswitch{}"),
        (r"/Fabrics/[^/]+/Switches/PCIeRetimer_(\d+)/Ports/([^/]+)(?:/Metrics)?", "port", "retimer{}/{}"),
        (r"/Chassis/[^/]+/NetworkAdapters/([^/]+)/Ports/([^/]+)(?:/Metrics)?", "port", "{}/{}"),
        (rf"/Chassis/[^/]+/PCIeDevices/{_GPU}", "pcie_device", "gpu{}"),
        (r"/Chassis/[^/]+/PCIeDevices/PCIeRetimer_(\d+)", "pcie_device", "retimer{}"),
        (r"/Chassis/[^/]+/PowerSubsystem/PowerSupplies/\D*(\d+)\D*(?:/Metrics)?", "psu", "psu{}"),
        (r"/Chassis/[^/]+/ThermalSubsystem/Fans/\D*(\d+)\D*", "fan", "fan{}"),
        (r"/Chassis/[^/]+/ThermalSubsystem/ThermalMetrics", "thermal", "chassis"),
        (r"/Chassis/[^/]+/Thermal", "thermal", "chassis"),
        (r"/Chassis/[^/]+/Power", "power", "chassis"),
        (r"/(?:Chassis|Systems)/[^/]+/EnvironmentMetrics", "environment", "chassis"),
        (r"/Chassis/[^/]+/Sensors/.+", "sensor", ""),
        (r"/(?:Chassis|Systems)/[^/]+", "machine", "chassis"),
    )
)


def place_of(path: str) -> Place | None:
    """Find where a property's resource stands in the machine; None for a resource that no table knows."""
    for pattern, kind, device in _PLACES:
        if found := pattern.fullmatch(path):
            return Place(kind, device.format(*found.groups()))
    return None
