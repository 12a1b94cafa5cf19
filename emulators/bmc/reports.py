"""Metric reports of a machine: what each holds, and how a vendor writes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from emulators.bmc.machine import Machine
from emulators.bmc.messages import Body
from emulators.bmc.times import stamp

SERVICE = "/redfish/v1/TelemetryService"
MISSING = object()  # the value's member is left out


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One value of a report; `value` is the text as sent, None for JSON null."""

    value: object
    prop: str | None = None
    metric_id: str | None = None
    oem: Body | None = None


@dataclass(frozen=True, kw_only=True)
class Report:
    """One report: its name and what it holds for the machine as it is."""

    name: str
    metrics: Callable[[Machine], list[Metric]]
    oem: Body | None = None

    @property
    def path(self) -> str:
        """Tell where the report is read."""
        return f"{SERVICE}/MetricReports/{self.name}"

    @property
    def definition_path(self) -> str:
        """Tell where the report's definition is read."""
        return f"{SERVICE}/MetricReportDefinitions/{self.name}"


def render(report: Report, machine: Machine, at_ns: int) -> Body:
    """Write a report as of an instant."""
    at = stamp(at_ns)
    body: Body = {
        "@odata.id": report.path,
        "@odata.type": f"#MetricReport.{machine.profile.report_version}.MetricReport",
        "Id": report.name,
        "Name": report.name,
        "MetricReportDefinition": {"@odata.id": report.definition_path},
    }
    if machine.profile.has_report_time:
        body["Timestamp"] = at
    if report.oem is not None:
        body["Oem"] = report.oem
    body["MetricValues"] = [_value(metric, at) for metric in report.metrics(machine)]
    return body


def _value(metric: Metric, at: str) -> Body:
    value: Body = {} if metric.metric_id is None else {"MetricId": metric.metric_id}
    if metric.prop is not None:
        value["MetricProperty"] = metric.prop
    if metric.value is not MISSING:
        value["MetricValue"] = metric.value
    value["Timestamp"] = at
    if metric.oem is not None:
        value["Oem"] = metric.oem
    return value


def decimal(value: float | None) -> str:
    """Write a number in as few digits as it needs."""
    if value is None:
        return "null"
    text = f"{value:.3f}"
    return text.rstrip("0").rstrip(".")


def six_decimals(value: float | None) -> str:
    """Write a number as C++'s `std::to_string` does."""
    return "nan" if value is None else f"{value:.6f}"


def platform_metrics(machine: Machine) -> list[Metric]:
    """List every sensor, the presence of power supplies and the power state."""
    sensors = machine.sensors()
    metrics = [Metric(prop=f"{sensor.path}#/Reading", value=decimal(sensor.value)) for sensor in sensors]
    supplies = [sensor for sensor in sensors if sensor.id.endswith("_Input_Power")]
    metrics += [Metric(prop=f"{sensor.path}#/Status/State", value="Enabled" if sensor.is_present else "Absent") for sensor in supplies]
    return [*metrics, Metric(prop=f"{machine.system}#/PowerState", value=power_state(machine))]


def bare_sensors(machine: Machine) -> list[Metric]:
    """List every sensor as bmcweb does: by the sensor's own path, in six decimals."""
    return [Metric(prop=sensor.path, value=six_decimals(sensor.value)) for sensor in machine.sensors()]


def power_state(machine: Machine) -> str:
    """Tell whether the host is on."""
    return "On" if machine.read_state()[0].power_is_on else "Off"
