"""The resources of a BMC, made anew from its state at every request.

Versions are those of the Redfish bundle 2025.4; the service validator checks each resource against its schema.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from emulators.bmc.accounts import ROLES, Accounts
from emulators.bmc.machine import CHASSIS, SYSTEM, ReadState, Sensor, sensors_of
from emulators.bmc.messages import Body
from emulators.bmc.profile import Profile
from emulators.bmc.reports import SERVICE as TELEMETRY
from emulators.bmc.reports import Report, render
from emulators.bmc.times import duration, stamp

ROOT = "/redfish/v1"
MANAGER = f"{ROOT}/Managers/bmc"
ACCOUNTS = f"{ROOT}/AccountService/Accounts"
ROLE_PATH = f"{ROOT}/AccountService/Roles"
SESSIONS = f"{ROOT}/SessionService/Sessions"
SUBSCRIPTIONS = f"{ROOT}/EventService/Subscriptions"
VERSIONS = {
    "ServiceRoot": "v1_20_0", "Chassis": "v1_28_0", "ComputerSystem": "v1_26_0", "Manager": "v1_24_0",
    "ManagerNetworkProtocol": "v1_12_0", "AccountService": "v1_18_0", "ManagerAccount": "v1_14_0", "Role": "v1_3_3",
    "SessionService": "v1_2_0", "Session": "v1_8_0", "EventService": "v1_12_0", "EventDestination": "v1_16_0",
    "TelemetryService": "v1_4_1", "MetricDefinition": "v1_3_5", "MetricReportDefinition": "v1_4_7", "MetricReport": "v1_5_2",
    "Sensor": "v1_12_0",
}  # fmt: skip
_OK: Body = {"State": "Enabled", "Health": "OK"}


def link(path: str) -> Body:
    """Link to a resource."""
    return {"@odata.id": path}


def links(paths: Iterable[str]) -> list[Body]:
    """Link to resources."""
    return [link(path) for path in paths]


def resource(path: str, kind: str, number: str, name: str, **members: object) -> Body:
    """Begin a resource with what all have."""
    return {"@odata.id": path, "@odata.type": f"#{kind}.{VERSIONS[kind]}.{kind}", "Id": number, "Name": name, **members}


def collection(path: str, kind: str, name: str, paths: Iterable[str]) -> Body:
    """Build a collection."""
    members = links(paths)
    return {
        "@odata.id": path,
        "@odata.type": f"#{kind}Collection.{kind}Collection",
        "Name": name,
        "Members@odata.count": len(members),
        "Members": members,
    }


@dataclass
class Subscription:
    """One event destination; one without `destination` is an open stream."""

    id: str
    context: str
    destination: str | None = None
    format: str = "Event"


@dataclass
class Tree:
    """The resources of one BMC by path."""

    profile: Profile
    accounts: Accounts
    reports: tuple[Report, ...]
    read_state: ReadState
    now_ns: Callable[[], int]
    report_interval_s: float
    name: str
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    ntp_servers: list[str] = field(default_factory=lambda: ["ntp1.example.com", "ntp2.example.com"])
    firmware: str = "1.0.0"

    def __post_init__(self) -> None:
        self.uuid = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{self.name}.bmc.example.com"))
        self._makers: dict[str, Callable[[], Body]] = {
            ROOT: self._root,
            f"{ROOT}/Chassis": lambda: collection(f"{ROOT}/Chassis", "Chassis", "Chassis Collection", [CHASSIS]),
            CHASSIS: self._chassis,
            f"{CHASSIS}/Sensors": self._sensors,
            f"{ROOT}/Systems": lambda: collection(f"{ROOT}/Systems", "ComputerSystem", "Computer System Collection", [SYSTEM]),
            SYSTEM: self._system,
            f"{ROOT}/Managers": lambda: collection(f"{ROOT}/Managers", "Manager", "Manager Collection", [MANAGER]),
            MANAGER: self._manager,
            f"{MANAGER}/NetworkProtocol": self._network,
            f"{ROOT}/AccountService": self._account_service,
            ACCOUNTS: lambda: collection(ACCOUNTS, "ManagerAccount", "Accounts", (f"{ACCOUNTS}/{n}" for n in self.accounts.accounts)),
            ROLE_PATH: lambda: collection(ROLE_PATH, "Role", "Roles", (f"{ROLE_PATH}/{role}" for role in ROLES)),
            f"{ROOT}/SessionService": self._session_service,
            SESSIONS: lambda: collection(SESSIONS, "Session", "Sessions", (f"{SESSIONS}/{n}" for n in self.accounts.sessions)),
            f"{ROOT}/EventService": self._event_service,
            SUBSCRIPTIONS: lambda: collection(
                SUBSCRIPTIONS, "EventDestination", "Event Subscriptions", (f"{SUBSCRIPTIONS}/{n}" for n in self.subscriptions)
            ),
        }
        self._makers |= self._telemetry_makers()

    def get(self, path: str) -> Body | None:
        """Make the resource at a path; None if there is none."""
        maker = self._makers.get(path)
        if maker is not None:
            return maker()
        parent, _, last = path.rpartition("/")
        return self._member(parent, last)

    def _member(self, parent: str, last: str) -> Body | None:
        """Make a member of a collection whose members come and go."""
        if parent == f"{CHASSIS}/Sensors":
            return next((self._sensor(sensor) for sensor in sensors_of(self.read_state()) if sensor.id == last), None)
        if parent == ACCOUNTS and last in self.accounts.accounts:
            return self._account(last)
        if parent == SESSIONS and last in self.accounts.sessions:
            return self.session(last)
        if parent == SUBSCRIPTIONS and last in self.subscriptions:
            return self._subscription(self.subscriptions[last])
        if parent == ROLE_PATH and last in ROLES:
            return resource(f"{parent}/{last}", "Role", last, last, IsPredefined=True, RoleId=last, AssignedPrivileges=list(ROLES[last]))
        return None

    def report(self, report: Report) -> Body:
        """Write a report as of now."""
        return render(
            report,
            self.read_state(),
            self.now_ns(),
            version=VERSIONS["MetricReport"],
            has_report_time=self.profile.has_report_time,
        )

    def _root(self) -> Body:
        services = ("Systems", "Chassis", "Managers", "AccountService", "SessionService", "EventService", "TelemetryService")
        features = {
            "ExpandQuery": {"ExpandAll": False, "Levels": False, "Links": False, "NoLinks": False},
            "SelectQuery": False, "FilterQuery": False, "OnlyMemberQuery": False, "ExcerptQuery": False,
        }  # fmt: skip
        body = resource(f"{ROOT}/", "ServiceRoot", "RootService", "Root Service", RedfishVersion="1.22.0", UUID=self.uuid)
        body |= {"Vendor": self.profile.vendor, "Product": self.profile.product, "ProtocolFeaturesSupported": features}
        body |= {service: link(f"{ROOT}/{service}") for service in services}
        return body | {"Links": {"Sessions": link(SESSIONS), "ManagerProvidingService": link(MANAGER)}}

    def _chassis(self) -> Body:
        return resource(
            CHASSIS, "Chassis", "Baseboard", "Baseboard", ChassisType="RackMount", SerialNumber=self.read_state()[0].serial,
            Status=_OK, Sensors=link(f"{CHASSIS}/Sensors"),
            Links={"ComputerSystems": links([SYSTEM]), "ManagedBy": links([MANAGER])},
        )  # fmt: skip

    def _sensors(self) -> Body:
        return collection(f"{CHASSIS}/Sensors", "Sensor", "Sensors", (sensor.path for sensor in sensors_of(self.read_state())))

    def _sensor(self, sensor: Sensor) -> Body:
        return resource(
            sensor.path, "Sensor", sensor.id, sensor.id.replace("_", " "), ReadingType=sensor.reading_type, ReadingUnits=sensor.units,
            PhysicalContext=sensor.context, Reading=sensor.value, Status=_OK if sensor.is_present else {"State": "Absent"},
        )  # fmt: skip

    def _system(self) -> Body:
        chassis, _ = self.read_state()
        return resource(
            SYSTEM, "ComputerSystem", "System", "System", SystemType="Physical", SerialNumber=chassis.serial,
            PowerState="On" if chassis.power_is_on else "Off", Status=_OK,
            Links={"Chassis": links([CHASSIS]), "ManagedBy": links([MANAGER])},
        )  # fmt: skip

    def _manager(self) -> Body:
        return resource(
            MANAGER, "Manager", "bmc", "BMC", ManagerType="BMC", FirmwareVersion=self.firmware, Manufacturer=self.profile.vendor,
            Model=self.profile.product, ServiceEntryPointUUID=self.uuid, UUID=self.uuid, NetworkProtocol=link(f"{MANAGER}/NetworkProtocol"),
            DateTime=stamp(self.now_ns()), DateTimeLocalOffset="+00:00", Status=_OK,
            Links={"ManagerForServers": links([SYSTEM]), "ManagerForChassis": links([CHASSIS])},
        )  # fmt: skip

    def _network(self) -> Body:
        return resource(
            f"{MANAGER}/NetworkProtocol", "ManagerNetworkProtocol", "NetworkProtocol", "Manager Network Protocol",
            HTTPS={"ProtocolEnabled": True, "Port": 443}, HTTP={"ProtocolEnabled": False, "Port": 80},
            NTP={"ProtocolEnabled": True, "NTPServers": list(self.ntp_servers)}, FQDN=f"{self.name}.bmc.example.com", HostName=self.name,
            Status=_OK,
        )  # fmt: skip

    def _account_service(self) -> Body:
        return resource(
            f"{ROOT}/AccountService", "AccountService", "AccountService", "Account Service", ServiceEnabled=True, MinPasswordLength=8,
            MaxPasswordLength=64, Accounts=link(ACCOUNTS), Roles=link(ROLE_PATH), Status=_OK,
        )  # fmt: skip

    def _account(self, number: str) -> Body:
        account = self.accounts.accounts[number]
        return resource(
            f"{ACCOUNTS}/{number}", "ManagerAccount", number, "User Account", UserName=account.username, Password=None,
            RoleId=account.role, Enabled=account.is_enabled, Locked=False, PasswordChangeRequired=account.must_change_password,
            AccountTypes=["Redfish"], Links={"Role": link(f"{ROLE_PATH}/{account.role}")},
        )  # fmt: skip

    def _session_service(self) -> Body:
        return resource(
            f"{ROOT}/SessionService", "SessionService", "SessionService", "Session Service", ServiceEnabled=True,
            SessionTimeout=max(30, round(self.accounts.timeout_s)), Sessions=link(SESSIONS), Status=_OK,
        )  # fmt: skip

    def session(self, number: str) -> Body:
        """Show a session."""
        username = self.accounts.sessions[number].username
        return resource(f"{SESSIONS}/{number}", "Session", number, "User Session", UserName=username, SessionType="Redfish")

    def _event_service(self) -> Body:
        filters = ("EventFormatType", "MetricReportDefinition", "MessageId", "RegistryPrefix", "OriginResource", "ResourceType")
        honoured = {"EventFormatType", "MetricReportDefinition"} if self.profile.admission.filter != "none" else set[str]()
        return resource(
            f"{ROOT}/EventService", "EventService", "EventService", "Event Service", ServiceEnabled=True, DeliveryRetryAttempts=3,
            DeliveryRetryIntervalSeconds=30, EventFormatTypes=["Event", "MetricReport"], RegistryPrefixes=["ResourceEvent"],
            ResourceTypes=["Chassis", "TelemetryService"], ServerSentEventUri=self.profile.admission.path,
            SSEFilterPropertiesSupported={name: name in honoured for name in filters}, Subscriptions=link(SUBSCRIPTIONS), Status=_OK,
        )  # fmt: skip

    def _subscription(self, subscription: Subscription) -> Body:
        kind = "RedfishEvent" if subscription.destination else "SSE"
        body = resource(
            f"{SUBSCRIPTIONS}/{subscription.id}", "EventDestination", subscription.id, "Event subscription", Context=subscription.context,
            Protocol="Redfish", SubscriptionType=kind, EventFormatType=subscription.format, Status=_OK,
        )  # fmt: skip
        return body | ({"Destination": subscription.destination} if subscription.destination else {})

    def _telemetry_makers(self) -> dict[str, Callable[[], Body]]:
        definitions, reports, metrics = (
            f"{TELEMETRY}/{name}" for name in ("MetricReportDefinitions", "MetricReports", "MetricDefinitions")
        )
        makers: dict[str, Callable[[], Body]] = {
            TELEMETRY: lambda: resource(
                TELEMETRY, "TelemetryService", "TelemetryService", "Telemetry Service", ServiceEnabled=True,
                MinCollectionInterval="PT0.5S", MaxReports=32, MetricDefinitions=link(metrics), MetricReportDefinitions=link(definitions),
                MetricReports=link(reports), Status=_OK,
            ),
            metrics: lambda: collection(metrics, "MetricDefinition", "Metric Definitions", [f"{metrics}/Temperature"]),
            f"{metrics}/Temperature": lambda: self._metric_definition(f"{metrics}/Temperature"),
            reports: lambda: collection(reports, "MetricReport", "Metric Reports", (report.path for report in self.reports)),
        }  # fmt: skip
        for report in self.reports:
            makers[report.path] = lambda report=report: self.report(report)  # type: ignore[misc]
        if self.profile.has_definitions:
            makers[definitions] = lambda: collection(
                definitions, "MetricReportDefinition", "Metric Report Definitions", (report.definition_path for report in self.reports)
            )
            for report in self.reports:
                makers[report.definition_path] = lambda report=report: self._definition(report)  # type: ignore[misc]
        return makers

    def _metric_definition(self, path: str) -> Body:
        temperatures = [sensor.id for sensor in sensors_of(self.read_state()) if sensor.reading_type == "Temperature"]
        return resource(
            path, "MetricDefinition", "Temperature", "Temperature", MetricType="Numeric", MetricDataType="Decimal", Units="Cel",
            Implementation="PhysicalSensor", MinReadingRange=-40, MaxReadingRange=125,
            Wildcards=[{"Name": "Sensor", "Values": temperatures}], MetricProperties=[f"{CHASSIS}/Sensors/{{Sensor}}#/Reading"],
        )  # fmt: skip

    def _definition(self, report: Report) -> Body:
        body = resource(
            report.definition_path, "MetricReportDefinition", report.name, report.name, MetricReportDefinitionEnabled=True,
            MetricReportDefinitionType="OnRequest" if self.profile.is_on_request else "Periodic", ReportUpdates="Overwrite",
            ReportActions=["RedfishEvent", "LogToMetricReportsCollection"], MetricReport=link(report.path), Status=_OK,
        )  # fmt: skip
        if not self.profile.is_on_request:
            body["Schedule"] = {"RecurrenceInterval": duration(self.report_interval_s)}
        return body
