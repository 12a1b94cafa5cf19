"""From the bus into the lake, exactly once: many messages become one commit per table.

The cycle: poll until there are enough rows or the oldest is old enough -> one Arrow table -> one append whose application transactions
name each stream and the offset after its last message -> commit to the bus. The lake goes first: a crash between the two lets the
same messages come again, and the stream's offset in the lake says that they are done. What a collector sent twice is known by its
origin and number (`ingest.marks`), what it read twice from a log by the record itself (`ingest.known_events`). A message that cannot
become rows, or the rows of it that cannot (`ingest.deliveries`), go to the rejects with their reason and the batch goes on. When anything
else fails, the open batches are given up and read again from the bus.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
import structlog

from ingest.bus import Delivery, Rejects, Subscriber
from ingest.columns import CHUNK_ROWS
from ingest.deliveries import arrow_of, fits, odd_of, read_delivery
from ingest.errors import LakeConflict, RecordRejected, StreamsMoved
from ingest.known_events import KnownEvents
from ingest.lake import AppTransaction, Lake
from ingest.marks import Marks
from ingest.messages import Message
from ingest.metrics import (
    COMMIT_SECONDS,
    WRITER_DUPLICATES,
    WRITER_FAILURES,
    WRITER_KNOWN_EVENTS,
    WRITER_OLDEST_AGE,
    WRITER_RECEIVED,
    WRITER_REJECTED,
    WRITER_WRITTEN,
)
from ingest.schema import EVENTS, TABLES
from ingest.tables import Table

URGENT_TABLES = frozenset({"events", "outcomes", "source_states"})
_FIRST_BACKOFF_S, _LAST_BACKOFF_S = 0.5, 30.0
_log = structlog.get_logger()


@dataclass
class _Batch:
    """What is read of one table and not yet in the lake."""

    table: Table
    positions: dict[str, int] = field(default_factory=dict)
    since: float | None = None
    pending: list[tuple[Delivery, Message]] = field(default_factory=list)
    pending_rows: int = 0
    chunks: list[pa.Table] = field(default_factory=list)
    rows: int = 0


class Writer:
    """One member of the writers of a bus; runs in one thread."""

    def __init__(
        self,
        subscriber: Subscriber,
        lake: Lake,
        rejects: Rejects,
        *,
        max_rows: int = 60_000,
        max_age_s: float = 60.0,
        urgent_age_s: float = 0.2,
        poll_s: float = 0.5,
        tables: Mapping[str, Table] = TABLES,
    ) -> None:
        self._subscriber = subscriber
        self._lake = lake
        self._rejects = rejects
        self._max_rows = max_rows
        self._max_age_s = max_age_s
        self._urgent_age_s = urgent_age_s
        self._poll_s = poll_s
        self._tables = tables
        self._batches: dict[str, _Batch] = {}
        self._starts: dict[tuple[str, str], int] = {}
        self._marks: dict[str, Marks] = {}
        self._known_events = KnownEvents(lake)
        self._is_open = False
        self._is_sound = False
        self.turned_at_s = time.monotonic()  # when a pass last began, for those who ask whether the loop turns

    def run(self, stop: threading.Event) -> None:
        """Write until `stop` is set, then write what is there and leave."""
        backoff_s = _FIRST_BACKOFF_S
        is_last = False
        while not is_last:
            is_last = stop.is_set()
            self.turned_at_s = time.monotonic()
            try:
                self.run_once()
                if is_last:
                    self.flush()
                backoff_s = _FIRST_BACKOFF_S
            except Exception as error:  # noqa: BLE001  # the writer outlives what befalls the bus and the lake
                WRITER_FAILURES.labels(type(error).__name__).inc()
                _log.warning("writer_pass_failed", error=f"{type(error).__name__}: {error}", retry_s=backoff_s)
                self._is_sound = False
                stop.wait(backoff_s)
                backoff_s = min(_LAST_BACKOFF_S, backoff_s * 2)
        self._subscriber.close()

    def run_once(self) -> int:
        """Poll once, write what is due, and say how many rows were written."""
        if not self._is_sound:
            self._begin()
        try:
            deliveries = self._subscriber.poll(self._wait_s())
        except StreamsMoved:
            self._begin()
            return 0
        for delivery in deliveries:
            self._take(delivery)
        due = [batch for batch in self._batches.values() if self._is_due(batch)]
        WRITER_OLDEST_AGE.set(max((self._age_s(batch) for batch in self._batches.values()), default=0.0))
        return sum(self._write(batch) for batch in due)

    @property
    def is_sound(self) -> bool:
        """Tell whether the bus was joined and the last pass was good."""
        return self._is_sound

    def flush(self) -> int:
        """Write everything that is open, due or not, and say how many rows that was."""
        return sum(self._write(batch) for batch in list(self._batches.values()))

    def close(self) -> None:
        """Write what is open and leave the bus."""
        try:
            self.flush()
        finally:
            self._subscriber.close()

    def _begin(self) -> None:
        """Join the bus, or give up what is open and read again from what is committed."""
        self._batches.clear()
        self._forget()
        if self._is_open:
            self._subscriber.rewind()
        else:
            self._subscriber.open()
        self._is_open = self._is_sound = True

    def _take(self, delivery: Delivery) -> None:
        batch = self._batches.setdefault(delivery.table, _Batch(self._tables[delivery.table]))
        if batch.since is None:
            batch.since = time.monotonic()
        batch.positions[delivery.stream] = delivery.offset + 1
        if delivery.offset < self._start(delivery):
            WRITER_DUPLICATES.labels(delivery.table).inc()
            return
        try:
            message, odd = read_delivery(batch.table, delivery)
        except RecordRejected as error:
            self._reject(delivery, error)
            return
        if not self._marks_of(batch.table).pass_new(message):
            WRITER_DUPLICATES.labels(delivery.table).inc()
            return
        if odd:
            self._reject(*odd)
        if delivery.table == EVENTS.name:
            message = self._without_known(message)
        WRITER_RECEIVED.labels(delivery.table).inc(len(message.rows))
        batch.pending.append((delivery, message))
        batch.pending_rows += len(message.rows)
        batch.rows += len(message.rows)
        if batch.pending_rows >= CHUNK_ROWS:
            self._convert(batch)

    def _without_known(self, message: Message) -> Message:
        """Leave out events that a collector read again from the start of a log."""
        new = self._known_events.pass_new(message.rows)
        WRITER_KNOWN_EVENTS.inc(len(message.rows) - len(new))
        return msgspec.structs.replace(message, rows=new)

    def _convert(self, batch: _Batch) -> None:
        """Turn pending messages into Arrow; a row that does not fit its columns is rejected and the others go on."""
        pending, batch.pending, batch.pending_rows = batch.pending, [], 0
        try:
            batch.chunks.append(arrow_of(batch.table, [message for _, message in pending]))
        except (pa.ArrowInvalid, OverflowError):
            for delivery, message in pending:
                try:
                    batch.chunks.append(arrow_of(batch.table, [message]))
                except (pa.ArrowInvalid, OverflowError):
                    self._convert_by_row(batch, delivery, message)

    def _convert_by_row(self, batch: _Batch, delivery: Delivery, message: Message) -> None:
        sound = tuple(row for row in message.rows if fits(batch.table, message, row))
        batch.rows -= len(message.rows) - len(sound)
        self._reject(*odd_of(batch.table, delivery))
        if sound:
            batch.chunks.append(arrow_of(batch.table, [msgspec.structs.replace(message, rows=sound)]))

    def _write(self, batch: _Batch) -> int:
        if batch.pending:
            self._convert(batch)
        name = batch.table.name
        if batch.rows:
            transactions = self._transactions(batch)
            with COMMIT_SECONDS.labels(name).time():
                if not self._lake.append(batch.table, pa.concat_tables(batch.chunks), transactions):
                    raise LakeConflict(f"{name}: another writer holds the same streams")
            self._starts.update({(name, each.app): each.version for each in transactions})
            WRITER_WRITTEN.labels(name).inc(batch.rows)
        if name == EVENTS.name:
            self._known_events.settle()
        if batch.positions:
            self._subscriber.commit(batch.positions)
        del self._batches[name]
        return batch.rows

    def _transactions(self, batch: _Batch) -> list[AppTransaction]:
        starts = {stream: self._starts[batch.table.name, stream] for stream in batch.positions}
        return [AppTransaction(stream, end, starts[stream]) for stream, end in batch.positions.items() if end > starts[stream]]

    def _start(self, delivery: Delivery) -> int:
        key = (delivery.table, delivery.stream)
        if key not in self._starts:
            self._starts[key] = self._lake.committed(self._tables[delivery.table], delivery.stream) or 0
        return self._starts[key]

    def _marks_of(self, table: Table) -> Marks:
        return self._marks.setdefault(table.name, Marks(self._lake, table))

    def _reject(self, delivery: Delivery, error: RecordRejected) -> None:
        self._rejects.put(delivery, error.reason, error.detail)
        WRITER_REJECTED.labels(error.reason).inc()
        _log.warning("message_rejected", reason=error.reason, detail=error.detail[:200], stream=delivery.stream, offset=delivery.offset)

    def _forget(self) -> None:
        self._starts.clear()
        for marks in self._marks.values():
            marks.forget()
        self._known_events.forget()

    def _is_due(self, batch: _Batch) -> bool:
        return batch.rows >= self._max_rows or self._age_s(batch) >= self._limit_s(batch)

    def _limit_s(self, batch: _Batch) -> float:
        return min(self._urgent_age_s, self._max_age_s) if batch.table.name in URGENT_TABLES else self._max_age_s

    def _age_s(self, batch: _Batch) -> float:
        return 0.0 if batch.since is None else time.monotonic() - batch.since

    def _wait_s(self) -> float:
        left = (self._limit_s(batch) - self._age_s(batch) for batch in self._batches.values())
        return max(0.0, min(self._poll_s, *left, self._poll_s))
