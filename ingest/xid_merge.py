"""One incident, one event: join what the kernel log, NVML and the exporter say about the same XID, and tell causes from consequences.

The kernel log is the authority: what it says passes at once. Where a node's kernel log is read, an XID of NVML waits for the same in the
log, which has the driver's text, and passes when the log stays silent; where no log is read it passes at once. The exporter's gauge is a
hint: it waits for as long as it may be late. What was told by the one is not told again by the other, each XID once for each source: a
repeat in the log is a repeat.

Consequences (signals: NVIDIA's catalogue, NVSentinel): 45 always; 31 after 48, 79 or 94 on the same GPU; 74 on the peer of a GPU that has
failed; 171 and 172 are attributes of 48. The root is the earliest event within a minute that follows from nothing. 31 on four GPUs or
more of a node within seconds is a bug of their job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ingest.clock import NS, Clock
from ingest.exporter.gpu import SOURCE as GAUGE
from ingest.kernel_log.node import SOURCE as LOG
from ingest.metrics import XID_MERGED
from ingest.schema import Event, GpuSample, InventoryRow, Observed, SourceState
from ingest.source import Pace, Source
from ingest.xid import (
    CONTAINED,
    FALLEN_OFF_BUS,
    NVLINK,
    PAGE_FAULT,
    PREEMPTIVE_CLEANUP,
    RECOVERY_ACTION,
    UNCORRECTABLE,
    UNCORRECTABLE_DRAM,
    UNCORRECTABLE_SRAM,
    Catalogue,
    catalogue_of,
)

BMC = "redfish"
_KINDS = ("xid", "bus_loss")
_FAULTS_THAT_PAGE = (UNCORRECTABLE, FALLEN_OFF_BUS, CONTAINED)
_MEMORY_ATTRIBUTES = (UNCORRECTABLE_DRAM, UNCORRECTABLE_SRAM)
_BURST_GPUS, _BURST_NS = 4, 5 * NS
_MOST_OF_A_KIND = 16  # events of one code on one GPU that are remembered: a storm must not make every event of it dearer


@dataclass(eq=False)
class _Told:
    event: Event
    at_ns: int  # when it was observed, by the clock of now
    gpu: str
    by: set[str]


@dataclass(eq=False)
class _Held:
    event: Event
    at_ns: int
    due_ns: int


@dataclass
class _Node:
    has_log: bool = False
    gpu_at: dict[str, str] = field(default_factory=dict)
    told: list[_Told] = field(default_factory=list)
    held: list[_Held] = field(default_factory=list)


class XidMerge:
    """The events of a process's nodes.

    `window_s` is how far apart two sources may stamp one XID, `hold_s` how late the gauge may be: the interval of its scrapes. Under a
    scaled clock the time between two reads is longer by `scale`, and so is the window.
    """

    def __init__(
        self,
        *,
        window_s: float = 2.0,
        hold_s: float = 60.0,
        root_window_s: float = 60.0,
        scale: float = 1.0,
        catalogue: Catalogue | Path | None = None,
    ) -> None:
        self._window_ns = int(window_s * scale * NS)
        self._root_ns = int(root_window_s * NS)
        self._nodes: defaultdict[str, _Node] = defaultdict(_Node)
        self._now_ns = 0
        self.retune(hold_s=hold_s, catalogue=catalogue)

    def retune(self, *, hold_s: float, catalogue: Catalogue | Path | None = None) -> None:
        """Go on with another interval of scrapes and another catalogue; what is held stays held."""
        self._hold_ns = int(hold_s * NS) + self._window_ns
        self._catalogue = catalogue_of(catalogue)

    def release_all(self) -> list[Observed]:
        """Give what is still held, due or not: nobody will be read any more."""
        released: list[Observed] = []
        for node in self._nodes.values():
            released += self._release(node, max((held.due_ns for held in node.held), default=0))
        return released

    def admit(self, records: Iterable[Observed], now_ns: int) -> list[Observed]:
        """Pass records on, in order, without what was told before; those that have waited long enough come last."""
        self._follow_clock(now_ns)
        admitted: list[Observed] = []
        for record in records:
            if isinstance(record, Event) and record.kind in _KINDS:
                admitted += self._event(record, now_ns)
                continue
            self._learn(record)
            admitted.append(record)
        for node in self._nodes.values():
            admitted += self._release(node, now_ns)
        return admitted

    def _follow_clock(self, now_ns: int) -> None:
        """Take what is remembered along when the clock is set back: else events would be held for as long, and repeats taken for news."""
        step_ns, self._now_ns = now_ns - self._now_ns, now_ns
        if step_ns >= -self._window_ns:
            return
        for node in self._nodes.values():
            for told in node.told:
                told.at_ns += step_ns
            for held in node.held:
                held.at_ns += step_ns
                held.due_ns += step_ns

    def _learn(self, record: Observed) -> None:
        if isinstance(record, GpuSample | InventoryRow) and record.pci and record.gpu_uuid:
            self._nodes[record.node].gpu_at[record.pci] = record.gpu_uuid
        elif isinstance(record, SourceState) and record.source == LOG:
            self._nodes[record.node].has_log = record.state == "ok"

    def _event(self, event: Event, now_ns: int) -> Iterator[Event]:
        node = self._nodes[event.node]
        is_set_aside = self._is_set_aside(event)
        event = self._complete(node, event)
        if is_set_aside:
            yield event
            return
        if event.source == GAUGE or (event.source != LOG and node.has_log):
            wait_ns = self._hold_ns if event.source == GAUGE else self._window_ns
            node.held.append(_Held(event, event.observed_at_ns, min(event.received_at_ns, now_ns) + wait_ns))
            return
        yield from self._pass(node, event, event.observed_at_ns)

    def _is_set_aside(self, event: Event) -> bool:
        """Tell whether a BMC's event is excluded although its code is not: of unknown age, it stands for no other and explains none."""
        known = None if event.code is None else self._catalogue.get(event.code)
        return event.source == BMC and event.use == "exclude" and (known is None or known.use != "exclude")

    def _complete(self, node: _Node, event: Event) -> Event:
        uuid = event.gpu_uuid or node.gpu_at.get(event.pci or "")
        use = event.use
        if use is None and event.code is not None:
            is_verdict = event.code == RECOVERY_ACTION
            use = self._catalogue.use_of_recovery(event.recovery_action) if is_verdict else self._catalogue.use(event.code)
        return event if (uuid, use) == (event.gpu_uuid, event.use) else msgspec.structs.replace(event, gpu_uuid=uuid, use=use)

    def _pass(self, node: _Node, event: Event, at_ns: int) -> Iterator[Event]:
        self._forget(node, at_ns)
        if reason := self._told_before(node, event, at_ns):
            XID_MERGED.labels(reason).inc()
            return
        by = {event.source}
        others = (held for held in node.held if held.event.source not in (GAUGE, *by))
        waiting = next((held for held in others if self._is_same(held.event, held.at_ns, event, at_ns)), None)
        if waiting is not None:
            node.held.remove(waiting)
            by.add(waiting.event.source)
            XID_MERGED.labels("other_source").inc()
        yield self._tell(node, event, at_ns, by)

    def _is_same(self, one: Event, one_ns: int, other: Event, other_ns: int) -> bool:
        return _gpu(one) == _gpu(other) and one.code == other.code and abs(one_ns - other_ns) <= self._window_ns

    def _told_before(self, node: _Node, event: Event, at_ns: int) -> str | None:
        for told in node.told:
            if told.gpu != _gpu(event):
                continue
            if event.source not in told.by and self._is_same(told.event, told.at_ns, event, at_ns):
                told.by.add(event.source)
                return "other_source"
            is_near = abs(told.at_ns - at_ns) <= self._root_ns
            if is_near and told.event.code == event.code and told.event.kind != event.kind:
                return "bus_loss"
            if is_near and event.code in _MEMORY_ATTRIBUTES and told.event.code == UNCORRECTABLE:
                return "attribute"
        return None

    def _tell(self, node: _Node, event: Event, at_ns: int, by: set[str]) -> Event:
        event = self._explain(node, event, at_ns)
        told = _Told(event, at_ns, _gpu(event), by)
        same = [each for each in node.told if each.gpu == told.gpu and each.event.code == event.code]
        if len(same) >= _MOST_OF_A_KIND:
            node.told.remove(same[1])  # the first stays, as a root of what follows
        node.told.append(told)
        return event

    def _explain(self, node: _Node, event: Event, at_ns: int) -> Event:
        """Say of an event what it follows from."""
        before = [told for told in node.told if 0 <= at_ns - told.at_ns <= self._root_ns]
        same = [told for told in before if told.gpu == _gpu(event)]
        causes = [told for told in before if not told.event.is_sympathetic and (told in same or told.event.use == "label")]
        root = min(causes, key=lambda cause: cause.at_ns, default=None)
        follows = (
            event.code == PREEMPTIVE_CLEANUP
            or (event.code == PAGE_FAULT and any(told.event.code in _FAULTS_THAT_PAGE for told in same))
            or (event.code == NVLINK and any(told not in same and told.event.use == "label" for told in before))
            or (event.code == UNCORRECTABLE and any(told.event.code in _MEMORY_ATTRIBUTES for told in same))
        )
        return msgspec.structs.replace(
            event,
            root_code=event.root_code if event.root_code is not None else root and root.event.code,
            is_sympathetic=True if follows else event.is_sympathetic,
            use="exclude" if self._is_burst(before, event, at_ns) else event.use,
        )

    def _is_burst(self, before: list[_Told], event: Event, at_ns: int) -> bool:
        if event.code != PAGE_FAULT:
            return False
        recent = {told.gpu for told in before if told.event.code == PAGE_FAULT and at_ns - told.at_ns <= _BURST_NS}
        return len(recent | {_gpu(event)}) >= _BURST_GPUS

    def _release(self, node: _Node, now_ns: int) -> Iterator[Event]:
        if not node.held:
            return
        due = [held for held in node.held if held.due_ns <= now_ns or self._is_covered(node, held)]
        node.held = [held for held in node.held if held not in due]
        for held in due:
            if self._is_covered(node, held):
                XID_MERGED.labels("gauge").inc()
            elif held.event.source == GAUGE:
                yield self._tell(node, held.event, held.at_ns, {GAUGE})
            else:
                yield from self._pass(node, held.event, held.at_ns)

    def _is_covered(self, node: _Node, held: _Held) -> bool:
        return held.event.source == GAUGE and any(self._covers(told, held) for told in node.told)

    def _covers(self, told: _Told, hint: _Held) -> bool:
        is_same = told.gpu == _gpu(hint.event) and told.event.code == hint.event.code and told.by != {GAUGE}
        return is_same and -self._window_ns <= hint.at_ns - told.at_ns <= self._hold_ns

    def _forget(self, node: _Node, at_ns: int) -> None:
        horizon_ns = at_ns - self._root_ns - 2 * self._hold_ns
        node.told = [told for told in node.told if told.at_ns >= horizon_ns]


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

    @property
    def unheard(self) -> Collection[str]:
        """Nodes that the source itself has not heard."""
        return self._source.unheard

    async def open(self) -> None:
        """Open the source."""
        await self._source.open()

    async def read(self, at_ns: int) -> list[Observed]:
        """Read the source; drop what another source has told, add what has waited."""
        return self._merge.admit(await self._source.read(at_ns), self._clock.now_ns())

    async def close(self) -> None:
        """Close the source."""
        await self._source.close()
