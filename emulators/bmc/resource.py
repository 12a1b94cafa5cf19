"""What every resource and collection of a Redfish service has.

Versions are those of the Redfish bundle 2025.4; the service validator checks each resource against its schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from emulators.bmc.messages import Body

ROOT = "/redfish/v1"
OK: Body = {"State": "Enabled", "Health": "OK"}
Maker = Callable[[], Body | None]
VERSIONS = {
    "ServiceRoot": "v1_20_0", "Chassis": "v1_28_0", "ComputerSystem": "v1_26_0", "Manager": "v1_24_0",
    "ManagerNetworkProtocol": "v1_12_0", "AccountService": "v1_18_0", "ManagerAccount": "v1_14_0", "Role": "v1_3_3",
    "SessionService": "v1_2_0", "Session": "v1_8_0", "EventService": "v1_12_0", "EventDestination": "v1_16_0",
    "TelemetryService": "v1_4_1", "MetricDefinition": "v1_3_5", "MetricReportDefinition": "v1_4_7", "MetricReport": "v1_5_2",
    "Sensor": "v1_12_0",
}  # fmt: skip
# Of resources that only profiles other than `strict` serve.
RICH_VERSIONS = {
    "Processor": "v1_20_0", "ProcessorMetrics": "v1_7_0", "Memory": "v1_20_0", "MemoryMetrics": "v1_7_2", "PowerSubsystem": "v1_1_3",
    "PowerSupply": "v1_6_0", "LogService": "v1_7_0", "LogEntry": "v1_17_0",
}  # fmt: skip


def link(path: str) -> Body:
    """Link to a resource."""
    return {"@odata.id": path}


def links(paths: Iterable[str]) -> list[Body]:
    """Link to resources."""
    return [link(path) for path in paths]


def resource(path: str, kind: str, name: str, **members: object) -> Body:
    """Begin a resource with what all have; its Id is the last part of its path."""
    version = VERSIONS.get(kind) or RICH_VERSIONS[kind]
    return {"@odata.id": path, "@odata.type": f"#{kind}.{version}.{kind}", "Id": path.rpartition("/")[2], "Name": name, **members}


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
