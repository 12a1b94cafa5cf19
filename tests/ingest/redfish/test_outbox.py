"""The queue of a BMC is bounded by making its producers wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ingest.redfish.outbox import Outbox
from ingest.schema import SourceState

ROW = SourceState(node="n", observed_at_ns=1, received_at_ns=1, source="redfish", state="ok")


async def test_full_queue_stops_its_producer() -> None:
    """A producer waits at the bound and goes on when the rows were taken; nothing is lost and the time is counted."""
    outbox = Outbox(most_batches=2)
    passed: list[int] = []

    async def produce() -> None:
        for number in range(5):
            await outbox.put([ROW], 1)
            passed.append(number)

    task = asyncio.create_task(produce())
    await asyncio.wait_for(_until(lambda: len(passed) == 2), 5)
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(passed) == 2
    assert len(outbox.take()) == 2
    await asyncio.wait_for(_until(lambda: len(passed) == 4), 5)
    rows = outbox.take()
    await asyncio.wait_for(task, 5)
    assert len(rows) + len(outbox.take()) == 3
    assert outbox.paused_s > 0


async def test_bytes_bound_the_queue_too() -> None:
    """One large batch fills the queue."""
    outbox = Outbox(most_bytes=1000)
    await outbox.put([ROW], 1000)
    waiting = asyncio.create_task(outbox.put([ROW], 1))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert outbox.take() == [ROW]
    await asyncio.wait_for(waiting, 5)


async def test_notes_and_empty_batches_never_wait() -> None:
    """What is said about the source passes a full queue; an empty batch is none."""
    outbox = Outbox(most_batches=1)
    await outbox.put([ROW], 1)
    await asyncio.wait_for(outbox.put([], 1), 5)
    outbox.note(ROW)
    assert outbox.take() == [ROW, ROW]


async def test_events_join_and_a_flood_is_known() -> None:
    """Single events share batches, so that hundreds fit between two drains; a queue that is full at each of six drains is flooded."""
    outbox = Outbox()
    for _ in range(400):
        await asyncio.wait_for(outbox.put([ROW], 1, joins=True), 5)
    assert (len(outbox), len(outbox.take()), outbox.is_flooded) == (7, 400, False)
    for _ in range(6):
        for _ in range(8):
            await asyncio.wait_for(outbox.put([ROW, ROW], 1), 5)
        assert len(outbox.take()) == 16
    assert outbox.is_flooded
    assert (outbox.take(), outbox.is_flooded) == ([], False)


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # the queue has no event for its reader
        await asyncio.sleep(0)
