"""GPU, link and chassis readings of an emulated fleet in bulk: whole days of Arrow rows, as the collectors would have written them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from emulators.chassis import FANS, PSUS
from emulators.defects import Defects
from emulators.draws import Flags, Ints
from emulators.layout import DRIVER_VERSION, HOUR_NS, LINKS, NS
from emulators.telemetry import Columns
from emulators.world import World
from ingest.schema import CHASSIS_READINGS, GPU_SAMPLES, LINK_SAMPLES
from ingest.tables import Table

COLD_NS = 6 * HOUR_NS  # how often the NVML agent reads what hardly changes
# Every page of an exporter has all that our counters file asks for; the NVML agent reads in tiers, and more.
_COLD_NS = {"nvml": COLD_NS, "exporter": NS}
_COLD = frozenset({"remap_banks_low", "remap_banks_none", "sram_threshold_exceeded", "ecc_mode"})
_UNREAD = {
    "exporter": frozenset({"uptime_s", "pcie_l0_to_recovery_total", "nvlink_active"}),
    "nvml": frozenset({"xid_last"}),
}
_LINK_SUMS = frozenset({"nvlink_active", "nvlink_crc_total", "nvlink_replay_total", "nvlink_recovery_total"})
_NOT_ON_AN_H100 = [("retired_pages_total", "not_supported"), ("retired_pages_pending", "not_supported")]


@dataclass(frozen=True)
class Polls:
    """Polls of one kind of source, in the order of node and time."""

    nodes: Ints
    read_ns: Ints  # as of when the values are
    observed_ns: Ints
    received_ns: Ints

    def __len__(self) -> int:
        return len(self.nodes)


class SampleHistory:
    """Rows of `gpu_samples`, `link_samples` and `chassis_readings` for a span of time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._defects = Defects(world.spec)
        self._uuids = pa.array([gpu.uuid for gpu in world.gpus])
        self._serials = pa.array([gpu.serial for gpu in world.gpus])
        self._pcis = pa.array([gpu.pci for gpu in world.gpus])
        self._names = pa.array([node.name for node in world.nodes])
        self._boots = pa.array([world.timeline.boot_id(boot) for boot in range(len(world.timeline.boot_ns))])
        self._of_source = {
            source: np.array([node.index for node in world.nodes if node.source == source], np.int64) for source in ("nvml", "exporter")
        }

    def polls(self, source: str, from_ns: int, until_ns: int, every_ns: int) -> Polls:
        """List the polls that gave something."""
        spec = self._world.spec
        due = np.arange(from_ns, until_ns, every_ns, dtype=np.int64)
        nodes = np.repeat(self._of_source[source], len(due))
        at = np.tile(due, len(self._of_source[source]))
        slots = (at - spec.start_ns) // (spec.cadence_s * NS)
        is_given = ~self._defects.is_lost(nodes, slots) & ~self._world.timeline.is_down(nodes, at)
        times = 1 + self._defects.is_doubled(nodes, slots)
        nodes, at, slots = (np.repeat(column, times * is_given) for column in (nodes, at, slots))
        read = at - np.where(self._defects.is_stale(nodes, slots), spec.cadence_s * NS, 0)
        observed = at + self._defects.jitter_ns(nodes, slots) + self._defects.skew_ns(nodes, slots)
        return Polls(nodes, read, observed, observed + self._defects.latency_ns(nodes, slots))

    def gpu_samples(self, from_ns: int, until_ns: int) -> Iterator[pa.Table]:
        """Read all GPUs at the cadence of the fleet, one table per source."""
        for source in ("nvml", "exporter"):
            polls = self.polls(source, from_ns, until_ns, self._world.spec.cadence_s * NS)
            if len(polls):
                yield self._gpu_rows(source, polls, self._world.columns(polls.nodes, polls.read_ns))

    def _gpu_rows(self, source: str, polls: Polls, read: Columns) -> pa.Table:
        slots = self._world.spec.gpus_per_node
        order = _by_gpu(polls.nodes, slots)
        poll = order // slots
        is_lost, is_hidden = (read[name].ravel()[order] for name in ("is_lost", "is_hidden"))
        is_cold = (polls.read_ns % _COLD_NS[source] == 0)[poll]
        is_seen = ~(is_lost | is_hidden)
        rows = self._identity(source, polls, read, order) | {
            "tier": _either("warm", "cold", is_cold & (source == "nvml")),
            "gpu_index": pa.array(order % slots, mask=is_hidden if source == "nvml" else None),
            "gpu_present": pa.array(~is_hidden if source == "nvml" else is_seen),
            "gpu_model": _optional(self._world.gpus[0].model, is_cold & (~is_hidden | (source == "exporter"))),
            "driver_version": _optional(DRIVER_VERSION, is_cold & (~is_hidden | (source == "exporter"))),
        }
        values = {name: column.ravel()[order] for name, column in read.items() if name in GPU_SAMPLES.names and name not in _UNREAD[source]}
        for name, column in (values | {"ecc_mode": np.ones(len(poll), bool)}).items():
            is_there = is_seen & is_cold if name in _COLD else is_seen
            rows[name] = pa.array(column, mask=None if is_there.all() else ~is_there)
        if source == "exporter":  # no series before the first XID
            rows["xid_last"] = pa.array(values["xid_last"], mask=(values["xid_last"] < 0) | ~is_seen)
        else:
            rows["quality"] = _quality(is_lost, is_cold & ~is_hidden, [*values.keys() - _LINK_SUMS, "ecc_mode"])
        return _rows(GPU_SAMPLES, rows)

    def _identity(self, source: str, polls: Polls, read: Columns, order: Ints) -> dict[str, Any]:
        poll = order // self._world.spec.gpus_per_node
        gpu = read["gpu"].ravel()[order]
        rows: dict[str, Any] = {
            "node": _named(self._names, polls.nodes[poll]),
            "observed_at": _timestamps(polls.observed_ns[poll]),
            "received_at": _timestamps(polls.received_ns[poll]),
            "source": _optional(source, np.ones(len(poll), bool)),
            "gpu_uuid": _named(self._uuids, gpu),
            "serial": _named(self._serials, gpu),
            "pci": _named(self._pcis, gpu),
        }
        if source == "nvml":
            rows["boot_id"] = _named(self._boots, read["boot"].ravel()[order])
        return rows

    def link_samples(self, from_ns: int, until_ns: int) -> pa.Table:
        """Read all NVLinks every six hours; an exporter's page has none of them."""
        polls = self.polls("nvml", from_ns, until_ns, COLD_NS)
        timeline, slots = self._world.timeline, self._world.spec.gpus_per_node
        links = self._world.telemetry.links(polls.nodes, polls.read_ns)
        seats = polls.nodes[:, None] * slots + np.arange(slots)
        gpu = np.repeat(timeline.gpus_at(seats, polls.read_ns[:, None]).ravel(), LINKS)
        poll = np.repeat(np.arange(len(polls)), slots * LINKS)
        rows = {
            "node": _named(self._names, polls.nodes[poll]),
            "observed_at": _timestamps(polls.observed_ns[poll]),
            "received_at": _timestamps(polls.received_ns[poll]),
            "source": _optional("nvml", np.ones(len(poll), bool)),
            "boot_id": _named(self._boots, timeline.boots(polls.nodes, polls.read_ns)[poll]),
            "gpu_uuid": _named(self._uuids, gpu),
            "link": pa.array(np.tile(np.arange(LINKS), len(polls) * slots)),
            "speed_mb_s": pa.array(np.full(len(poll), 26_562.0)),
            **{name: pa.array(values.ravel()) for name, values in links.items()},
        }
        return _rows(LINK_SAMPLES, rows)

    def chassis_readings(self, from_ns: int, until_ns: int) -> pa.Table:
        """Read all BMCs every hour; they answer also while the host is down."""
        due = np.arange(from_ns, until_ns, HOUR_NS, dtype=np.int64)
        nodes = np.repeat(np.arange(len(self._world.nodes)), len(due))
        at = np.tile(due, len(self._world.nodes))
        read = self._world.chassis.columns(nodes, at)
        slots = (at - self._world.spec.start_ns) // (self._world.spec.cadence_s * NS)
        received = at + self._defects.latency_ns(nodes, slots)
        shown = [sensor for sensor in SENSORS if sensor.part < _parts(read[sensor.column])]
        return pa.concat_tables(
            [self._sensor(sensor, nodes, at, received, _reading(read, sensor)) for sensor in shown], promote_options="none"
        )

    def _sensor(self, sensor: Sensor, nodes: Ints, at: Ints, received: Ints, values: Any) -> pa.Table:
        everywhere = np.ones(len(nodes), bool)
        rows = {
            "node": _named(self._names, nodes),
            "observed_at": _timestamps(at),
            "received_at": _timestamps(received),
            "source": _optional("redfish", everywhere),
            "sensor": _optional(sensor.path, everywhere),
            "quantity": _optional(sensor.quantity, everywhere),
            "device": _optional(sensor.device, everywhere),
            "value": pa.array(values.astype(np.float64)),
            "unit": _optional(sensor.unit, everywhere & bool(sensor.unit)),
            "text": _named(pa.array(sensor.texts), values.astype(np.int64)) if sensor.texts else _optional("", ~everywhere),
        }
        return _rows(CHASSIS_READINGS, rows)


@dataclass(frozen=True)
class Sensor:
    """One series of a BMC: the column (and the part of it) that it shows, and how it is named."""

    column: str
    part: int
    path: str
    quantity: str
    device: str
    unit: str = ""
    texts: tuple[str, ...] = ()


def _sensors() -> tuple[Sensor, ...]:
    sensors = "/Chassis/Baseboard/Sensors/"
    listed = [
        Sensor("inlet_temp_c", 0, sensors + "Inlet_Temp", "inlet_temp_c", "chassis", "°C"),
        Sensor("outlet_temp_c", 0, sensors + "Outlet_Temp", "outlet_temp_c", "chassis", "°C"),
        Sensor("power_w", 0, sensors + "Total_Power", "power_w", "chassis", "W"),
        Sensor("power_is_on", 0, "/Systems/System", "power_state", "chassis", "", ("Off", "On")),
    ]
    listed += [Sensor("fan_rpm", i, f"{sensors}Fan_{i}_Speed", "fan_rpm", f"fan{i}", "RPM") for i in range(FANS)]
    for i in range(PSUS):
        supply = f"{sensors}PSU_{i}_Input_"
        listed.append(Sensor("psu_input_w", i, supply + "Power", "psu_input_w", f"psu{i}", "W"))
        listed.append(Sensor("psu_input_v", i, supply + "Voltage", "psu_input_v", f"psu{i}", "V"))
        listed.append(Sensor("psu_is_present", i, supply + "Power", "presence", f"psu{i}", "", ("Absent", "Enabled")))
    listed += [Sensor("gpu_temps_c", i, f"{sensors}HGX_GPU_{i}_TEMP_0", "gpu_temp_c", f"gpu{i}", "°C") for i in range(8)]
    return tuple(listed)


SENSORS = _sensors()


def _parts(values: NDArray[Any]) -> int:
    return 1 if values.ndim == 1 else int(values.shape[1])


def _reading(read: Columns, sensor: Sensor) -> NDArray[Any]:
    values = read[sensor.column]
    return values if values.ndim == 1 else np.ascontiguousarray(values[:, sensor.part])


def _by_gpu(nodes: Ints, slots: int) -> Ints:
    """Order flattened (poll, slot) readings by node, slot and time: runs of equal values compress and read best."""
    poll, slot = np.divmod(np.arange(len(nodes) * slots), slots)
    return np.lexsort((poll, slot, nodes[poll]))


def _named(names: pa.Array, codes: Ints, *, is_there: Flags | None = None) -> pa.Array:
    missing = None if is_there is None or is_there.all() else ~is_there
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=missing), names)


def _optional(text: str, is_there: Flags) -> pa.Array:
    return _named(pa.array([text]), np.zeros(len(is_there), np.int64), is_there=is_there)


def _either(usual: str, other: str, is_other: Flags) -> pa.Array:
    return _named(pa.array([usual, other]), is_other.astype(np.int64))


def _quality(is_lost: Flags, is_cold: Flags, columns: Sequence[str]) -> pa.Array:
    """Say what the NVML agent could not read: of a lost GPU every field of the poll's tier, of any H100 the pages of older models."""
    lost = {cold: [(name, "lost") for name in columns if cold or name not in _COLD] for cold in (False, True)}
    lost[True] += [(name, "lost") for name, _ in _NOT_ON_AN_H100]
    maps: list[list[tuple[str, str]] | None] = [None] * len(is_lost)
    for row in np.nonzero(is_lost | is_cold)[0]:
        maps[row] = lost[bool(is_cold[row])] if is_lost[row] else _NOT_ON_AN_H100
    return pa.array(maps, pa.map_(pa.string(), pa.string()))


def _timestamps(times_ns: Ints) -> pa.Array:
    return pa.array(times_ns // 1000, pa.timestamp("us", tz="UTC"))


def _rows(table: Table, rows: Mapping[str, Any]) -> pa.Table:
    # dictionaries are spelt out when the lake stores them
    assert set(rows) <= set(table.names), f"BUG: {table.name} has no {set(rows) - set(table.names)}"
    return pa.table(dict(rows))
