"""Learn what a BMC offers, one request at a time: its reports and how they come, its stream, its GPUs, or else its sensors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ingest.redfish.identity import ROOT, place_of
from ingest.redfish.outcomes import Outcome, Refused
from ingest.redfish.payloads import Body
from ingest.redfish.reports import report_id
from ingest.redfish.values import read_duration

MOST_PAGES = 1000
_GPU_PROCESSOR = re.compile(r".*/Processors/(?:HGX_)?GPU_(?:SXM_)?\d+")


class Getter(Protocol):
    """Whatever gets a resource of a BMC."""

    async def get(self, path: str, *, query: str = "") -> Body:
        """Get a resource; raises Refused for anything but a JSON object."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """One report of a BMC as its definition describes it."""

    name: str
    path: str
    kind: str = ""  # Periodic, OnChange or OnRequest
    recurrence_s: float | None = None
    is_enabled: bool = True
    is_logged: bool = True  # kept for GET


@dataclass(frozen=True, kw_only=True)
class Service:
    """What a BMC offers; `sensor_paths` are read one by one where it has no telemetry service."""

    uuid: str | None = None
    firmware: str | None = None
    reports: tuple[Report, ...] = ()
    stream_path: str | None = None
    streams_reports: bool = False
    gpu_uuids: Mapping[str, str]
    sensor_paths: tuple[str, ...] = ()
    chassis_paths: tuple[str, ...] = ()
    system_paths: tuple[str, ...] = ()
    log_paths: tuple[str, ...] = ()


async def discover(bmc: Getter) -> Service:
    """Read what a BMC offers; raises Refused if its root does not answer, and takes what is missing below it as not offered."""
    root = await bmc.get(ROOT)
    events = await _optional(bmc, link(root, "EventService"))
    telemetry = await _optional(bmc, link(root, "TelemetryService"))
    systems = await members(bmc, link(root, "Systems"))
    chassis = await members(bmc, link(root, "Chassis"))
    reports = await _reports(bmc, telemetry)
    stream = events.get("ServerSentEventUri")
    formats = events.get("EventFormatTypes")
    return Service(
        uuid=_text(root.get("UUID")),
        firmware=await _firmware(bmc, root),
        reports=reports,
        stream_path=stream if isinstance(stream, str) and stream else None,
        streams_reports=isinstance(formats, list) and "MetricReport" in formats,
        gpu_uuids=await _gpu_uuids(bmc, systems),
        sensor_paths=() if reports else await _sensor_paths(bmc, chassis),
        chassis_paths=tuple(chassis),
        system_paths=tuple(systems),
    )


def link(body: Body, member: str) -> str | None:
    """Take the path that a member links to."""
    target = body.get(member)
    path = target.get("@odata.id") if isinstance(target, Mapping) else None
    return path if isinstance(path, str) and path else None


async def members(bmc: Getter, path: str | None) -> list[str]:
    """List the paths of a collection over all its pages; `Members: null`, a collection that is refused and none at all are empty."""
    found: list[str] = []
    seen: set[str] = set()
    while path is not None and path not in seen and len(seen) < MOST_PAGES:
        seen.add(path)
        page = await _optional(bmc, path)
        listed = page.get("Members")
        links = [member.get("@odata.id") for member in (listed if isinstance(listed, list) else []) if isinstance(member, Mapping)]
        found += [member for member in links if isinstance(member, str)]
        following = page.get("Members@odata.nextLink")
        path = following if isinstance(following, str) else None
    return found


async def _optional(bmc: Getter, path: str | None) -> Body:
    """Get a resource that need not be there; a BMC that does not answer at all is still an error."""
    if path is None:
        return {}
    base, _, query = path.partition("?")
    try:
        return await bmc.get(base, query=query)
    except Refused as refused:
        if refused.outcome in (Outcome.MISSING, Outcome.NOT_OFFERED, Outcome.FORBIDDEN, Outcome.NOT_LICENSED):
            return {}
        raise


async def _reports(bmc: Getter, telemetry: Body) -> tuple[Report, ...]:
    """Merge the definitions with the reports that are there: NVIDIA has reports without definitions and the other way round."""
    found: dict[str, Report] = {}
    for path in await members(bmc, link(telemetry, "MetricReportDefinitions")):
        report = read_definition(path, await _optional(bmc, path))
        found[report.name] = report
    for path in await members(bmc, link(telemetry, "MetricReports")):
        name = path.rstrip("/").rpartition("/")[2]
        found.setdefault(name, Report(name=name, path=path, kind="OnRequest"))
    return tuple(report for report in found.values() if report.is_enabled)


def read_definition(path: str, body: Body) -> Report:
    """Read a MetricReportDefinition; one that cannot be read leaves a report to poll."""
    name = report_id(body) or path.rstrip("/").rpartition("/")[2]
    schedule = body.get("Schedule")
    recurrence = schedule.get("RecurrenceInterval") if isinstance(schedule, Mapping) else None
    actions = body.get("ReportActions")
    return Report(
        name=name,
        path=link(body, "MetricReport") or f"{ROOT}/TelemetryService/MetricReports/{name}",
        kind=_text(body.get("MetricReportDefinitionType")) or "",
        recurrence_s=read_duration(recurrence) if isinstance(recurrence, str) else None,
        is_enabled=body.get("MetricReportDefinitionEnabled") is not False,
        is_logged=not isinstance(actions, list) or not actions or "LogToMetricReportsCollection" in actions,
    )


async def _firmware(bmc: Getter, root: Body) -> str | None:
    managers = await members(bmc, link(root, "Managers"))
    return _text((await _optional(bmc, managers[0])).get("FirmwareVersion")) if managers else None


async def _gpu_uuids(bmc: Getter, systems: list[str]) -> dict[str, str]:
    """Map device names to UUIDs as NVML spells them (`GPU-` and lower case)."""
    found: dict[str, str] = {}
    for system in systems:
        body = await _optional(bmc, system)
        for path in await members(bmc, link(body, "Processors")):
            place = place_of(path.removeprefix(ROOT)) if _GPU_PROCESSOR.fullmatch(path) else None
            uuid = _text((await _optional(bmc, path)).get("UUID")) if place else None
            if place and uuid:
                found[place.device] = "GPU-" + uuid.lower().removeprefix("gpu-")
    return found


async def _sensor_paths(bmc: Getter, chassis: list[str]) -> tuple[str, ...]:
    paths: list[str] = []
    for path in chassis:
        paths += await members(bmc, link(await _optional(bmc, path), "Sensors"))
    return tuple(paths)


def _text(member: object) -> str | None:
    return member if isinstance(member, str) and member else None
