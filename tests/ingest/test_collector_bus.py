"""What the collector does with a bus that is away and a disk that is full."""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ingest.bus import Refusal
from ingest.clock import ManualClock, SystemClock
from ingest.collector import Collector
from ingest.errors import BusUnavailable, SpoolFull
from ingest.messages import decode
from ingest.schema import Event, Observed
from ingest.source import Pace
from ingest.spool import Spool, Spooled
from tests.ingest.test_collector import DAY, Scripted, after, metric, say


class Broker:
    """A publisher that can be away, and remembers what it took."""

    def __init__(self) -> None:
        self.taken: list[Spooled] = []
        self.is_away = False
        self.has_event = threading.Event()
        self.refuse: Callable[[Spooled], Refusal | None] = lambda message: None

    def publish(self, messages: list[Spooled]) -> list[Refusal]:
        if self.is_away:
            raise BusUnavailable("nobody there")
        refusals = [refusal for message in messages if (refusal := self.refuse(message))]
        self.taken += [message for message in messages if message not in {refusal.message for refusal in refusals}]
        if any(message.table == "events" for message in messages):
            self.has_event.set()
        return refusals

    def close(self) -> None:
        """Nothing to close."""


async def test_events_reach_the_bus_within_a_second(tmp_path: Path) -> None:
    """From the read to the broker's acknowledgement of an event passes less than a second of wall time."""
    stop, broker, spool = asyncio.Event(), Broker(), Spool(tmp_path)
    said_at: list[float] = []

    async def happen(at_ns: int) -> list[Observed]:
        said_at.append(time.monotonic())
        return [Event(node="n1", kind="xid", code=79, observed_at_ns=at_ns, received_at_ns=at_ns, source="test")]

    source = Scripted("log", happen, say, pace=Pace.WALL, interval_s=0.05)
    running = asyncio.create_task(Collector([source], spool, clock=SystemClock(), publisher=broker).run(stop))
    assert await asyncio.to_thread(broker.has_event.wait, 10)
    delay = time.monotonic() - said_at[0]
    stop.set()
    await running
    spool.close()

    assert delay < 1.0


async def test_what_the_bus_did_not_take_is_still_in_the_spool(tmp_path: Path) -> None:
    """With the broker away a collector goes on and stops in time; a later one sends everything."""
    stop, broker, spool = asyncio.Event(), Broker(), Spool(tmp_path)
    broker.is_away = True
    await Collector([Scripted("a", after(4, stop))], spool, clock=ManualClock(DAY), publisher=broker, flush_s=0.3).run(stop)
    assert broker.taken == []
    spool.close()

    broker.is_away, stop, spool = False, asyncio.Event(), Spool(tmp_path)
    await Collector([Scripted("a", after(1, stop))], spool, clock=ManualClock(DAY), publisher=broker).run(stop)
    spool.close()

    assert len(broker.taken) >= 5
    assert [message.seq for message in broker.taken] == sorted({message.seq for message in broker.taken})


async def test_a_message_that_was_passed_by_a_later_one_comes_again_under_a_new_number(tmp_path: Path) -> None:
    """Its old number would look old to the writer; one that the bus will never take is counted and left."""
    stop, broker, spool = asyncio.Event(), Broker(), Spool(tmp_path)
    broker.refuse = lambda message: {
        0: Refusal(message, "NotEnoughReplicasError", is_final=False),
        1: Refusal(message, "too_large", is_final=True),
    }.get(message.seq)
    for number in range(3):
        spool.put("events", "n1", [Event(node="n1", kind="xid", code=number, observed_at_ns=DAY, received_at_ns=DAY, source="test")])
    stop.set()
    before = metric("forewarn_bus_refused_records_total", reason="too_large")
    await Collector([], spool, clock=ManualClock(DAY), publisher=broker).run(stop)
    spool.close()

    assert [(message.seq, decode(message.body).rows[0].code) for message in broker.taken] == [(2, 2), (3, 0)]
    assert metric("forewarn_bus_refused_records_total", reason="too_large") - before == 1


class FullDisk(Spool):
    """A spool whose disk is full for its first puts."""

    full_for = 3

    def put(self, table: str, node: str, rows: object) -> bool:
        if self.full_for:
            self.full_for -= 1
            raise SpoolFull(f"{errno.ENOSPC}")
        return super().put(table, node, rows)


async def test_events_that_find_no_room_on_the_disk_wait_in_memory(tmp_path: Path) -> None:
    """Nothing that happened is lost while the disk is full."""
    stop, spool = asyncio.Event(), FullDisk(tmp_path)

    async def happen(at_ns: int) -> list[Observed]:
        return [Event(node="n1", kind="xid", code=13, observed_at_ns=at_ns, received_at_ns=at_ns, source="test")]

    source = Scripted("log", after(5, stop, happen))
    await Collector([source], spool, clock=ManualClock(DAY)).run(stop)
    taken = spool.take(100)
    spool.close()

    assert sorted(decode(message.body).rows[0].observed_at_ns for message in taken) == source.read_at
