"""Read single resources as if they were a report: sensors of a BMC without telemetry service, and what no report carries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ingest.redfish.browse import Getter, Tolerant, members, optional
from ingest.redfish.identity import ROOT
from ingest.redfish.payloads import Body
from ingest.redfish.sensors import SensorFacts, read_sensor_facts
from ingest.redfish.values import ABSENT

EXPAND = "$expand=.($levels=1)"


@dataclass(frozen=True)
class Wanted:
    """JSON pointers to take from the resources whose path, without `/redfish/v1`, matches."""

    path: re.Pattern[str]
    pointers: tuple[str, ...]


_GPU = r"(?:HGX_)?GPU_(?:SXM_)?\d+"
_REMAP = "/Oem/Nvidia/RowRemapping/"
WANTED = (
    Wanted(re.compile(r"/Systems/[^/]+"), ("/PowerState", "/Status/Health")),
    Wanted(re.compile(rf"/Systems/[^/]+/Memory/{_GPU}_DRAM_\d+"), ("/Oem/Nvidia/RowRemappingPending", "/Oem/Nvidia/RowRemappingFailed")),
    Wanted(
        re.compile(rf"/Systems/[^/]+/Memory/{_GPU}_DRAM_\d+/MemoryMetrics"),
        tuple(f"{_REMAP}{level}AvailabilityBankCount" for level in ("Max", "High", "Partial", "Low", "No")),
    ),
    Wanted(re.compile(rf"/Systems/[^/]+/Processors/{_GPU}/ProcessorMetrics"), ("/Oem/Nvidia/SRAMECCErrorThresholdExceeded",)),
    Wanted(re.compile(r"/Chassis/[^/]+/PowerSubsystem/PowerSupplies/[^/]+"), ("/Status/State", "/Status/Health")),
)


class SensorReader:
    """Reads the sensors of a BMC into a report: a collection in one answer where that keeps the readings, else one by one."""

    def __init__(self, collections: Iterable[str], *, can_expand: bool) -> None:
        self._collections = tuple(collections)
        self._can_expand = can_expand

    async def read(self, bmc: Getter) -> tuple[Body, dict[str, SensorFacts]]:
        """Read all sensors; returns the report, and what each says about itself by its path without `/redfish/v1`."""
        bmc = Tolerant(bmc)
        values: list[Body] = []
        facts: dict[str, SensorFacts] = {}
        for collection in self._collections:
            for path, body in (await self._bodies(bmc, collection)).items():
                facts[path.removeprefix(ROOT)] = read_sensor_facts(body)
                values.append(_value(path, body.get("Reading", ABSENT)))
        return {"Id": "Sensors", "MetricValues": values}, facts

    async def _bodies(self, bmc: Getter, collection: str) -> dict[str, Body]:
        if self._can_expand:
            expanded = (await optional(bmc, collection, query=EXPAND)).get("Members")
            bodies = [body for body in (expanded if isinstance(expanded, list) else []) if isinstance(body, dict)]
            if bodies and any("Reading" in body for body in bodies):
                return {str(body.get("@odata.id")): body for body in bodies}
            self._can_expand = False  # some BMCs lose what is required when they expand
        return {path: await optional(bmc, path) for path in await members(bmc, collection)}


async def read_facts(bmc: Getter, path: str) -> SensorFacts:
    """Read what a sensor says about itself; nothing if it is not there or broken."""
    return read_sensor_facts(await optional(Tolerant(bmc), path))


async def read_resources(bmc: Getter, paths: Iterable[str]) -> Body:
    """Read what `WANTED` names from resources, one at a time, into a report."""
    bmc = Tolerant(bmc)
    values: list[Body] = []
    for path in paths:
        pointers = wanted_of(path)
        if not pointers:
            continue
        body = await optional(bmc, path)
        for pointer in pointers:
            raw = point(body, pointer)
            if raw is not ABSENT:
                values.append(_value(f"{path}#{pointer}", raw))
    return {"Id": "Resources", "MetricValues": values}


def wanted_of(path: str) -> tuple[str, ...]:
    """Tell which members of a resource are wanted."""
    plain = path.removeprefix(ROOT).rstrip("/")
    return next((wanted.pointers for wanted in WANTED if wanted.path.fullmatch(plain)), ())


def point(body: object, pointer: str) -> object:
    """Follow a JSON pointer through objects; ABSENT if it leads nowhere. NVIDIA's old spelling of Availability is accepted."""
    for name in pointer.split("/")[1:]:
        if not isinstance(body, dict):
            return ABSENT
        found = next((spelling for spelling in _spellings(name) if spelling in body), None)
        if found is None:
            return ABSENT
        body = body[found]
    return body


def _spellings(name: str) -> Iterator[str]:
    yield name
    yield name.replace("Availability", "Availablity")


def _value(prop: str, raw: object) -> Body:
    value: dict[str, object] = {"MetricProperty": prop}
    if raw is not ABSENT:
        # A resource's own member is typed; a report's value is a string.
        value["MetricValue"] = str(raw).lower() if isinstance(raw, bool) else str(raw) if isinstance(raw, int | float) else raw
    return value
