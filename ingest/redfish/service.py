"""Learn what a BMC offers, one request at a time: its reports and how they come, its stream, its GPUs, or else its sensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ingest.redfish.browse import Getter, Tolerant, link, members, optional
from ingest.redfish.explore import explore
from ingest.redfish.identity import ROOT
from ingest.redfish.payloads import Body
from ingest.redfish.reports import report_id
from ingest.redfish.values import read_duration


@dataclass(frozen=True, kw_only=True)
class Report:
    """One report of a BMC as its definition describes it."""

    name: str
    path: str
    kind: str = ""  # Periodic, OnChange or OnRequest
    recurrence_s: float | None = None
    is_enabled: bool = True
    is_logged: bool = True  # kept for GET
    has_gaps: bool = False  # a value that has not changed is left out


@dataclass(frozen=True, kw_only=True)
class Service:
    """What a BMC offers; its sensors are read where it has no reports."""

    uuid: str | None = None
    firmware: str | None = None
    reports: tuple[Report, ...] = ()
    stream_path: str | None = None
    streams_reports: bool = False
    gpu_uuids: Mapping[str, str] = field(default_factory=dict)
    sensor_collections: tuple[str, ...] = ()
    can_expand: bool = False  # says that it can give a collection with its members in one answer
    resource_paths: tuple[str, ...] = ()  # what no report carries
    log_paths: tuple[str, ...] = ()
    is_partial: bool = False  # some resources were broken: there may be more


async def discover(bmc: Getter) -> Service:
    """Read what a BMC offers; raises Refused if its root does not answer, and takes what is missing below it as not offered."""
    root = await bmc.get(ROOT)
    bmc = tolerant = Tolerant(bmc)
    events = await optional(bmc, link(root, "EventService"))
    telemetry = await optional(bmc, link(root, "TelemetryService"))
    reports = await _reports(bmc, telemetry)
    machine = await explore(bmc, root, wants_sensors=not reports)
    stream = events.get("ServerSentEventUri")
    formats = events.get("EventFormatTypes")
    return Service(
        uuid=_text(root.get("UUID")),
        firmware=machine.firmware,
        reports=reports,
        stream_path=stream if isinstance(stream, str) and stream else None,
        streams_reports=isinstance(formats, list) and "MetricReport" in formats,
        gpu_uuids=machine.gpu_uuids,
        sensor_collections=machine.sensor_collections,
        can_expand=_can_expand(root),
        resource_paths=machine.resource_paths,
        log_paths=machine.log_paths,
        is_partial=tolerant.failures > 0,
    )


async def _reports(bmc: Getter, telemetry: Body) -> tuple[Report, ...]:
    """Merge the definitions with the reports that are there: NVIDIA has reports without definitions and the other way round."""
    found: dict[str, Report] = {}
    for path in await members(bmc, link(telemetry, "MetricReportDefinitions")):
        report = read_definition(path, await optional(bmc, path))
        found[report.name] = report
    for path in await members(bmc, link(telemetry, "MetricReports")):
        name = path.rstrip("/").rpartition("/")[2]
        found.setdefault(name, Report(name=name, path=path, kind="OnRequest"))
    return tuple(report for report in found.values() if report.is_enabled)


def read_definition(path: str, body: Body) -> Report:
    """Read a MetricReportDefinition; one that cannot be read leaves a report to poll."""
    name = report_id(body) or path.rstrip("/").rpartition("/")[2]
    schedule = body.get("Schedule")
    recurrence = schedule.get("RecurrenceInterval") if isinstance(schedule, dict) else None
    actions = body.get("ReportActions")
    return Report(
        name=name,
        path=link(body, "MetricReport") or f"{ROOT}/TelemetryService/MetricReports/{name}",
        kind=_text(body.get("MetricReportDefinitionType")) or "",
        recurrence_s=read_duration(recurrence) if isinstance(recurrence, str) else None,
        is_enabled=body.get("MetricReportDefinitionEnabled") is not False,
        has_gaps=body.get("SuppressRepeatedMetricValue") is True,
        is_logged=not isinstance(actions, list) or not actions or "LogToMetricReportsCollection" in actions,
    )


def _can_expand(root: Body) -> bool:
    features = root.get("ProtocolFeaturesSupported")
    expand = features.get("ExpandQuery") if isinstance(features, dict) else None
    return isinstance(expand, dict) and expand.get("Levels") is True


def _text(member: object) -> str | None:
    return member if isinstance(member, str) and member else None
