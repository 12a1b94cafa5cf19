"""What the kernel log of one node becomes: events, and which GPU and board sit at which PCI address.

Pure: lines and times come in, records go out. What was there before is taken once (`known`). A loss of the bus that is told by an XID 79
and by plain text is one incident and one event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ingest.clock import NS
from ingest.kernel_log.known import KnownLines
from ingest.kernel_log.text import BusLoss, GpuNamed, Line, Said, SerialNamed, SwitchXid, Unparsed, Xid, read_line, read_text
from ingest.metrics import KERNEL_LINES
from ingest.schema import Event, InventoryRow, Observed
from ingest.xid import FALLEN_OFF_BUS, PREEMPTIVE_CLEANUP, RECOVERY_ACTION, Catalogue, catalogue_of

SOURCE = "kernel_log"
_WINDOW_NS = 60 * NS  # one incident: signals of one loss lie this close
_WINDOW_LINES = 50  # stamps of two kinds of clocks cannot be compared, places in the log can
_FUTURE_NS = 5 * NS


@dataclass(frozen=True, kw_only=True)
class Boot:
    """One boot of a node: `at_ns` is when its kernel's clock was zero, None where nobody knows."""

    id: str | None = None
    at_ns: int | None = None


@dataclass(frozen=True)
class _Mark:
    """Place of a line in the log."""

    clock: str
    at_ns: int
    number: int

    def is_near(self, other: _Mark) -> bool:
        if self.clock == other.clock and self.clock:
            return abs(self.at_ns - other.at_ns) <= _WINDOW_NS
        return abs(self.number - other.number) <= _WINDOW_LINES


class KernelLogNode:
    """The kernel log of one node, line by line."""

    def __init__(self, node: str, *, boot: Boot | None = None, catalogue: Catalogue | Path | None = None) -> None:
        self.node = node
        self.boot = boot or Boot()
        self.outcomes: Counter[str] = Counter()
        self.gpu_at: dict[str, str] = {}
        self.known = KnownLines()
        self._catalogue = catalogue_of(catalogue)
        self._named: GpuNamed | None = None
        self._named_about: dict[str, Any] = {}
        self._losing: str | None = None
        self._losses: dict[str, _Mark] = {}
        self._lost: dict[str, Event] = {}
        self._switches: dict[tuple[str, int], tuple[Event, _Mark]] = {}  # incidents that may get more lines, by switch and code
        self._number = 0

    def begin_file(self, boot: Boot) -> None:
        """Begin a file of the log, the first or one in place of the last."""
        if boot.id != self.boot.id:
            self._reboot()
        if boot.id is None or boot.id != self.boot.id or self.boot.at_ns is None:
            self.boot = boot
        self.known.another_file(numbers_go_on=boot.id is not None)

    def _reboot(self) -> None:
        self.known = KnownLines()
        self.gpu_at.clear()
        self._losses.clear()
        self._switches.clear()
        self._named = self._losing = None

    def feed(self, raw: str, now_ns: int, *, is_old: bool = False) -> list[Observed]:
        """Take one line, received at `now_ns`; one that `is_old` may have been written at any time before."""
        raw = raw.rstrip("\r\n")
        line = read_line(raw, now_ns)
        said = read_text(line.text)
        is_old = not self.known.is_later(raw) and is_old
        if self.known.has(line, is_about_gpus=said is not None):
            self._count("duplicate")
            return []
        self._number += 1
        observed_at_ns = self._observed_at_ns(line, now_ns)
        if observed_at_ns is None:
            if is_old:
                return self._pass_undated(said)
            observed_at_ns = now_ns
        about = {
            "node": self.node,
            "source": SOURCE,
            "boot_id": self.boot.id,
            "observed_at_ns": observed_at_ns,
            "received_at_ns": max(now_ns, observed_at_ns),
        }
        mark = _Mark(line.clock, line.since_boot_ns if line.since_boot_ns is not None else line.utc_ns or 0, self._number)
        return list(self._say(said, line, mark, about))

    def _pass_undated(self, said: Said) -> list[Observed]:
        """Learn where GPUs are, and tell no event: an old incident that is dated now would accuse a healthy GPU."""
        match said:
            case GpuNamed() as named:
                self.gpu_at[named.pci] = named.gpu_uuid
            case None | SerialNamed():
                pass
            case _:
                self._count("undated")
                return []
        self._count("other")
        return []

    def flush(self) -> list[Observed]:
        """Give out what waits for lines that the driver writes at once: a bus loss for its XID, a switch incident for its detail."""
        return [*(lost for pci in tuple(self._lost) for lost in self._end_loss(pci)), *self._end_switches()]

    def _end_loss(self, pci: str) -> list[Event]:
        lost = self._lost.pop(pci, None)
        if lost is None:
            return []
        self._count("bus_loss")
        return [lost]

    def _end_switches(self, mark: _Mark | None = None) -> list[Event]:
        """Give out the incidents that get no more lines: all, or those that are not near `mark`; switches and GPUs write in between."""
        ended = [key for key, (_, began) in self._switches.items() if mark is None or not mark.is_near(began)]
        return [self._switches.pop(key)[0] for key in ended]

    def _observed_at_ns(self, line: Line, now_ns: int) -> int | None:
        """Tell when a line was written, None where neither it nor its boot says so; a time ahead is taken for now."""
        at_ns = line.utc_ns
        if line.since_boot_ns is not None and self.boot.at_ns is not None:
            at_ns = self.boot.at_ns + line.since_boot_ns
        return now_ns if at_ns is not None and at_ns > now_ns + _FUTURE_NS else at_ns

    def _say(self, said: Said, line: Line, mark: _Mark, about: dict[str, Any]) -> Iterator[Observed]:
        yield from self._bind(said.serial if isinstance(said, SerialNamed) else None)
        yield from self._end_switches(mark)
        match said:
            case Xid():
                yield from self._xid(said, line, mark, about)
            case SwitchXid():
                yield from self._switch_xid(said, line, mark, about)
            case BusLoss():
                yield from self._bus_loss(said, line, mark, about)
            case GpuNamed():
                self._named, self._named_about = said, about
                self.gpu_at[said.pci] = said.gpu_uuid
                self._count("gpu_named")
            case Unparsed():
                self._count("unparsed")
            case _:
                self._count("other")

    def _bind(self, serial: str | None) -> Iterator[Observed]:
        # The serial line has no address: it belongs to the GPU named just before.
        if self._named is not None:
            yield InventoryRow(**self._named_about, gpu_uuid=self._named.gpu_uuid, action="insert", pci=self._named.pci, serial=serial)
            self._named = None

    def _xid(self, xid: Xid, line: Line, mark: _Mark, about: dict[str, Any]) -> Iterator[Observed]:
        if xid.code == FALLEN_OFF_BUS and self._is_same_loss(xid.pci, mark):
            self._count("merged")
            if self._lost.pop(xid.pci, None) is None:
                return
        use = self._catalogue.use_of_recovery(xid.recovery_action) if xid.code == RECOVERY_ACTION else self._catalogue.use(xid.code)
        self._count("xid")
        yield Event(
            **about,
            kind="xid",
            gpu_uuid=self.gpu_at.get(xid.pci),
            pci=xid.pci,
            gpu_instance=xid.gpu_instance,
            compute_instance=xid.compute_instance,
            code=xid.code,
            use="exclude" if xid.is_injected else use,
            root_code=xid.caused_by,
            is_sympathetic=True if xid.code == PREEMPTIVE_CLEANUP else None,
            link=xid.link,
            recovery_action=xid.recovery_action,
            recovery_action_before=xid.recovery_action_before,
            kernel_seq=line.seq,
            detail=xid.message or None,
        )

    def _bus_loss(self, loss: BusLoss, line: Line, mark: _Mark, about: dict[str, Any]) -> Iterator[Observed]:
        if loss.is_beginning:
            self._losing = loss.pci
            self._count("other")
            return
        pci, self._losing = loss.pci or self._losing, None
        if pci is None:
            self._count("unparsed")
        elif self._is_same_loss(pci, mark):
            self._count("merged")
        else:
            yield from self._end_loss(pci)
            self._lost[pci] = Event(
                **about,
                kind="bus_loss",
                gpu_uuid=self.gpu_at.get(pci),
                pci=pci,
                code=FALLEN_OFF_BUS,
                use=self._catalogue.use(FALLEN_OFF_BUS),
                kernel_seq=line.seq,
                detail=line.text.strip(),
            )

    def _is_same_loss(self, pci: str, mark: _Mark) -> bool:
        before = self._losses.get(pci)
        self._losses[pci] = mark
        return before is not None and mark.is_near(before)

    def _switch_xid(self, xid: SwitchXid, line: Line, mark: _Mark, about: dict[str, Any]) -> Iterator[Observed]:
        waiting = self._switches.pop((xid.pci, xid.code), None)
        if xid.adds and waiting:
            event, began = waiting
            self._switches[xid.pci, xid.code] = msgspec.structs.replace(event, detail=f"{event.detail}; {xid.message}"), began
            self._count("merged")
            return
        if waiting:
            yield waiting[0]
        self._count("sxid")
        event = Event(
            **about,
            kind="sxid",
            pci=xid.pci,
            code=xid.code,
            use="label" if xid.severity == "fatal" else "weak",
            link=xid.link,
            kernel_seq=line.seq,
            detail=f"nvswitch{xid.switch}: {xid.message}",
        )
        self._switches[xid.pci, xid.code] = event, mark

    def _count(self, outcome: str) -> None:
        self.outcomes[outcome] += 1
        KERNEL_LINES.labels(outcome).inc()
