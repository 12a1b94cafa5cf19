"""The direct bus and real Kafka keep the same promises: what a collector spools is in the lake once, in both."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from ingest.bus import Delivery, DirectBus, Subscriber
from ingest.errors import StreamsMoved
from ingest.kafka_admin import KafkaConnection
from ingest.kafka_bus import KafkaPublisher, KafkaSubscriber
from ingest.lake import Lake
from ingest.messages import decode
from ingest.pump import Pump
from ingest.rejects import FileRejects
from ingest.schema import EVENTS, GPU_SAMPLES, Event, GpuSample
from ingest.spool import Spool
from ingest.writer import Writer

DAY = 1_750_000_000_000_000_000


class Pipe:
    """A spool with a way to its subscribers."""

    def __init__(self, directory: Path, settings: KafkaConnection | None) -> None:
        self.directory = directory
        self.settings = settings
        self.spool = Spool(directory / "spool")
        self.publisher = KafkaPublisher(settings) if settings else None

    def pass_on(self) -> None:
        """Bring what is spooled within reach of the subscriber."""
        if self.publisher:
            pump = Pump(self.spool, self.publisher)
            while pump.pass_on(0.0):
                pass

    def subscriber(self) -> Subscriber:
        """Make a reader that starts where the last commit was."""
        if self.settings:
            return KafkaSubscriber(self.settings, tables=("events", "gpu_samples"))
        return DirectBus(self.spool)

    def writer(self) -> Writer:
        """Make a writer into the lake of this pipe."""
        return Writer(self.subscriber(), Lake(self.directory / "lake"), FileRejects(self.directory / "rejects"))


@pytest.fixture(params=["direct", pytest.param("kafka", marks=pytest.mark.kafka)])
def pipe(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pipe]:
    """Run the test over each bus."""
    made = Pipe(tmp_path, request.getfixturevalue("kafka") if request.param == "kafka" else None)
    yield made
    if made.publisher:
        made.publisher.close()
    made.spool.close()


def put(spool: Spool, node: str, number: int) -> None:
    """Spool one event and one sample that carry a number."""
    common = {"node": node, "observed_at_ns": DAY + number * 1_000_000_000, "received_at_ns": DAY, "source": "test"}
    spool.put("events", node, [Event(kind="xid", code=number, **common)])
    spool.put("gpu_samples", node, [GpuSample(gpu_uuid=f"GPU-{gpu}", tier="hot", temp_c=float(number), **common) for gpu in range(2)])


def until(condition: Callable[[], bool], step: Callable[[], object], seconds: float = 30.0) -> None:
    """Repeat a step until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not reached in time"
        step()


def receive(subscriber: Subscriber, count: int) -> list[Delivery]:
    """Poll until so many messages have come."""
    found: list[Delivery] = []

    def read() -> None:
        try:
            found.extend(subscriber.poll(0.2))
        except StreamsMoved:
            found.clear()
            subscriber.rewind()

    until(lambda: len(found) >= count, read)
    return found


def rows(directory: Path) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """Read everything that is in the lake."""
    with duckdb.connect() as connection:
        lake = Lake(directory / "lake")
        lake.attach(connection, EVENTS)
        lake.attach(connection, GPU_SAMPLES)
        return (
            connection.execute("select node, code, date from events order by all").fetchall(),
            connection.execute("select node, gpu_uuid, temp_c, date from gpu_samples order by all").fetchall(),
        )


def test_every_message_comes_once_with_the_order_of_its_node(pipe: Pipe) -> None:
    """All messages arrive; those of a node and table in the order in which they were spooled, at growing offsets of one stream."""
    for number in range(40):
        put(pipe.spool, f"n{number % 4}", number)
    pipe.pass_on()
    subscriber = pipe.subscriber()
    subscriber.open()

    found = receive(subscriber, 80)

    for node in ("n0", "n1", "n2", "n3"):
        of_node = [d for d in found if d.table == "events" and decode(d.body).node == node]
        assert [decode(d.body).rows[0].code for d in of_node] == list(range(int(node[1]), 40, 4))
        assert len({d.stream for d in of_node}) == 1
        assert [d.offset for d in of_node] == sorted({d.offset for d in of_node})
    subscriber.close()


def test_what_is_not_committed_comes_again(pipe: Pipe) -> None:
    """A rewind gives exactly what is not committed; so does another reader after the first has left."""
    for number in range(6):
        put(pipe.spool, "n1", number)
    pipe.pass_on()
    subscriber = pipe.subscriber()
    subscriber.open()
    found = receive(subscriber, 12)
    events = [d for d in found if d.table == "events"]
    subscriber.commit({events[2].stream: events[2].offset + 1})

    subscriber.rewind()
    again = receive(subscriber, 9)
    subscriber.close()
    other = pipe.subscriber()
    other.open()
    once_more = receive(other, 9)
    other.close()

    assert {(d.table, decode(d.body).rows[0].observed_at_ns) for d in again} == {
        (d.table, decode(d.body).rows[0].observed_at_ns) for d in found if d not in events[:3]
    }
    assert sorted(d.body for d in once_more) == sorted(d.body for d in again)


def test_the_lake_holds_every_row_once_although_the_writer_starts_anew_again_and_again(pipe: Pipe) -> None:
    """Writers that leave without committing, and messages sent twice, add nothing and lose nothing."""
    for number in range(20):
        put(pipe.spool, f"n{number % 3}", number)
        if number % 5 == 4:
            pipe.pass_on()
            lost = pipe.subscriber()
            lost.open()
            receive(lost, 1)
            lost.close()
            writer = pipe.writer()
            until(lambda bound=number: len(rows(pipe.directory)[0]) == bound + 1, lambda w=writer: (w.run_once(), w.flush()))
            writer.close()

    events, samples = rows(pipe.directory)

    assert events == sorted((f"n{n % 3}", n, "2025-06-15") for n in range(20))
    assert samples == sorted((f"n{n % 3}", f"GPU-{gpu}", float(n), "2025-06-15") for n in range(20) for gpu in range(2))


@pytest.mark.kafka
def test_a_killed_collector_sends_twice_and_the_lake_has_it_once(kafka: KafkaConnection, tmp_path: Path) -> None:
    """Messages that the broker has and the spool could not release are sent again and dropped by their number."""
    pipe = Pipe(tmp_path, kafka)
    for number in range(10):
        put(pipe.spool, "n1", number)
    assert pipe.publisher is not None
    pipe.publisher.publish(pipe.spool.take(1000))  # acknowledged, and the collector dies before the release
    pipe.spool.close()

    pipe.spool = Spool(tmp_path / "spool")
    pipe.pass_on()
    writer = pipe.writer()
    put(pipe.spool, "n1", 10)
    pipe.pass_on()
    until(lambda: len(rows(tmp_path)[0]) >= 11, lambda: (writer.run_once(), writer.flush()))
    writer.close()

    assert [code for _, code, _ in rows(tmp_path)[0]] == list(range(11))
    assert len(rows(tmp_path)[1]) == 22
    pipe.publisher.close()
    pipe.spool.close()
