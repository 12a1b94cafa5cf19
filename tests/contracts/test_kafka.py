"""What only a real broker can show: hand-over between writers, topics made anew, messages too large, rejects, and a broker that dies."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import msgspec
import pytest
from prometheus_client import REGISTRY

from ingest.errors import StreamsMoved
from ingest.kafka_admin import KafkaConnection, connect, create_topics, topic_states
from ingest.kafka_bus import KafkaPublisher, KafkaRejects, KafkaSubscriber
from ingest.lake import Lake
from ingest.pump import Pump
from ingest.rejects import Rejected
from ingest.replays import publish, select
from ingest.schema import EVENTS, Event
from ingest.spool import Spool
from ingest.writer import Writer

pytestmark = pytest.mark.kafka
TABLES = ("events", "gpu_samples")


class Site:
    """A collector's spool, a broker and a lake."""

    def __init__(self, directory: Path, connection: KafkaConnection) -> None:
        self.lake, self.connection = Lake(directory / "lake"), connection
        self.spool, self.publisher = Spool(directory / "spool"), KafkaPublisher(connection)
        self.sent = 0

    def send(self, count: int) -> None:
        """Send events that carry numbers, spread over nodes."""
        for _ in range(count):
            node = f"n{self.sent % 7}"
            event = Event(node=node, kind="xid", code=self.sent, observed_at_ns=1_750_000_000_000_000_000, received_at_ns=1, source="t")
            self.spool.put("events", node, [event])
            self.sent += 1
        pump = Pump(self.spool, self.publisher)
        while pump.pass_on(0.0):
            pass

    def writer(self, **options: object) -> Writer:
        """Make a writer with its own membership."""
        return Writer(
            KafkaSubscriber(self.connection, tables=TABLES, **options), self.lake, KafkaRejects(self.connection), urgent_age_s=0.0
        )

    def written(self) -> list[int]:
        """Read the numbers in the lake."""
        with duckdb.connect() as connection:
            self.lake.attach(connection, EVENTS)
            return [code for (code,) in connection.execute("select code from events order by code").fetchall()]


@pytest.fixture
def site(tmp_path: Path, kafka: KafkaConnection) -> Iterator[Site]:
    """Give a site of its own to a test."""
    made = Site(tmp_path, kafka)
    yield made
    made.publisher.close()
    made.spool.close()


def until(condition: Callable[[], bool], step: Callable[[], object], seconds: float = 40.0) -> None:
    """Repeat a step until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not reached in time"
        step()


def test_partitions_are_handed_over_without_loss_or_repetition(site: Site) -> None:
    """A second writer takes partitions from the first while messages flow, then the first leaves; every row is there once."""
    stop_first, stop_second = threading.Event(), threading.Event()
    first = threading.Thread(target=site.writer().run, args=(stop_first,), daemon=True)
    second = threading.Thread(target=site.writer().run, args=(stop_second,), daemon=True)
    first.start()
    site.send(50)
    until(lambda: len(site.written()) >= 50, lambda: None)
    second.start()
    until(lambda: owners(site) == 2, lambda: site.send(5))
    stop_first.set()
    first.join()
    site.send(50)
    until(lambda: len(site.written()) >= site.sent, lambda: None)
    stop_second.set()
    second.join()

    assert site.written() == list(range(site.sent))


def owners(site: Site) -> int:
    """Count the members that hold partitions."""
    with connect(site.connection) as client:
        members = client.describe_groups([site.connection.group])[site.connection.group]["members"]
    return sum(1 for member in members if (member["member_assignment"] or {}).get("assigned_partitions"))


def test_a_topic_that_is_made_anew_is_another_stream(site: Site) -> None:
    """Its offsets start at zero again; a writer that runs meanwhile writes them all."""
    stop = threading.Event()
    thread = threading.Thread(target=site.writer().run, args=(stop,), daemon=True)
    thread.start()
    site.send(40)
    until(lambda: len(site.written()) == 40, lambda: None)
    with connect(site.connection) as client:
        client.delete_topics([site.connection.topic("events")])
    until(lambda: topic_states(site.connection, ["events"]) == [], lambda: None)
    create_topics(site.connection, partitions=3, replication=1, tables=TABLES)
    site.send(10)
    until(lambda: len(site.written()) >= 50, lambda: None)
    stop.set()
    thread.join()

    assert site.written() == list(range(50))


def test_states_of_topics_tell_messages_lag_and_owners(site: Site) -> None:
    """What `forewarn topics` shows: nothing is owned or committed at first; after a writer everything is."""
    site.send(30)
    events, samples = topic_states(site.connection, TABLES)
    assert (events.partitions, events.messages, events.lag, events.owned) == (3, 30, 30, 0)
    assert (samples.messages, samples.lag) == (0, 0)

    writer = site.writer()
    until(lambda: len(site.written()) == 30, lambda: (writer.run_once(), writer.flush()))
    (events,) = topic_states(site.connection, ["events"])
    assert (events.lag, events.owned) == (0, 3)
    writer.close()


def test_creating_topics_again_changes_nothing(kafka: KafkaConnection) -> None:
    """The command may be run at every start."""
    assert create_topics(kafka, partitions=3, replication=1, tables=TABLES) == []
    assert create_topics(kafka, partitions=3, replication=1, tables=(*TABLES, "jobs")) == [kafka.topic("jobs")]


def test_many_may_create_the_same_topics_at_once(broker: str) -> None:
    """Writers that start together on a new cluster all find their topics made."""
    settings = KafkaConnection(bootstrap=broker, prefix=f"t{uuid.uuid4().hex[:8]}")
    barrier = threading.Barrier(6)

    def create(_: int) -> list[str]:
        barrier.wait(30)
        return create_topics(settings, partitions=1, replication=1)

    with ThreadPoolExecutor(6) as pool:
        claimed = list(pool.map(create, range(6)))
    assert len(claimed) == 6
    assert create_topics(settings, partitions=1, replication=1) == []


def test_a_message_above_the_brokers_limit_is_refused_alone(site: Site) -> None:
    """It is counted and left; its neighbours arrive."""
    site.spool.put(
        "events", "n0", [Event(node="n0", kind="xid", code=999, detail="x" * 3_000_000, observed_at_ns=1, received_at_ns=1, source="t")]
    )
    site.send(3)
    writer = site.writer()
    until(lambda: len(site.written()) == 3, lambda: (writer.run_once(), writer.flush()))
    writer.close()
    assert site.written() == [0, 1, 2]


def test_rejected_messages_can_be_replayed_when_their_reason_is_gone(site: Site, tmp_path: Path) -> None:
    """They lie in a topic of their own as they came; a replay puts them back on their way once."""
    site.send(2)
    newer = site.spool
    newer.put(
        "events", "n1", [Event(node="n1", kind="xid", code=77, observed_at_ns=1_750_000_000_000_000_000, received_at_ns=1, source="t")]
    )
    (message,) = newer.take(1)
    site.publisher.publish([message._replace(body=message.body.replace(b'"v":"1.0"', b'"v":"7.0"'))])
    newer.release(message)
    writer = site.writer()
    until(lambda: len(site.written()) == 2 and rejected(site), lambda: (writer.run_once(), writer.flush()))

    (kept,) = rejected(site)
    assert (kept.reason, kept.table) == ("unknown_version", "events")
    mended = lambda body: body.replace(b'"v":"7.0"', b'"v":"1.0"')  # noqa: E731  # stands for a reader that has learned version 7
    again = select([msgspec.structs.replace(kept, body=mended(kept.body))]).readable
    for _ in range(2):
        assert publish(again, site.publisher) == 1
    site.send(1)
    until(lambda: len(site.written()) >= 4, lambda: (writer.run_once(), writer.flush()))
    writer.close()
    assert site.written() == [0, 1, 2, 77]


def rejected(site: Site) -> list[Rejected]:
    """Read the rejects."""
    return list(KafkaRejects(site.connection).read())


def test_a_broker_that_is_killed_loses_and_repeats_nothing(
    tmp_path: Path, free_port: Callable[[], int], start_broker: Callable[..., str], stop_broker: Callable[..., None]
) -> None:
    """Messages go on into the spool while the broker is dead, and all are in the lake once when it is back."""
    port = str(free_port())
    connection = KafkaConnection(bootstrap=start_broker(tmp_path / "broker", KAFKA_PORT=port), prefix="k", group="k", connect_timeout_s=2.0)
    create_topics(connection, partitions=3, replication=1, tables=TABLES)
    site = Site(tmp_path, connection)
    pump = Pump(site.spool, site.publisher)
    stop = threading.Event()
    writing = threading.Thread(target=site.writer().run, args=(stop,), daemon=True)
    pump.start()
    writing.start()
    for killed in (False, True, False):
        if killed:
            stop_broker(tmp_path / "broker", "KILL")
        for _ in range(200):
            number = site.sent
            site.spool.put(
                "events",
                "n1",
                [Event(node="n1", kind="xid", code=number, observed_at_ns=1_750_000_000_000_000_000, received_at_ns=1, source="t")],
            )
            site.sent += 1
        if killed:
            start_broker(tmp_path / "broker", KAFKA_PORT=port)
        else:
            until(lambda: len(site.written()) >= site.sent, lambda: None, seconds=60)
    pump.stop(10)
    stop.set()
    writing.join()
    site.spool.close()
    stop_broker(tmp_path / "broker", "KILL")

    assert site.written() == list(range(600))


def test_a_writer_without_partitions_joins_anew_when_some_have_no_reader(site: Site) -> None:
    """It counts that, and reads on; one that is merely spare stays as it is."""
    site.send(5)
    alone = KafkaSubscriber(site.connection, tables=("events",))
    alone.open()
    before = rejoined()
    alone._rejoin_if_needed()
    assert rejoined() == before + 1
    found: list[object] = []

    def read() -> None:
        try:
            found.extend(alone.poll(0.2))
        except StreamsMoved:
            alone.rewind()

    until(lambda: len(found) == 5, read)
    alone._rejoin_if_needed()
    assert rejoined() == before + 1
    alone.close()


def test_a_writer_that_gets_nothing_of_its_partitions_joins_anew(site: Site) -> None:
    """When twice in a row there is more than it was given, it counts that, joins anew and reads on; with nothing to read it stays."""
    subscriber = KafkaSubscriber(site.connection, tables=("events",))
    subscriber.open()
    found: list[int] = []

    def read() -> None:
        try:
            found.extend(delivery.offset for delivery in subscriber.poll(0.2))
        except StreamsMoved:
            subscriber.rewind()

    site.send(5)
    until(lambda: len(found) >= 5, read)
    before = rejoined()
    subscriber._rejoin_if_needed()
    subscriber._rejoin_if_needed()
    assert rejoined() == before
    consumer = subscriber._consumer
    assert consumer
    consumer.pause(*consumer.assignment())  # the library gives nothing, as where its fetches have ended
    site.send(5)
    subscriber._rejoin_if_needed()
    assert rejoined() == before
    subscriber._rejoin_if_needed()
    assert rejoined() == before + 1
    found.clear()
    until(lambda: len(found) >= 10, read)
    subscriber.close()


def rejoined() -> float:
    """Read the counter."""
    return REGISTRY.get_sample_value("forewarn_bus_rejoined_total") or 0.0
