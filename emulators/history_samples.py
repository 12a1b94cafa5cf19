"""GPU and link readings of an emulated fleet in bulk: whole days of Arrow rows, as the collectors would have written them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from emulators.defects import Defects
from emulators.draws import Flags, Ints
from emulators.history_columns import constant, either, named, rows_of, timestamps
from emulators.layout import DRIVER_VERSION, HOUR_NS, LINKS, NS
from emulators.telemetry import Columns
from emulators.world import World
from ingest.schema import GPU_SAMPLES, LINK_SAMPLES

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
    """Rows of `gpu_samples` and `link_samples` for a span of time."""

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
            "tier": either("warm", "cold", is_cold & (source == "nvml")),
            "gpu_index": pa.array(order % slots, mask=is_hidden if source == "nvml" else None),
            "gpu_present": pa.array(~is_hidden if source == "nvml" else is_seen),
            "gpu_model": constant(self._world.gpus[0].model, is_cold & (~is_hidden | (source == "exporter"))),
            "driver_version": constant(DRIVER_VERSION, is_cold & (~is_hidden | (source == "exporter"))),
        }
        values = {name: column.ravel()[order] for name, column in read.items() if name in GPU_SAMPLES.names and name not in _UNREAD[source]}
        for name, column in (values | {"ecc_mode": np.ones(len(poll), bool)}).items():
            is_there = is_seen & is_cold if name in _COLD else is_seen
            rows[name] = pa.array(column, mask=None if is_there.all() else ~is_there)
        if source == "exporter":  # no series before the first XID
            rows["xid_last"] = pa.array(values["xid_last"], mask=(values["xid_last"] < 0) | ~is_seen)
        else:
            rows["quality"] = _quality(is_lost, is_cold & ~is_hidden, [*values.keys() - _LINK_SUMS, "ecc_mode"])
        return rows_of(GPU_SAMPLES, rows)

    def _identity(self, source: str, polls: Polls, read: Columns, order: Ints) -> dict[str, Any]:
        poll = order // self._world.spec.gpus_per_node
        gpu = read["gpu"].ravel()[order]
        rows: dict[str, Any] = {
            "node": named(self._names, polls.nodes[poll]),
            "observed_at": timestamps(polls.observed_ns[poll]),
            "received_at": timestamps(polls.received_ns[poll]),
            "source": constant(source, np.ones(len(poll), bool)),
            "gpu_uuid": named(self._uuids, gpu),
            "serial": named(self._serials, gpu),
            "pci": named(self._pcis, gpu),
        }
        if source == "nvml":
            rows["boot_id"] = named(self._boots, read["boot"].ravel()[order])
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
            "node": named(self._names, polls.nodes[poll]),
            "observed_at": timestamps(polls.observed_ns[poll]),
            "received_at": timestamps(polls.received_ns[poll]),
            "source": constant("nvml", np.ones(len(poll), bool)),
            "boot_id": named(self._boots, timeline.boots(polls.nodes, polls.read_ns)[poll]),
            "gpu_uuid": named(self._uuids, gpu),
            "link": pa.array(np.tile(np.arange(LINKS), len(polls) * slots)),
            "speed_mb_s": pa.array(np.full(len(poll), 26_562.0)),
            **{name: pa.array(values.ravel()) for name, values in links.items()},
        }
        return rows_of(LINK_SAMPLES, rows)


def _by_gpu(nodes: Ints, slots: int) -> Ints:
    """Order flattened (poll, slot) readings by node, slot and time: runs of equal values compress and read best."""
    poll, slot = np.divmod(np.arange(len(nodes) * slots), slots)
    return np.lexsort((poll, slot, nodes[poll]))


def _quality(is_lost: Flags, is_cold: Flags, columns: Sequence[str]) -> pa.Array:
    """Say what the NVML agent could not read: of a lost GPU every field of the poll's tier, of any H100 the pages of older models."""
    lost = {cold: [(name, "lost") for name in columns if cold or name not in _COLD] for cold in (False, True)}
    lost[True] += [(name, "lost") for name, _ in _NOT_ON_AN_H100]
    maps: list[list[tuple[str, str]] | None] = [None] * len(is_lost)
    for row in np.nonzero(is_lost | is_cold)[0]:
        maps[row] = lost[bool(is_cold[row])] if is_lost[row] else _NOT_ON_AN_H100
    return pa.array(maps, pa.map_(pa.string(), pa.string()))
