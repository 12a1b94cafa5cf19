"""The bus over Apache Kafka: one topic per table, key = node, so that a node's order is kept.

Publisher: idempotent, acknowledged by all replicas, and it never gives up on a message that may have been written: within a partition
what is in the topic is always a beginning of what was sent, so that the numbers of a node arrive in order. Subscriber: member of a group
that commits only what the lake has; a stream is named by cluster id, topic id and partition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import structlog
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, MessageSizeTooLargeError, RecordListTooLargeError
from kafka.structs import OffsetAndMetadata

from ingest.bus import Delivery, Refusal, rejected_of
from ingest.errors import BusUnavailable, StreamsMoved
from ingest.kafka_admin import REJECTED, KafkaConnection, stream_prefixes
from ingest.schema import TABLES
from ingest.spool import Spooled

__all__ = ["KafkaConnection", "KafkaPublisher", "KafkaRejects", "KafkaSubscriber"]

_FOR_EVER_MS = 2**31 - 1
_TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
_log = structlog.get_logger()


class KafkaPublisher:
    """A producer that is made at the first message: a collector starts without a broker."""

    def __init__(self, settings: KafkaConnection) -> None:
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
    """A member of the group of writers; reads the topics of the given tables."""

    def __init__(self, settings: KafkaConnection, *, tables: Collection[str] = tuple(TABLES), max_messages: int = 5000) -> None:
        self._settings = settings
        self._tables = {settings.topic(table): table for table in tables}
        self._max_messages = max_messages
        self._prefixes: dict[str, str] = {}
        self._consumer: KafkaConsumer | None = None
        self._has_lost_streams = False

    def open(self) -> None:
        """Join the group; raises BusUnavailable with the reason where that cannot be."""
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

    def poll(self, timeout_s: float) -> list[Delivery]:
        """Give what has come; raises StreamsMoved after partitions went to another member, BusUnavailable where the broker is away."""
        with self._errors():
            found = self._member.poll(timeout_ms=int(timeout_s * 1000))
        if self._has_lost_streams:
            self._has_lost_streams = False
            raise StreamsMoved("partitions went to another member of the group")
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
        self._has_lost_streams = self._has_lost_streams or bool(revoked)

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Say which partitions are ours now."""
        _log.info("partitions_assigned", added=len(assigned), group=self._settings.group)

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
        """Send one message and wait until the broker has it; raises BusUnavailable."""
        try:
            if self._producer is None:
                self._producer = KafkaProducer(**self._settings.client_options(), acks="all", compression_type="zstd")
            body = msgspec.json.encode(rejected_of(delivery, reason, detail))
            self._producer.send(self._settings.topic(REJECTED), key=delivery.table.encode(), value=body).get(timeout=30)
        except KafkaError as error:
            raise BusUnavailable(f"Kafka at {self._settings.bootstrap}: {error}") from error


def _error_of(answer: Any) -> KafkaError | None:
    return answer if isinstance(answer, KafkaError) else answer.exception
