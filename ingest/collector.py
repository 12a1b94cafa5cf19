"""The poll loop: every source in a task of its own, what they say into the spool, and from there to the bus.

A fleet-paced source is read at multiples of its interval in fleet time, moved by a phase of its own so that not all are read at once; a
wall-paced one is drained every so many seconds. No source delays another: a read that passes its deadline is cancelled and counted,
and ticks that come while it still hangs are passed over and counted. Every record is counted once as emitted, rejected or dropped.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import structlog

from ingest.bus import Publisher
from ingest.clock import NS, Clock
from ingest.errors import SourceUnavailable, SpoolFull
from ingest.messages import group
from ingest.metrics import (
    LAST_SUCCESS,
    READ_ERRORS,
    READ_SECONDS,
    READS_SKIPPED,
    RECORDS_DROPPED,
    RECORDS_EMITTED,
    RECORDS_RECEIVED,
)
from ingest.pump import Pump
from ingest.schema import Observed
from ingest.source import Pace, Source
from ingest.spool import Spool
from ingest.tables import Record

MESSAGE_ROWS = 500  # keeps a message far below the broker's limit of 1 MB
_HELD_RECORDS = 100_000
_log = structlog.get_logger()


class _Held(NamedTuple):
    source: str
    table: str
    node: str
    rows: Sequence[Record]


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
        self._wall_ns = wall_ns
        self._held: list[_Held] = []
        self._opened: set[str] = set()
        self.health = {source.name: Health() for source in sources}

    async def run(self, stop: asyncio.Event) -> None:
        """Collect until `stop` is set; then read what streams still hold, close the sources and flush the bus, `flush_s` for each."""
        if self._pump:
            self._pump.start()
        beating = asyncio.create_task(self._beat_every_second())
        tasks = [asyncio.create_task(self._follow(source, stop), name=source.name) for source in self._sources]
        try:
            await stop.wait()
            if tasks:
                await asyncio.wait(tasks, timeout=self._flush_s)
        finally:
            for task in (beating, *tasks):
                task.cancel()
            await asyncio.wait((beating, *tasks), timeout=self._flush_s)
            if self._pump:
                await asyncio.to_thread(self._pump.stop, self._flush_s)

    async def read_once(self) -> list[Observed]:
        """Read every source one time and keep nothing: what `--once` shows."""
        at_ns = self._clock.now_ns()
        found: list[Observed] = []
        for source in self._sources:
            await source.open()
            try:
                found += await asyncio.wait_for(source.read(at_ns), self._read_deadline_s)
            finally:
                await source.close()
        return found

    async def _follow(self, source: Source, stop: asyncio.Event) -> None:
        phase_ns = int(self._random.random() * self._jitter_ratio * source.interval_s * NS)
        try:
            while await self._next_tick(source, phase_ns, stop):
                await self._read(source)
            if source.pace is Pace.WALL:
                await self._read(source)
        finally:
            if source.name in self._opened:
                await source.close()

    async def _next_tick(self, source: Source, phase_ns: int, stop: asyncio.Event) -> bool:
        """Wait for the next read of a source; False when it is time to stop."""
        if source.pace is Pace.WALL:
            waiting = asyncio.ensure_future(asyncio.sleep(source.interval_s))
        else:
            at_ns = next_tick_ns(self._clock.now_ns(), source.interval_s, phase_ns)
            waiting = asyncio.ensure_future(self._clock.wait_until(at_ns))
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait((waiting, stopping), return_when=asyncio.FIRST_COMPLETED)
        for task in (waiting, stopping):
            task.cancel()
        return not stop.is_set()

    async def _read(self, source: Source) -> None:
        """Read a source once, within its deadline, and put what it says into the spool."""
        name, health = source.name, self.health[source.name]
        started_at_ns = self._clock.now_ns()
        try:
            with READ_SECONDS.labels(name).time():
                async with asyncio.timeout(self._read_deadline_s):
                    await self._open(source)
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
            READS_SKIPPED.labels(name).inc(passed)

    async def _open(self, source: Source) -> None:
        if source.name not in self._opened:
            await source.open()
            self._opened.add(source.name)

    def _keep(self, name: str, records: Sequence[Observed]) -> None:
        RECORDS_RECEIVED.labels(name).inc(len(records))
        held, self._held = self._held, []
        for message in held:
            self._put(message)
        for table, node, rows in group(records):
            for start in range(0, len(rows), MESSAGE_ROWS):
                self._put(_Held(name, table, node, rows[start : start + MESSAGE_ROWS]))

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
        while True:
            self._spool.measure()
            if self._beat:
                self._beat()
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
