"""The poll loop: every source on its own beat, none in the way of another, every record accounted for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from ingest.clock import NS, ManualClock, SystemClock
from ingest.collector import Collector, next_tick_ns
from ingest.errors import SourceUnavailable
from ingest.schema import GpuSample, Observed
from ingest.source import Pace
from ingest.spool import Spool

DAY = 1_750_000_000 * NS


class Scripted:
    """A source that does at each read what the next step of its script says; the last step repeats."""

    def __init__(
        self, name: str, *steps: Callable[[int], Awaitable[list[Observed]]], pace: Pace = Pace.FLEET, interval_s: float = 10.0
    ) -> None:
        self.name, self.pace, self.interval_s = name, pace, interval_s
        self.read_at: list[int] = []
        self.opened = self.closed = 0
        self._steps = steps

    async def open(self) -> None:
        self.opened += 1

    async def read(self, at_ns: int) -> list[Observed]:
        self.read_at.append(at_ns)
        return await self._steps[min(len(self.read_at), len(self._steps)) - 1](at_ns)

    async def close(self) -> None:
        self.closed += 1


def sample(at_ns: int, node: str = "n1") -> GpuSample:
    """One sample."""
    return GpuSample(node=node, gpu_uuid="GPU-1", tier="hot", observed_at_ns=at_ns, received_at_ns=at_ns, source="test")


async def say(at_ns: int) -> list[Observed]:
    """Give one sample."""
    return [sample(at_ns)]


async def hang(at_ns: int) -> list[Observed]:
    """Never answer."""
    await asyncio.Event().wait()
    return []


async def break_down(at_ns: int) -> list[Observed]:
    """Have a bug."""
    raise ZeroDivisionError


async def be_away(at_ns: int) -> list[Observed]:
    """Have nothing to say about anybody."""
    raise SourceUnavailable("driver_mismatch", "NVML 18")


def after(
    count: int, stop: asyncio.Event, then: Callable[[int], Awaitable[list[Observed]]] = say
) -> Callable[[int], Awaitable[list[Observed]]]:
    """Make a step that stops the collector at its n-th read."""
    left = count

    async def step(at_ns: int) -> list[Observed]:
        nonlocal left
        left -= 1
        if left == 0:
            stop.set()
        return await then(at_ns)

    return step


def metric(name: str, **labels: str) -> float:
    """Read a counter."""
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def phase(directory: Path, seed: int) -> int:
    """Read a source five times, an interval apart each, and give the phase of its reads."""
    stop = asyncio.Event()
    source = Scripted("a", after(5, stop))
    spool = Spool(directory)
    await Collector([source], spool, clock=ManualClock(DAY), jitter_ratio=0.1, seed=seed).run(stop)
    spool.close()
    assert [second - first for first, second in zip(source.read_at, source.read_at[1:], strict=False)] == [10 * NS] * 4
    return source.read_at[0] % (10 * NS)


async def test_reads_at_multiples_of_the_interval_moved_by_a_phase_of_its_own(tmp_path: Path) -> None:
    """Reads of a fleet-paced source are an interval apart, at a phase below the jitter, which is the seed's choice."""
    phases = [await phase(tmp_path, seed) for seed in (1, 2, 1)]
    assert phases[0] == phases[2] != phases[1]
    assert all(0 <= found < 1 * NS for found in phases)


@pytest.mark.parametrize(("now", "tick"), [(0, 7), (6, 7), (7, 17), (16, 17), (17, 27)])
def test_the_next_tick_is_always_later(now: int, tick: int) -> None:
    """At a tick the next one is meant."""
    assert next_tick_ns(now * NS, 10, 7 * NS) == tick * NS


async def test_a_source_that_hangs_breaks_or_is_away_delays_no_other(tmp_path: Path) -> None:
    """Three sources fail in their own ways; the fourth is read on, and each failure is counted under its reason."""
    stop = asyncio.Event()
    sources = [
        Scripted("hangs", hang, pace=Pace.WALL, interval_s=0.01),
        Scripted("breaks", break_down, pace=Pace.WALL, interval_s=0.01),
        Scripted("away", be_away, pace=Pace.WALL, interval_s=0.01),
        Scripted("works", after(30, stop), pace=Pace.WALL, interval_s=0.01),
    ]
    before = {name: metric("forewarn_collector_read_errors_total", source=name, reason=reason) for name, reason in REASONS.items()}
    spool = Spool(tmp_path)
    collector = Collector(sources, spool, clock=SystemClock(), read_deadline_s=0.05)
    await asyncio.wait_for(collector.run(stop), 20)
    spool.close()

    for name, reason in REASONS.items():
        assert metric("forewarn_collector_read_errors_total", source=name, reason=reason) - before[name] >= 2
    assert {name: health.state for name, health in collector.health.items()} == REASONS | {"works": "ok"}
    assert all(source.closed == 1 for source in sources)


REASONS = {"hangs": "deadline", "breaks": "unexpected", "away": "driver_mismatch"}


async def test_ticks_that_pass_while_a_read_runs_are_counted_and_not_made_up(tmp_path: Path) -> None:
    """A read of 35 s at 10 s intervals skips three ticks; the next read is at the next tick."""
    stop, clock = asyncio.Event(), ManualClock(DAY)

    async def slow(at_ns: int) -> list[Observed]:
        clock.advance(35)
        return []

    source = Scripted("slow", slow, after(1, stop))
    spool = Spool(tmp_path)
    before = metric("forewarn_collector_skipped_reads_total", source="slow")
    await Collector([source], spool, clock=clock, jitter_ratio=0.0).run(stop)
    spool.close()

    assert source.read_at == [DAY + 10 * NS, DAY + 50 * NS]
    assert metric("forewarn_collector_skipped_reads_total", source="slow") - before == 3


async def test_a_clock_that_is_set_back_during_a_read_does_not_end_the_source(tmp_path: Path) -> None:
    """The source is read on at the new time."""
    stop, clock = asyncio.Event(), ManualClock(DAY)

    async def step_back(at_ns: int) -> list[Observed]:
        clock.advance(-3600)
        return [sample(at_ns)]

    source = Scripted("stepped", step_back, after(1, stop))
    async with asyncio.timeout(10):
        await Collector([source], Spool(tmp_path), clock=clock, jitter_ratio=0.0).run(stop)
    first, second = source.read_at
    assert second - first == -3590 * NS


async def test_records_go_into_the_spool_by_table_and_node(tmp_path: Path) -> None:
    """What a read says becomes one message per table and node, long ones in several."""
    stop = asyncio.Event()

    async def much(at_ns: int) -> list[Observed]:
        return [sample(at_ns, "n1"), sample(at_ns, "n2"), *(sample(at_ns, "n3") for _ in range(1201))]

    spool = Spool(tmp_path)
    await Collector([Scripted("much", after(1, stop, much))], spool, clock=ManualClock(DAY)).run(stop)
    taken = spool.take(100)
    spool.close()

    assert [(message.node, message.rows) for message in taken] == [("n1", 1), ("n2", 1), ("n3", 500), ("n3", 500), ("n3", 201)]


async def test_a_stream_is_drained_once_more_when_it_is_time_to_stop(tmp_path: Path) -> None:
    """What a wall-paced source still holds at the end is not lost."""
    stop = asyncio.Event()
    source = Scripted("stream", after(1, stop), say, pace=Pace.WALL, interval_s=0.01)
    spool = Spool(tmp_path)
    await Collector([source], spool, clock=SystemClock()).run(stop)
    count = len(spool.take(100))
    spool.close()
    assert count == len(source.read_at) == 2


async def test_a_source_that_cannot_be_stopped_holds_nobody_up(tmp_path: Path) -> None:
    """A read that swallows its cancellation is left behind when the time to flush is over."""
    stop, freed = asyncio.Event(), asyncio.Event()

    async def stubborn(at_ns: int) -> list[Observed]:
        stop.set()
        while not freed.is_set():
            try:
                await freed.wait()
            except asyncio.CancelledError:
                continue
        return []

    spool = Spool(tmp_path)
    started = time.monotonic()
    await Collector([Scripted("stubborn", stubborn)], spool, clock=ManualClock(DAY), flush_s=0.2).run(stop)
    assert time.monotonic() - started < 5
    freed.set()
    spool.close()


async def test_sources_are_replaced_while_the_others_go_on(tmp_path: Path) -> None:
    """A stream that leaves is drained and closed, a new one is opened, the third notices nothing; last words are kept."""
    stop = asyncio.Event()
    stays, leaves, comes = (Scripted(name, say, pace=Pace.WALL, interval_s=0.01) for name in ("stays", "leaves", "comes"))
    spool = Spool(tmp_path)
    collector = Collector([stays, leaves], spool, clock=SystemClock(), last_words=lambda: [sample(DAY, "last")])
    running = asyncio.create_task(collector.run(stop))
    async with asyncio.timeout(20):
        while not (stays.read_at and leaves.read_at):  # noqa: ASYNC110  # a source has no event for its reader
            await asyncio.sleep(0.01)
        await collector.replace([stays, comes])
        assert (leaves.closed, stays.closed) == (1, 0)
        reads = len(leaves.read_at)
        while not comes.read_at:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        stop.set()
        await running
    assert len(leaves.read_at) == reads
    assert [(source.opened, source.closed) for source in (stays, leaves, comes)] == [(1, 1)] * 3
    taken = spool.take(10_000)
    assert sum(message.rows for message in taken) == sum(len(source.read_at) for source in (stays, leaves, comes)) + 1
    assert any(message.node == "last" for message in taken)
    spool.close()
