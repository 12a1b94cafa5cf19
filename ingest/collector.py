"""The poll loop: every source in a task of its own, what they say into the spool, and from there to the bus.

A fleet-paced source is read at multiples of its interval in fleet time, moved by a phase of its own so that not all are read at once; a
wall-paced one is drained every so many seconds. No source delays another: a read that passes its deadline is cancelled and counted,
and ticks that come while it still hangs are passed over and counted. Every record is counted once as emitted, rejected or dropped.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import structlog

from ingest.bus import Publisher
from ingest.clock import NS, Clock
from ingest.errors import SourceUnavailable, SpoolFull
from ingest.heap import trimmer
from ingest.messages import group, portions
from ingest.metrics import (
    LAST_SUCCESS,
    READ_ERRORS,
    READ_SECONDS,
    READS_SKIPPED,
    RECORDS_DROPPED,
    RECORDS_EMITTED,
    RECORDS_HELD,
    RECORDS_RECEIVED,
)
from ingest.pump import Pump
from ingest.schema import Observed
from ingest.source import Pace, Source
from ingest.spool import Spool
from ingest.tables import Record

_HELD_RECORDS = 100_000
_TRIM_BEATS = 60
_log = structlog.get_logger()


class _Held(NamedTuple):
    source: str
    table: str
    node: str
    rows: Sequence[Record]


@dataclass(eq=False)
class _Followed:
    """A source in the care of its task; `leave` tells the task to end."""

    source: Source
    leave: asyncio.Event
    is_open: bool = False
    task: asyncio.Task[None] | None = None


@dataclass
class Health:
    """How a source is doing, by wall time."""

    last_success_at_ns: int | None = None
    state: str = "starting"


class Collector:
    """All sources of one process and their way into one spool."""

    def __init__(
        self,
        sources: Sequence[Source],
        spool: Spool,
        *,
        clock: Clock,
        publisher: Publisher | None = None,
        seed: int = 0,
        jitter_ratio: float = 0.1,
        read_deadline_s: float = 30.0,
        flush_s: float = 10.0,
        beat: Callable[[], None] | None = None,
        last_words: Callable[[], Sequence[Observed]] = tuple,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._sources = sources
        self._spool = spool
        self._clock = clock
        self._pump = Pump(spool, publisher) if publisher else None
        self._random = random.Random(seed)  # noqa: S311  # spreads load, guards nothing
        self._jitter_ratio = jitter_ratio
        self._read_deadline_s = read_deadline_s
        self._flush_s = flush_s
        self._beat = beat
        self._last_words = last_words
        self._wall_ns = wall_ns
        self._held: list[_Held] = []
        self._followed: list[_Followed] = []
        self.turned_at_s = time.monotonic()  # when the loop last turned, for those who ask whether it does
        self.health = {source.name: Health() for source in sources}

    async def run(self, stop: asyncio.Event) -> None:
        """Collect until `stop` is set; then end the sources within 3/4 `flush_s` and flush the bus for at most `flush_s` of wall time."""
        if self._pump:
            self._pump.start()
        beating = asyncio.create_task(self._beat_every_second())
        for source in self._sources:
            self._begin(source)
        try:
            await stop.wait()
        finally:
            await self._end(self._followed)
            beating.cancel()
            self._keep("xid_merge", self._last_words())
            if self._pump:
                await asyncio.to_thread(self._pump.stop, self._flush_s)

    async def replace(self, sources: Sequence[Source]) -> None:
        """Go on with these sources: those that are gone are drained and closed, then the new ones begin; the others notice nothing."""
        kept = [followed for followed in self._followed if followed.source in sources]
        known = [followed.source for followed in kept]
        await self._end([followed for followed in self._followed if followed not in kept])
        self._sources, self._followed = sources, kept
        self.health = {source.name: self.health.get(source.name, Health()) for source in sources}
        for source in sources:
            if source not in known:
                self._begin(source)

    def _begin(self, source: Source) -> None:
        followed = _Followed(source, asyncio.Event())
        followed.task = asyncio.create_task(self._follow(followed), name=source.name)
        self._followed.append(followed)

    async def _end(self, leaving: Sequence[_Followed]) -> None:
        """Let sources finish the read that is under way, drain their streams and close; what hangs is cancelled, then left behind."""
        for followed in leaving:
            followed.leave.set()
        tasks = {followed.task for followed in leaving if followed.task}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self._flush_s / 2)
            for task in late:
                _log.warning("source_ended_by_force", source=task.get_name())
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=self._flush_s / 4)

    async def _follow(self, followed: _Followed) -> None:
        source = followed.source
        phase_ns = int(self._random.random() * self._jitter_ratio * source.interval_s * NS)
        try:
            while await self._next_tick(source, phase_ns, followed.leave):
                await self._read(followed)
            if source.pace is Pace.WALL:
                await self._read(followed)
        finally:
            self._clock.expect(source.name, None)
            if followed.is_open:
                await source.close()

    async def _next_tick(self, source: Source, phase_ns: int, leave: asyncio.Event) -> bool:
        """Wait for the next read of a source; False when it is time to leave."""
        if source.pace is Pace.WALL:
            waiting = asyncio.ensure_future(asyncio.sleep(source.interval_s))
        else:
            at_ns = next_tick_ns(self._clock.now_ns(), source.interval_s, phase_ns)
            self._clock.expect(source.name, at_ns)
            waiting = asyncio.ensure_future(self._clock.wait_until(at_ns))
        leaving = asyncio.ensure_future(leave.wait())
        await asyncio.wait((waiting, leaving), return_when=asyncio.FIRST_COMPLETED)
        for task in (waiting, leaving):
            task.cancel()
        return not leave.is_set()

    async def _read(self, followed: _Followed) -> None:
        """Read a source once, within its deadline, and put what it says into the spool."""
        source = followed.source
        name, health = source.name, self.health.setdefault(source.name, Health())
        started_at_ns = self._clock.now_ns()
        try:
            with READ_SECONDS.labels(name).time():
                async with asyncio.timeout(self._read_deadline_s):
                    await self._open(followed)
                    records = await source.read(started_at_ns)
            self._keep(name, records)
        except TimeoutError:
            self._count_error(name, "deadline", "")
        except SourceUnavailable as error:
            self._count_error(name, error.state.partition("(")[0], error.detail)
        except Exception as error:  # noqa: BLE001  # a bug in one source must not end the others
            self._count_error(name, "unexpected", f"{type(error).__name__}: {error}")
        else:
            health.state, health.last_success_at_ns = "ok", self._wall_ns()
            LAST_SUCCESS.labels(name).set(health.last_success_at_ns / NS)
        if source.pace is Pace.FLEET:
            passed = int((self._clock.now_ns() - started_at_ns) / NS / source.interval_s)
            READS_SKIPPED.labels(name).inc(max(0, passed))  # below zero where the clock was set back meanwhile

    async def _open(self, followed: _Followed) -> None:
        if not followed.is_open:
            await followed.source.open()
            followed.is_open = True

    def _keep(self, name: str, records: Sequence[Observed]) -> None:
        RECORDS_RECEIVED.labels(name).inc(len(records))
        held, self._held = self._held, []
        for message in held:
            self._put(message)
        for table, node, rows in group(records):
            for portion in portions(rows):
                self._put(_Held(name, table, node, portion))
        RECORDS_HELD.set(sum(len(message.rows) for message in self._held))

    def _put(self, message: _Held) -> None:
        try:
            is_kept = self._spool.put(message.table, message.node, message.rows)
        except SpoolFull as error:
            self._hold(message, error)
        else:
            counter = RECORDS_EMITTED.labels(message.source) if is_kept else RECORDS_DROPPED.labels(message.source, "spool_full")
            counter.inc(len(message.rows))

    def _hold(self, message: _Held, error: SpoolFull) -> None:
        """Keep an event in memory until the disk has room again."""
        if sum(len(held.rows) for held in self._held) >= _HELD_RECORDS:
            RECORDS_DROPPED.labels(message.source, "disk_and_memory_full").inc(len(message.rows))
            return
        self._held.append(message)
        _log.error("event_held_in_memory", source=message.source, error=str(error))

    async def _beat_every_second(self) -> None:
        trim = trimmer()
        for beat in itertools.count(1):
            self._spool.measure()
            self.turned_at_s = time.monotonic()
            if self._beat:
                self._beat()
            if beat % _TRIM_BEATS == 0:
                await asyncio.to_thread(trim)
            await asyncio.sleep(1.0)

    def _count_error(self, name: str, reason: str, detail: str) -> None:
        READ_ERRORS.labels(name, reason).inc()
        health = self.health[name]
        if health.state != reason:
            _log.warning("source_read_failed", source=name, reason=reason, detail=detail)
        health.state = reason


def next_tick_ns(now_ns: int, interval_s: float, phase_ns: int) -> int:
    """Give the first time after `now_ns` that is a multiple of the interval plus the phase."""
    interval_ns = int(interval_s * NS)
    return ((now_ns - phase_ns) // interval_ns + 1) * interval_ns + phase_ns
