"""Put rejected messages back on their way once their reason is gone, each exactly once however often that is asked for.

A replayed message is sent under an origin of its own, made from where it was found: the writer knows it by that as it knows what a
collector sends twice, so that a replay that was interrupted, or run again, adds nothing that is already in the lake. Rejected messages stay
where they are kept.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from ulid import ULID

from ingest.bus import Delivery, Publisher, Rejects
from ingest.deliveries import check_delivery
from ingest.errors import BusUnavailable, RecordRejected
from ingest.lake import Lake
from ingest.messages import Message, encode
from ingest.rejects import Rejected
from ingest.spool import EVENTS, Spooled
from ingest.writer import Writer


@dataclass(kw_only=True)
class Selection:
    """Rejected messages as of now: those that can be read, ready to be sent again, and how many cannot, by table and reason."""

    readable: list[Message] = field(default_factory=list)
    unreadable: Counter[tuple[str, str]] = field(default_factory=Counter)


def distinct(kept: Iterable[Rejected], *, reasons: Collection[str] = (), tables: Collection[str] = ()) -> list[Rejected]:
    """Choose by reason and table, all where none is named; a message that is kept twice counts once."""
    found = {
        (message.stream, message.offset): message
        for message in kept
        if (not reasons or message.reason in reasons) and (not tables or message.table in tables)
    }
    return list(found.values())


def select(kept: Iterable[Rejected]) -> Selection:
    """Try to read rejected messages with this version."""
    selection = Selection()
    for message in kept:
        try:
            selection.readable.append(_again(message))
        except RecordRejected as error:
            selection.unreadable[message.table, error.reason] += 1
    return selection


def publish(messages: Sequence[Message], publisher: Publisher) -> int:
    """Send messages to the bus and say how many it has; raises BusUnavailable where it took only a part: ask again."""
    spooled = [
        Spooled(EVENTS, message.origin, message.seq, message.table, message.node, len(message.rows), encode(message))
        for message in messages
    ]
    refusals = publisher.publish(spooled) if spooled else []
    if refusals:
        raise BusUnavailable(f"{len(refusals)} of {len(spooled)} messages were refused ({refusals[0].reason}); a further replay sends them")
    return len(spooled)


def write(messages: Sequence[Message], lake: Lake, rejects: Rejects) -> int:
    """Write messages into the lake of a site without a broker, also while its writer runs; says how many rows were new."""
    stream = f"replay/{ULID()}"
    bus = _Given([Delivery(stream, number, message.table, encode(message)) for number, message in enumerate(messages)])
    writer = Writer(bus, lake, rejects, urgent_age_s=60.0)
    return writer.run_once() + writer.flush()


def _again(kept: Rejected) -> Message:
    """Read a rejected message anew; raises RecordRejected where its reason is still there."""
    message = check_delivery(kept.body)
    place = hashlib.sha256(f"{kept.stream}\n{kept.offset}".encode()).hexdigest()
    return msgspec.structs.replace(message, origin=f"replay-{place[:24]}", seq=0)


class _Given:
    """A subscriber that gives what it was given, once."""

    def __init__(self, deliveries: list[Delivery]) -> None:
        self._deliveries = deliveries

    def open(self) -> None:
        """Nothing to join."""

    def poll(self, timeout_s: float) -> list[Delivery]:  # noqa: ARG002  # nothing more will come
        """Give everything at the first call."""
        given, self._deliveries = self._deliveries, []
        return given

    def commit(self, positions: Mapping[str, int]) -> None:
        """Nothing to remember: the lake knows the origins."""

    def rewind(self) -> None:
        """Nothing comes again."""

    def close(self) -> None:
        """Nothing to leave."""
