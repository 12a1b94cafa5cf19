"""All resources of a BMC by path, made anew from its state at every request."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from emulators.bmc.accounts import ROLES, Accounts
from emulators.bmc.hardware import MANAGER, Hardware
from emulators.bmc.machine import Machine
from emulators.bmc.messages import Body
from emulators.bmc.reports import SERVICE as TELEMETRY
from emulators.bmc.reports import Report
from emulators.bmc.resource import OK, ROOT, Maker, collection, link, resource
from emulators.bmc.times import duration

ACCOUNTS = f"{ROOT}/AccountService/Accounts"
ROLE_PATH = f"{ROOT}/AccountService/Roles"
SESSIONS = f"{ROOT}/SessionService/Sessions"
SUBSCRIPTIONS = f"{ROOT}/EventService/Subscriptions"
MOST_LOGGED = 500


@dataclass
class Subscription:
    """One event destination; one without `destination` is an open stream."""

    id: str
    context: str
    destination: str | None = None
    format: str = "Event"


class Tree:
    """The resources of one BMC; `make_report` writes a report as of now."""

    def __init__(
        self,
        machine: Machine,
        accounts: Accounts,
        reports: tuple[Report, ...],
        *,
        name: str,
        now_ns: Callable[[], int],
        report_interval_s: float,
        make_report: Callable[[Report], Body],
    ) -> None:
        self.subscriptions: dict[str, Subscription] = {}
        self.log: dict[str, Body] = {}  # newest entries of the event log by number
        self.uuid = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.bmc.example.com"))
        self.hardware = Hardware(machine, name=name, uuid=self.uuid, now_ns=now_ns)
        self._profile = machine.profile
        self._machine = machine
        self._accounts = accounts
        self._reports = reports
        self._report_interval_s = report_interval_s
        self._make_report = make_report
        self._makers: dict[str, Maker] = {
            ROOT: self._root,
            f"{ROOT}/AccountService": self._account_service,
            ACCOUNTS: lambda: collection(ACCOUNTS, "ManagerAccount", "Accounts", (f"{ACCOUNTS}/{n}" for n in accounts.accounts)),
            ROLE_PATH: lambda: collection(ROLE_PATH, "Role", "Roles", (f"{ROLE_PATH}/{role}" for role in ROLES)),
            f"{ROOT}/SessionService": self._session_service,
            SESSIONS: lambda: collection(SESSIONS, "Session", "Sessions", (f"{SESSIONS}/{n}" for n in accounts.sessions)),
            f"{ROOT}/EventService": self._event_service,
            SUBSCRIPTIONS: lambda: collection(
                SUBSCRIPTIONS, "EventDestination", "Event Subscriptions", (f"{SUBSCRIPTIONS}/{n}" for n in self.subscriptions)
            ),
        }
        self._makers |= self._telemetry_makers() if self._profile.has_reports else {}
        self._makers |= self._log_makers() if self._profile.has_rich_tree else {}

    @property
    def log_path(self) -> str:
        """Tell where the entries of the event log are."""
        return f"{self._machine.system}/LogServices/EventLog/Entries"

    def get(self, path: str) -> Body | None:
        """Make the resource at a path; None if there is none."""
        maker = self._makers.get(path)
        if maker is not None:
            return maker()
        parent, _, last = path.rpartition("/")
        return self._member(parent, last) or self.hardware.get(path)

    def keep(self, number: str, record: Body) -> None:
        """Write an event into the log; the oldest entries make room."""
        self.log[number] = record
        while len(self.log) > MOST_LOGGED:
            del self.log[next(iter(self.log))]

    def session(self, number: str) -> Body:
        """Show a session."""
        username = self._accounts.sessions[number].username
        return resource(f"{SESSIONS}/{number}", "Session", "User Session", UserName=username, SessionType="Redfish")

    def _member(self, parent: str, last: str) -> Body | None:
        """Make a member of a collection whose members come and go."""
        if parent == ACCOUNTS and last in self._accounts.accounts:
            return self._account(last)
        if parent == SESSIONS and last in self._accounts.sessions:
            return self.session(last)
        if parent == SUBSCRIPTIONS and last in self.subscriptions:
            return self._subscription(self.subscriptions[last])
        if parent == ROLE_PATH and last in ROLES:
            return resource(f"{parent}/{last}", "Role", last, IsPredefined=True, RoleId=last, AssignedPrivileges=list(ROLES[last]))
        if parent == self.log_path and last in self.log:
            return log_entry(f"{parent}/{last}", self.log[last])
        return None

    def _root(self) -> Body:
        services = ["Systems", "Chassis", "Managers", "AccountService", "SessionService", "EventService"]
        services += ["TelemetryService"] if self._profile.has_reports else []
        features = {
            "ExpandQuery": {"ExpandAll": False, "Levels": self._profile.expand != "none", "Links": False, "NoLinks": False},
            "SelectQuery": False, "FilterQuery": False, "OnlyMemberQuery": False, "ExcerptQuery": False,
        }  # fmt: skip
        body = resource(ROOT, "ServiceRoot", "Root Service", RedfishVersion="1.22.0", UUID=self.uuid, Vendor=self._profile.vendor)
        body |= {"@odata.id": f"{ROOT}/", "Id": "RootService", "Product": self._profile.product, "ProtocolFeaturesSupported": features}
        body |= {service: link(f"{ROOT}/{service}") for service in services}
        return body | {"Links": {"Sessions": link(SESSIONS), "ManagerProvidingService": link(MANAGER)}}

    def _account_service(self) -> Body:
        return resource(
            f"{ROOT}/AccountService", "AccountService", "Account Service", ServiceEnabled=True, MinPasswordLength=8,
            MaxPasswordLength=64, Accounts=link(ACCOUNTS), Roles=link(ROLE_PATH), Status=OK,
        )  # fmt: skip

    def _account(self, number: str) -> Body:
        account = self._accounts.accounts[number]
        return resource(
            f"{ACCOUNTS}/{number}", "ManagerAccount", "User Account", UserName=account.username, Password=None,
            RoleId=account.role, Enabled=account.is_enabled, Locked=False, PasswordChangeRequired=account.must_change_password,
            AccountTypes=["Redfish"], Links={"Role": link(f"{ROLE_PATH}/{account.role}")},
        )  # fmt: skip

    def _session_service(self) -> Body:
        return resource(
            f"{ROOT}/SessionService", "SessionService", "Session Service", ServiceEnabled=True,
            SessionTimeout=max(30, round(self._accounts.timeout_s)), Sessions=link(SESSIONS), Status=OK,
        )  # fmt: skip

    def _event_service(self) -> Body:
        names = ("EventFormatType", "MetricReportDefinition", "MessageId", "RegistryPrefix", "OriginResource", "ResourceType")
        honoured = set() if self._profile.admission.filter == "none" else {"EventFormatType", "MetricReportDefinition"}
        return resource(
            f"{ROOT}/EventService", "EventService", "Event Service", ServiceEnabled=True, DeliveryRetryAttempts=3,
            DeliveryRetryIntervalSeconds=30, EventFormatTypes=["Event", "MetricReport"], RegistryPrefixes=["ResourceEvent"],
            ResourceTypes=["Chassis", "TelemetryService"], ServerSentEventUri=self._profile.admission.path,
            SSEFilterPropertiesSupported={name: name in honoured for name in names}, Subscriptions=link(SUBSCRIPTIONS), Status=OK,
        )  # fmt: skip

    def _subscription(self, subscription: Subscription) -> Body:
        kind = "RedfishEvent" if subscription.destination else "SSE"
        body = resource(
            f"{SUBSCRIPTIONS}/{subscription.id}", "EventDestination", "Event subscription", Context=subscription.context,
            Protocol="Redfish", SubscriptionType=kind, EventFormatType=subscription.format, Status=OK,
        )  # fmt: skip
        return body | ({"Destination": subscription.destination} if subscription.destination else {})

    def _log_makers(self) -> dict[str, Maker]:
        services, service = f"{self._machine.system}/LogServices", f"{self._machine.system}/LogServices/EventLog"
        return {
            services: lambda: collection(services, "LogService", "Log Services", [service]),
            service: lambda: resource(service, "LogService", "Event Log", Entries=link(self.log_path), Status=OK),
            self.log_path: lambda: collection(self.log_path, "LogEntry", "Entries", (f"{self.log_path}/{n}" for n in self.log)),
        }

    def _telemetry_makers(self) -> dict[str, Maker]:
        names = ("MetricReportDefinitions", "MetricReports", "MetricDefinitions")
        definitions, reports, metrics = (f"{TELEMETRY}/{name}" for name in names)
        makers: dict[str, Maker] = {
            TELEMETRY: lambda: resource(
                TELEMETRY, "TelemetryService", "Telemetry Service", ServiceEnabled=True, MinCollectionInterval="PT0.5S", MaxReports=32,
                MetricDefinitions=link(metrics), MetricReportDefinitions=link(definitions), MetricReports=link(reports), Status=OK,
            ),
            metrics: lambda: collection(metrics, "MetricDefinition", "Metric Definitions", [f"{metrics}/Temperature"]),
            f"{metrics}/Temperature": lambda: self._metric_definition(f"{metrics}/Temperature"),
            reports: lambda: collection(reports, "MetricReport", "Metric Reports", (report.path for report in self._reports)),
        }  # fmt: skip
        for report in self._reports:
            makers[report.path] = lambda report=report: self._make_report(report)  # type: ignore[misc]
        if self._profile.has_definitions:
            makers[definitions] = lambda: collection(
                definitions, "MetricReportDefinition", "Metric Report Definitions", (report.definition_path for report in self._reports)
            )
            for report in self._reports:
                makers[report.definition_path] = lambda report=report: self._definition(report)  # type: ignore[misc]
        return makers

    def _metric_definition(self, path: str) -> Body:
        sensors = [sensor for sensor in self._machine.sensors() if sensor.reading_type == "Temperature"]
        return resource(
            path, "MetricDefinition", "Temperature", MetricType="Numeric", MetricDataType="Decimal", Units="Cel",
            Implementation="PhysicalSensor", MinReadingRange=-40, MaxReadingRange=125,
            Wildcards=[{"Name": "Sensor", "Values": [sensor.id for sensor in sensors]}],
            MetricProperties=[f"{self._machine.chassis}/Sensors/{{Sensor}}#/Reading"],
        )  # fmt: skip

    def _definition(self, report: Report) -> Body:
        kind = "OnRequest" if self._profile.is_on_request else "Periodic"
        body = resource(
            report.definition_path, "MetricReportDefinition", report.name, MetricReportDefinitionEnabled=True,
            MetricReportDefinitionType=kind, ReportUpdates="Overwrite", MetricReport=link(report.path), Status=OK,
            ReportActions=["RedfishEvent", "LogToMetricReportsCollection"],
        )  # fmt: skip
        return body | ({} if self._profile.is_on_request else {"Schedule": {"RecurrenceInterval": duration(self._report_interval_s)}})


def log_entry(path: str, record: Body) -> Body:
    """Write an event record as an entry of a log, whose members have names of their own."""
    entry = resource(path, "LogEntry", "Event Log Entry", EntryType="Event", Created=record.get("EventTimestamp"))
    entry |= {name: record[name] for name in ("MessageId", "Message", "MessageArgs", "Oem") if name in record}
    entry |= {"Severity": record["MessageSeverity"]} if "MessageSeverity" in record else {}
    return entry | ({"Links": {"OriginOfCondition": record["OriginOfCondition"]}} if "OriginOfCondition" in record else {})
