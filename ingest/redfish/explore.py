"""Look over the machine behind a BMC, one request at a time: its GPUs' identity and the resources worth reading apart from reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ingest.redfish.browse import Getter, link, members, optional
from ingest.redfish.dell import device_of
from ingest.redfish.identity import ROOT, place_of
from ingest.redfish.payloads import Body
from ingest.redfish.resources import wanted_of


@dataclass(frozen=True, kw_only=True)
class Explored:
    """What was found."""

    firmware: str | None = None
    gpu_uuids: Mapping[str, str] = field(default_factory=dict)
    sensor_collections: tuple[str, ...] = ()
    resource_paths: tuple[str, ...] = ()
    log_paths: tuple[str, ...] = ()


async def explore(bmc: Getter, root: Body, *, wants_sensors: bool) -> Explored:
    """Read systems, chassis and managers as far as their links lead to something wanted."""
    systems = await members(bmc, link(root, "Systems"))
    found: dict[str, str] = {}
    resources: list[str] = list(systems)
    logs: list[str] = []
    for path in systems:
        system = await optional(bmc, path)
        processors = await members(bmc, link(system, "Processors"))
        memory = await members(bmc, link(system, "Memory"))
        found |= await _gpu_uuids(bmc, processors)
        resources += [*memory, *(f"{part}/MemoryMetrics" for part in memory), *(f"{part}/ProcessorMetrics" for part in processors)]
        logs += await _logs(bmc, system)
    sensors: list[str] = []
    for path in await members(bmc, link(root, "Chassis")):
        chassis = await optional(bmc, path)
        sensors += [path for path in [link(chassis, "Sensors")] if path and wants_sensors]
        resources += await members(bmc, link(await optional(bmc, link(chassis, "PowerSubsystem")), "PowerSupplies"))
    return Explored(
        firmware=await _firmware(bmc, root),
        gpu_uuids=found,
        sensor_collections=tuple(sensors),
        resource_paths=tuple(path for path in resources if wanted_of(path)),
        log_paths=tuple(logs),
    )


def gpu_of(path: str) -> str | None:
    """Name the GPU that a processor's path is about, as reports name it; None for other processors."""
    place = place_of(path.removeprefix(ROOT))
    device = place.device if place else device_of(path.rpartition("/")[2])
    return device if device is not None and device.startswith("gpu") else None


async def _gpu_uuids(bmc: Getter, processors: list[str]) -> dict[str, str]:
    """Map device names to UUIDs as NVML spells them (`GPU-` and lower case)."""
    found: dict[str, str] = {}
    for path in processors:
        device = gpu_of(path)
        uuid = (await optional(bmc, path)).get("UUID") if device else None
        if device and isinstance(uuid, str) and uuid:
            found[device] = "GPU-" + uuid.lower().removeprefix("gpu-")
    return found


async def _logs(bmc: Getter, system: Body) -> list[str]:
    paths = [link(await optional(bmc, service), "Entries") for service in await members(bmc, link(system, "LogServices"))]
    return [path for path in paths if path]


async def _firmware(bmc: Getter, root: Body) -> str | None:
    managers = await members(bmc, link(root, "Managers"))
    firmware = (await optional(bmc, managers[0])).get("FirmwareVersion") if managers else None
    return firmware if isinstance(firmware, str) else None
