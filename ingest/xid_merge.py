"""One incident, one event: join what the kernel log, NVML and the exporter say about the same XID, and tell causes from consequences.

Kernel log and NVML are authorities: the first of them to tell of an XID is passed on at once, the other is dropped when GPU and code are
equal and the times lie within a window. The exporter's gauge is a hint: it waits, and is dropped when an authority tells the same within
the time by which the gauge may be late. Nobody's silence ever drops an authority's event.

Consequences (signals: NVIDIA's catalogue, NVSentinel): 45 always; 31 after 48, 79 or 94 on the same GPU; 74 on the peer of a GPU that has
failed; 171 and 172 are attributes of 48. The root is the earliest event within a minute that follows from nothing. 31 on four GPUs or
more of a node within seconds is a bug of their job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from ingest.clock import NS, Clock
from ingest.exporter_gpu import SOURCE as GAUGE
from ingest.metrics import XID_MERGED
from ingest.schema import Event, GpuSample, InventoryRow, Observed
from ingest.source import Pace, Source
from ingest.xid import (
    CONTAINED,
    FALLEN_OFF_BUS,
    NVLINK,
    PAGE_FAULT,
    PREEMPTIVE_CLEANUP,
    UNCORRECTABLE,
    UNCORRECTABLE_DRAM,
    UNCORRECTABLE_SRAM,
)

_KINDS = ("xid", "bus_loss")
_FAULTS_THAT_PAGE = (UNCORRECTABLE, FALLEN_OFF_BUS, CONTAINED)
_MEMORY_ATTRIBUTES = (UNCORRECTABLE_DRAM, UNCORRECTABLE_SRAM)
_BURST_GPUS, _BURST_NS = 4, 5 * NS


@dataclass
class _Told:
    event: Event
    gpu: str
    by: set[str]


@dataclass
class _Node:
    gpu_at: dict[str, str] = field(default_factory=dict)
    told: list[_Told] = field(default_factory=list)
    held: list[Event] = field(default_factory=list)


class XidMerge:
    """The events of a process's nodes. `window_s`: spread of one XID's stamps; `hold_s`: how late a gauge may be."""

    def __init__(self, *, window_s: float = 2.0, hold_s: float = 60.0, root_window_s: float = 60.0) -> None:
        self._window_ns = int(window_s * NS)
        self._hold_ns = int(hold_s * NS)
        self._root_ns = int(root_window_s * NS)
        self._nodes: defaultdict[str, _Node] = defaultdict(_Node)

    def admit(self, records: Iterable[Observed], now_ns: int) -> list[Observed]:
        """Pass records on, in order, without what was told before; hints that have waited long enough come last."""
        admitted: list[Observed] = []
        for record in records:
            if isinstance(record, Event) and record.kind in _KINDS:
                admitted += self._event(record)
                continue
            if isinstance(record, GpuSample | InventoryRow) and record.pci and record.gpu_uuid:
                self._nodes[record.node].gpu_at[record.pci] = record.gpu_uuid
            admitted.append(record)
        for node in self._nodes.values():
            admitted += self._release(node, now_ns)
        return admitted

    def _event(self, event: Event) -> Iterator[Event]:
        node = self._nodes[event.node]
        if event.gpu_uuid is None and event.pci in node.gpu_at:
            event = msgspec.structs.replace(event, gpu_uuid=node.gpu_at[event.pci])
        if event.source == GAUGE:
            node.held.append(event)
            return
        self._forget(node, event.observed_at_ns)
        if reason := self._told_before(node, event):
            XID_MERGED.labels(reason).inc()
            return
        yield self._tell(node, event)

    def _told_before(self, node: _Node, event: Event) -> str | None:
        for told in node.told:
            if told.gpu != _gpu(event):
                continue
            apart_ns = abs(told.event.observed_at_ns - event.observed_at_ns)
            if told.event.code == event.code and event.source not in told.by and apart_ns <= self._window_ns:
                told.by.add(event.source)
                return "other_source"
            if told.event.code == event.code and told.event.kind != event.kind and apart_ns <= self._root_ns:
                return "bus_loss"
            if event.code in _MEMORY_ATTRIBUTES and told.event.code == UNCORRECTABLE and apart_ns <= self._root_ns:
                return "attribute"
        return None

    def _tell(self, node: _Node, event: Event) -> Event:
        event = self._explain(node, event)
        node.told.append(_Told(event, _gpu(event), {event.source}))
        return event

    def _explain(self, node: _Node, event: Event) -> Event:
        """Say of an event what it follows from."""
        before = [told for told in node.told if 0 <= event.observed_at_ns - told.event.observed_at_ns <= self._root_ns]
        same = [told for told in before if told.gpu == _gpu(event)]
        causes = [told.event for told in before if not told.event.is_sympathetic and (told in same or told.event.use == "label")]
        root = min(causes, key=lambda cause: cause.observed_at_ns, default=None)
        follows = (
            event.code == PREEMPTIVE_CLEANUP
            or (event.code == PAGE_FAULT and any(told.event.code in _FAULTS_THAT_PAGE for told in same))
            or (event.code == NVLINK and any(told not in same and told.event.use == "label" for told in before))
            or (event.code == UNCORRECTABLE and any(told.event.code in _MEMORY_ATTRIBUTES for told in same))
        )
        return msgspec.structs.replace(
            event,
            root_code=event.root_code if event.root_code is not None else root and root.code,
            is_sympathetic=True if follows else event.is_sympathetic,
            use="exclude" if self._is_burst(before, event) else event.use,
        )

    def _is_burst(self, before: list[_Told], event: Event) -> bool:
        if event.code != PAGE_FAULT:
            return False
        recent = {
            told.gpu for told in before if told.event.code == PAGE_FAULT and event.observed_at_ns - told.event.observed_at_ns <= _BURST_NS
        }
        return len(recent | {_gpu(event)}) >= _BURST_GPUS

    def _release(self, node: _Node, now_ns: int) -> Iterator[Event]:
        if not node.held:
            return
        held, node.held = node.held, []
        for event in held:
            if any(self._covers(told, event) for told in node.told):
                XID_MERGED.labels("gauge").inc()
            elif now_ns - event.received_at_ns >= self._hold_ns:
                yield self._tell(node, event)
            else:
                node.held.append(event)

    def _covers(self, told: _Told, hint: Event) -> bool:
        late_ns = hint.observed_at_ns - told.event.observed_at_ns
        is_same = told.gpu == _gpu(hint) and told.event.code == hint.code and told.by != {GAUGE}
        return is_same and -self._window_ns <= late_ns <= self._hold_ns + self._window_ns

    def _forget(self, node: _Node, at_ns: int) -> None:
        horizon_ns = at_ns - max(self._root_ns, 2 * self._hold_ns)
        node.told = [told for told in node.told if told.event.observed_at_ns >= horizon_ns]


def _gpu(event: Event) -> str:
    return event.gpu_uuid or event.pci or ""


class MergedSource:
    """A source whose XIDs go through the merge that all sources of a process share."""

    def __init__(self, source: Source, merge: XidMerge, clock: Clock) -> None:
        self._source = source
        self._merge = merge
        self._clock = clock

    @property
    def name(self) -> str:
        """Name of the source itself."""
        return self._source.name

    @property
    def interval_s(self) -> float:
        """Interval of the source itself."""
        return self._source.interval_s

    @property
    def pace(self) -> Pace:
        """Pace of the source itself."""
        return self._source.pace

    async def open(self) -> None:
        """Open the source."""
        await self._source.open()

    async def read(self, at_ns: int) -> list[Observed]:
        """Read the source; drop what another source has told, add what has waited."""
        return self._merge.admit(await self._source.read(at_ns), self._clock.now_ns())

    async def close(self) -> None:
        """Close the source."""
        await self._source.close()
