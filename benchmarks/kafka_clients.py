"""Hold kafka-python against confluent-kafka in the same pipeline: JSON by msgspec, zstd, idempotent, one real broker, the same writer.

Prints CPU microseconds per node message (eight rows) to publish, to read, and to bring into the lake, all threads counted, the median of
three rounds of one run, and what the difference is at 2,048 nodes. Exits with 1 where the choice no longer holds: with kafka-python the
bus costs more than a tenth of a core at 205 messages a second. confluent-kafka comes with `make .venv/peers/kafka/.installed`.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.rig.fleet import GPUS, Poll, messages_of, polls_of_fleet
from benchmarks.rig.kafka import kafka
from benchmarks.rig.process import own_cpu_s, set_apart
from ingest.bus import Delivery, Publisher, Subscriber
from ingest.errors import StreamsMoved
from ingest.kafka_admin import create_topics
from ingest.kafka_bus import KafkaConnection, KafkaPublisher, KafkaSubscriber
from ingest.lake import Lake
from ingest.rejects import FileRejects
from ingest.schema import GPU_SAMPLES
from ingest.spool import Spooled
from ingest.writer import Writer

PEERS = next((Path(__file__).parents[1] / ".venv" / "peers" / "kafka").glob("lib/python*/site-packages"), None)
NODES, POLLS, ROUNDS = 64, 120, 3
BATCH = 500  # of the pump
RATE = 204.8  # messages/s of 2,048 nodes
MOST_SHARE = 0.1


class TheirPublisher:
    """A publisher over confluent-kafka with the settings of ours."""

    def __init__(self, settings: KafkaConnection) -> None:
        from confluent_kafka import Producer  # noqa: PLC0415

        options = {"acks": "all", "enable.idempotence": True, "compression.type": "zstd", "linger.ms": 20, "batch.size": 262_144}
        self._producer = Producer({"bootstrap.servers": settings.bootstrap, **options})
        self._topic = settings.topic(GPU_SAMPLES.name)
        self._failed: list[Any] = []

    def publish(self, messages: list[Spooled]) -> list[Any]:
        """Send messages and wait for the broker's answer to each."""
        for message in messages:
            self._producer.produce(self._topic, key=message.node.encode(), value=message.body, on_delivery=self._answered)
        self._producer.flush()
        assert not self._failed, self._failed[0]
        return []

    def close(self) -> None:
        """Nothing is open between batches."""

    def _answered(self, error: Any, _: Any) -> None:
        if error:
            self._failed.append(error)


class TheirSubscriber:
    """A subscriber over confluent-kafka with the settings of ours."""

    def __init__(self, settings: KafkaConnection) -> None:
        from confluent_kafka import Consumer  # noqa: PLC0415

        options = {"group.id": settings.group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        self._consumer = Consumer({"bootstrap.servers": settings.bootstrap, **options})
        self._topic = settings.topic(GPU_SAMPLES.name)

    def open(self) -> None:
        """Join the group."""
        self._consumer.subscribe([self._topic])

    def poll(self, timeout_s: float) -> list[Delivery]:
        """Give what has come."""
        found = self._consumer.consume(5000, timeout_s)
        return [Delivery(str(each.partition()), each.offset(), GPU_SAMPLES.name, each.value()) for each in found if not each.error()]

    def commit(self, positions: Mapping[str, int]) -> None:
        """Store the group's offsets."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        offsets = [TopicPartition(self._topic, int(stream), offset) for stream, offset in positions.items()]
        self._consumer.commit(offsets=offsets, asynchronous=False)

    def rewind(self) -> None:
        """Never asked for: nothing moves here."""

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()


CLIENTS: dict[str, tuple[Any, Any]] = {
    "kafka-python": (KafkaPublisher, lambda settings: KafkaSubscriber(settings, tables=[GPU_SAMPLES.name])),
    "confluent-kafka": (TheirPublisher, TheirSubscriber),
}


def publish(publisher: Publisher, polls: list[Poll], first: int) -> None:
    """Encode and publish all polls in batches of the pump."""
    for start in range(0, len(polls), BATCH):
        publisher.publish(messages_of(polls[start : start + BATCH], first=first + start))


def read(subscriber: Subscriber, count: int) -> None:
    """Read so many messages and do nothing with them."""
    subscriber.open()
    while count > 0:
        try:
            count -= len(subscriber.poll(0.5))
        except StreamsMoved:  # the first polls say that partitions came
            subscriber.rewind()
    subscriber.close()


def write(subscriber: Subscriber, count: int, directory: Path) -> None:
    """Bring so many messages into the lake."""
    writer = Writer(subscriber, Lake(directory), FileRejects(directory / "rejects"), max_age_s=3.0)
    rows = count * GPUS
    while rows > 0:
        rows -= writer.run_once()
    writer.close()


def round_of(name: str, bootstrap: str, polls: list[Poll], directory: Path) -> tuple[float, float, float]:
    """Use topics and groups of this round alone; give CPU microseconds per message of publishing, reading and writing."""
    publisher, subscriber = CLIENTS[name]
    settings = KafkaConnection(bootstrap=bootstrap, prefix=directory.name, group=f"{directory.name}-write")
    alone = replace(settings, group=f"{directory.name}-read")
    sender = publisher(settings)
    acts = (
        lambda: publish(sender, polls, 0),
        lambda: read(subscriber(alone), len(polls)),
        lambda: write(subscriber(settings), len(polls), directory),
    )
    costs = [own_cpu_s(act) / len(polls) * 1e6 for act in acts]
    sender.close()
    return costs[0], costs[1], costs[2]


def main() -> int:
    """Measure, print, judge."""
    if PEERS is None:
        sys.exit("confluent-kafka is not there: make .venv/peers/kafka/.installed")
    sys.path.append(str(PEERS))
    polls = polls_of_fleet(NODES, POLLS)
    set_apart()
    costs: dict[str, list[tuple[float, float, float]]] = {name: [] for name in CLIENTS}
    with tempfile.TemporaryDirectory() as folder, kafka(Path(folder) / "kafka") as broker:
        for number in range(ROUNDS):
            for name in CLIENTS:
                prefix = f"{name}-{number}"
                create_topics(replace(broker.settings, prefix=prefix), partitions=6, replication=1)
                costs[name].append(round_of(name, broker.settings.bootstrap, polls, Path(folder) / prefix))
    print(f"{len(polls):,} messages of {GPUS} rows a round; CPU us a message, median of {ROUNDS}")
    print(f"{'':<18}{'encode, publish':>18}{'read':>10}{'topic to lake':>16}")
    middle = {name: [statistics.median(values) for values in zip(*found, strict=True)] for name, found in costs.items()}
    for name, (sent, got, stored) in middle.items():
        print(f"{name:<18}{sent:>18.0f}{got:>10.0f}{stored:>16.0f}")
    ours, theirs = middle["kafka-python"], middle["confluent-kafka"]
    share, saved = (ours[0] + ours[1]) * RATE / 1e6, (ours[0] + ours[2] - theirs[0] - theirs[2]) * RATE / 1e6
    print(f"at {RATE:.0f} messages/s publishing and reading by kafka-python take {share:.1%} of a core; the other would save {saved:.1%}")
    print("all targets met" if share <= MOST_SHARE else "missed: a tenth of a core")
    return 0 if share <= MOST_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
