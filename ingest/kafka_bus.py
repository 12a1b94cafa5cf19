"""The bus over Apache Kafka: one topic per table, key = node, so that a node's order is kept.

Publisher: idempotent, acknowledged by all replicas, and it never gives up on a message that may have been written: within a partition
what is in the topic is always a beginning of what was sent, so that the numbers of a node arrive in order. Subscriber: member of a group
that commits only what the lake has; a stream is named by cluster id, topic id and partition.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import structlog
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, MessageSizeTooLargeError, RecordListTooLargeError
from kafka.structs import OffsetAndMetadata

from ingest.bus import Delivery, Refusal
from ingest.errors import BusUnavailable, StreamsMoved
from ingest.kafka_admin import REJECTED, KafkaConnection, check_codecs, stream_prefixes, topic_states
from ingest.kafka_lag import Lag
from ingest.metrics import BUS_REJOINED
from ingest.rejects import Rejected, encode_rejected
from ingest.schema import TABLES
from ingest.spool import Spooled

__all__ = ["KafkaConnection", "KafkaPublisher", "KafkaRejects", "KafkaSubscriber"]

_FOR_EVER_MS = 2**31 - 1
_CHECK_S = 1.0  # asking all positions takes 0.3 ms each
_KEPT_OF_TOO_LARGE = 65_536  # bytes
_TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
_log = structlog.get_logger()


class KafkaPublisher:
    """A producer that is made at the first message: a collector starts without a broker, but not without the codecs."""

    def __init__(self, settings: KafkaConnection) -> None:
        check_codecs()
        self._settings = settings
        self._producer: KafkaProducer | None = None
        self._known: set[str] = set()

    def publish(self, messages: Sequence[Spooled]) -> list[Refusal]:
        """Send messages and wait for the broker's answer to each; see `Publisher.publish`."""
        producer = self._connected({message.table for message in messages})
        errors = self._send(producer, messages)
        refusals = [Refusal(message, "too_large", is_final=True) for message, error in errors if isinstance(error, _TOO_LARGE)]
        failed = [(message, error) for message, error in errors if error and not isinstance(error, _TOO_LARGE)]
        if not failed:
            return refusals
        went = {(message.table, message.node) for message, error in errors if error is None}
        if not any((message.table, message.node) in went for message, _ in failed):
            self.close()
            raise BusUnavailable(f"Kafka at {self._settings.bootstrap}: {failed[0][1]}")
        return refusals + [Refusal(message, type(error).__name__, is_final=False) for message, error in failed]

    def close(self) -> None:
        """Drop the connection; what is not acknowledged is still in the spool."""
        if self._producer:
            self._producer.close(timeout=0)
            self._producer = None

    def _connected(self, tables: set[str]) -> KafkaProducer:
        if self._producer is None or not tables <= self._known:
            stream_prefixes(self._settings, tables)  # says at once which topic is missing or denied
            self._known |= tables
        if self._producer is None:
            self._producer = KafkaProducer(
                **self._settings.client_options(),
                acks="all",
                enable_idempotence=True,
                compression_type="zstd",
                linger_ms=20,  # the pump sends a batch at a time and waits for it
                batch_size=262_144,
                delivery_timeout_ms=_FOR_EVER_MS,
                max_block_ms=int(self._settings.connect_timeout_s * 1000),
            )
        return self._producer

    def _send(self, producer: KafkaProducer, messages: Sequence[Spooled]) -> list[tuple[Spooled, KafkaError | None]]:
        """Send in order up to the first message that cannot even be queued, and give the broker's answer to each."""
        answers: list[Any] = []
        for message in messages:
            try:
                answers.append(producer.send(self._settings.topic(message.table), key=message.node.encode(), value=message.body))
            except _TOO_LARGE as error:
                answers.append(error)
            except KafkaError as error:
                answers += [error] * (len(messages) - len(answers))
                break
        producer.flush()
        return [(message, _error_of(answer)) for message, answer in zip(messages, answers, strict=True)]


class KafkaSubscriber(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    """A member of the group of writers; reads the topics of the given tables.

    A member that holds no partition while some have no reader, or gets nothing of those that it holds while they hold more, says so and
    joins anew: the library can stay in either state for ever, after an early join or after rebalances on a machine without time.
    `prepare` runs before each join: a writer that starts while the broker is away makes the topics when it is there.
    """

    def __init__(
        self,
        settings: KafkaConnection,
        *,
        tables: Collection[str] = tuple(TABLES),
        max_messages: int = 5000,
        idle_check_s: float = 10.0,
        prepare: Callable[[], object] = lambda: None,
    ) -> None:
        check_codecs()
        self._settings = settings
        self._prepare = prepare
        self._tables = {settings.topic(table): table for table in tables}
        self._max_messages = max_messages
        self._idle_check_s = idle_check_s
        self._lag = Lag(self._tables, settings.group)
        self._prefixes: dict[str, str] = {}
        self._consumer: KafkaConsumer | None = None
        self._has_new_streams = False
        self._next: dict[TopicPartition, int] = {}
        self._busy_at = self._checked_at = time.monotonic()

    def open(self) -> None:
        """Join the group; raises BusUnavailable with the reason where that cannot be."""
        self.close()
        self._prepare()
        self._prefixes = stream_prefixes(self._settings, self._tables.values())
        self._consumer = KafkaConsumer(
            **self._settings.client_options(),
            group_id=self._settings.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_poll_records=self._max_messages,
            session_timeout_ms=int(self._settings.session_timeout_s * 1000),
            heartbeat_interval_ms=int(self._settings.session_timeout_s * 300),
        )
        self._consumer.subscribe(sorted(self._tables), listener=self)
        with self._errors():  # a member that joins before it knows the topics can stay without partitions
            for topic in self._tables:
                self._consumer.partitions_for_topic(topic)
        self._busy_at = time.monotonic()

    def poll(self, timeout_s: float) -> list[Delivery]:
        """Give what has come; raises StreamsMoved after partitions came or went, BusUnavailable where the broker is away."""
        with self._errors():
            found = self._member.poll(timeout_ms=int(timeout_s * 1000))
        self._lag.note(found)
        if found:
            self._busy_at = time.monotonic()
        if self._has_gone_back(found) or self._has_new_streams:
            self._prefixes = stream_prefixes(self._settings, self._tables.values())
            self._has_new_streams = False
            raise StreamsMoved("partitions came or went, or a topic was made anew")
        return [
            Delivery(self._stream(partition), record.offset, self._tables[partition.topic], record.value)
            for partition, records in found.items()
            for record in records
        ]

    def commit(self, positions: Mapping[str, int]) -> None:
        """Store the group's offsets."""
        ours = {self._stream(partition): partition for partition in self._member.assignment()}
        offsets = {ours[stream]: OffsetAndMetadata(offset, "", -1) for stream, offset in positions.items() if stream in ours}
        with self._errors():
            self._member.commit(offsets)

    def rewind(self) -> None:
        """Go back to the group's offsets."""
        self._next.clear()
        with self._errors():
            for partition in self._member.assignment():
                offset = self._member.committed(partition)
                if offset is None:
                    self._member.seek_to_beginning(partition)
                else:
                    self._member.seek(partition, offset)

    def close(self) -> None:
        """Leave the group."""
        if self._consumer:
            self._consumer.close(autocommit=False, timeout_ms=5000)
            self._consumer = None

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Note it: runs inside the library's event loop, where nothing may block."""
        self._has_new_streams = self._has_new_streams or bool(revoked)

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Note it: one of them may be of a topic that was made anew."""
        self._has_new_streams = self._has_new_streams or bool(assigned)
        _log.info("partitions_assigned", added=len(assigned), group=self._settings.group)

    def _has_gone_back(self, found: Mapping[TopicPartition, Sequence[Any]]) -> bool:
        """Follow the positions of all partitions, and say whether one went back.

        Where a topic is deleted and made anew under a reader, the library takes it for a truncated log and goes on at its new end: what
        the new topic held by then would never be read.
        """
        if any(records[0].offset < self._next.get(partition, 0) for partition, records in found.items()):
            return True
        self._next |= {partition: records[-1].offset + 1 for partition, records in found.items()}
        if time.monotonic() - self._checked_at < _CHECK_S:
            return False
        self._checked_at = time.monotonic()
        before, self._next = self._next, {}
        for partition in self._member.assignment():
            position = self._member.position(partition, timeout_ms=0)
            if position is not None:
                self._next[partition] = position
        self._measure()
        return any(position < before.get(partition, 0) for partition, position in self._next.items())

    def _measure(self) -> None:
        """Measure the lag of what was read, and see to a member that has nothing to read."""
        held = len(self._member.assignment())
        self._lag.measure(self._next, self._member.highwater, held=held, now_ms=time.time_ns() // 1_000_000)
        if time.monotonic() - self._busy_at > self._idle_check_s:
            self._busy_at = time.monotonic()
            self._rejoin_if_needed()

    def _rejoin_if_needed(self) -> None:
        with self._errors():
            held = self._member.assignment()
            ends = self._member.end_offsets(list(held)) if held else {}
        if self._lag.stuck(self._next, ends) if held else self._lag.idle(topic_states(self._settings, self._tables.values())):
            BUS_REJOINED.inc()
            self.open()

    @property
    def _member(self) -> KafkaConsumer:
        assert self._consumer is not None, "BUG: the subscriber is not open"
        return self._consumer

    def _stream(self, partition: TopicPartition) -> str:
        return f"{self._prefixes[partition.topic]}/{partition.partition}"

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except KafkaError as error:
            raise BusUnavailable(f"Kafka at {self._settings.bootstrap}: {error}") from error


class KafkaRejects:
    """Keep rejected messages in the topic `rejected`."""

    def __init__(self, settings: KafkaConnection) -> None:
        self._settings = settings
        self._producer: KafkaProducer | None = None

    def put(self, delivery: Delivery, reason: str, detail: str) -> None:
        """Send one message and wait until the broker has it; raises BusUnavailable.

        Of a message that is too large beside its reason a beginning is kept: the whole one lies at its place until it expires there.
        """
        try:
            self._send(delivery, encode_rejected(delivery, reason, detail))
        except _TOO_LARGE:
            cut = delivery._replace(body=delivery.body[:_KEPT_OF_TOO_LARGE])
            self._send(cut, encode_rejected(cut, reason, f"{detail[:1000]}; cut from {len(delivery.body)} bytes: too large for the topic"))

    def _send(self, delivery: Delivery, body: bytes) -> None:
        try:
            if self._producer is None:
                self._producer = KafkaProducer(**self._settings.client_options(), acks="all", compression_type="zstd")
            self._producer.send(self._settings.topic(REJECTED), key=delivery.table.encode(), value=body).get(timeout=30)
        except _TOO_LARGE:
            raise
        except KafkaError as error:
            raise BusUnavailable(f"Kafka at {self._settings.bootstrap}: {error}") from error

    def read(self) -> Iterator[Rejected]:
        """Give everything that the topic holds as of now."""
        topic = self._settings.topic(REJECTED)
        stream_prefixes(self._settings, [REJECTED])
        consumer = KafkaConsumer(**self._settings.client_options(), enable_auto_commit=False)
        try:
            partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
            ends = consumer.end_offsets(partitions)
            consumer.assign(partitions)
            consumer.seek_to_beginning()
            while any(consumer.position(partition) < ends[partition] for partition in partitions):
                for records in consumer.poll(timeout_ms=500).values():
                    yield from (msgspec.json.decode(record.value, type=Rejected) for record in records)
        except KafkaError as error:
            raise BusUnavailable(f"Kafka at {self._settings.bootstrap}: {error}") from error
        finally:
            consumer.close(autocommit=False)


def _error_of(answer: Any) -> KafkaError | None:
    return answer if isinstance(answer, KafkaError) else answer.exception
