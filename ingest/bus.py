"""What a bus promises, and the bus for one machine, which is the spool itself; the Kafka one is `ingest.kafka_bus`.

A publisher takes messages out of a spool and answers for them. A subscriber gives deliveries in streams: within a stream offsets only grow
and the order of a node is kept; what was not committed comes again after a restart or `rewind`. A stream's name never comes again for
other messages, so that the lake can remember under that name up to which offset it has everything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from ingest.spool import Spool, Spooled


class Delivery(NamedTuple):
    """One message as it came: its place in its stream, its table and its body."""

    stream: str
    offset: int
    table: str
    body: bytes


class Refusal(NamedTuple):
    """A message that the bus did not take, why (a constant, used as a metric label), and whether it never will."""

    message: Spooled
    reason: str
    is_final: bool


class Publisher(Protocol):
    """Where a collector's messages go."""

    def publish(self, messages: Sequence[Spooled]) -> list[Refusal]:
        """Block until every message is acknowledged or known not to be there.

        Raises BusUnavailable where all must come again in the same order. A refusal that is not final stands for a message that was passed
        by a later one of its node: it must come again as a new message, since its number would look old.
        """

    def close(self) -> None:
        """Give up connections; nothing is waited for."""


class Subscriber(Protocol):
    """Where a writer's messages come from; used from one thread."""

    def open(self) -> None:
        """Join the readers of the bus and start at the oldest message that is not committed."""

    def poll(self, timeout_s: float) -> list[Delivery]:
        """Give what has come, waiting for at most `timeout_s` of wall time.

        Raises StreamsMoved when streams came or went: what is open must be given up, and the reader rewinds before it polls on.
        """

    def commit(self, positions: Mapping[str, int]) -> None:
        """Be done with everything below the given offset of each stream."""

    def rewind(self) -> None:
        """Give again everything that is not committed."""

    def close(self) -> None:
        """Leave without committing."""


class Rejects(Protocol):
    """Where messages go that cannot become rows."""

    def put(self, delivery: Delivery, reason: str, detail: str) -> None:
        """Keep the message as it came with its reason; may keep it twice after a crash, never lose it."""


class DirectBus:
    """The subscriber that reads the spool of this very process: no broker, the same promises; one stream per origin and table."""

    def __init__(self, spool: Spool, *, max_messages: int = 2000) -> None:
        self._spool = spool
        self._max_messages = max_messages
        self._open: dict[str, deque[Spooled]] = {}  # per lane, oldest first, without bodies
        self._done: dict[str, int] = {}

    def open(self) -> None:
        """Start at the oldest message that is not committed."""
        self.rewind()

    def poll(self, timeout_s: float) -> list[Delivery]:
        """Give what the spool holds, events first."""
        self._spool.wait(timeout_s)
        deliveries = []
        for message in self._spool.take(self._max_messages):
            self._open.setdefault(message.lane, deque()).append(message._replace(body=b""))
            deliveries.append(Delivery(_stream(message), message.seq, message.table, message.body))
        return deliveries

    def commit(self, positions: Mapping[str, int]) -> None:
        """Release of each lane the part up to its first message that is not committed."""
        self._done.update(positions)
        for taken in self._open.values():
            last = None
            while taken and taken[0].seq < self._done.get(_stream(taken[0]), 0):
                last = taken.popleft()
            if last:
                self._spool.release(last)

    def rewind(self) -> None:
        """Give again everything that is not committed."""
        self._open.clear()
        self._spool.rewind()

    def close(self) -> None:
        """Leave the spool open: it belongs to the collector."""


def _stream(message: Spooled) -> str:
    return f"spool/{message.origin}/{message.table}"
