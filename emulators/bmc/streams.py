"""The open event streams of a BMC, their subscriptions and the ring from which missed events are sent again.

Metric reports are never in the ring: telemetry is not replayed. A reader that does not read loses events and delays nobody.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections import deque
from dataclasses import dataclass, field

from emulators.bmc.framing import frame
from emulators.bmc.messages import Body
from emulators.bmc.profile import Profile
from emulators.bmc.tree import Subscription, Tree

QUEUE = 64


@dataclass
class Reader:
    """One open stream; None in its queue ends it."""

    subscription: Subscription
    wants: frozenset[str]  # kinds of payload
    queue: asyncio.Queue[bytes | None] = field(default_factory=lambda: asyncio.Queue(QUEUE))

    def send(self, raw: bytes | None) -> None:
        """Queue a frame; a full queue loses its oldest one."""
        if self.queue.full():
            self.queue.get_nowait()
        self.queue.put_nowait(raw)


class Streams:
    """All streams of one BMC."""

    def __init__(self, profile: Profile, tree: Tree) -> None:
        self._profile = profile
        self._tree = tree
        self._numbers = itertools.count(1)
        self._ring: deque[tuple[int, Body]] = deque(maxlen=profile.replay.ring)
        self.readers: dict[str, Reader] = {}

    def open(self, wants: frozenset[str], last_id: str) -> Reader:
        """Open a stream with a subscription of its own, and send what the client has missed."""
        number = secrets.token_hex(4)
        wanted_format = "MetricReport" if wants == {"MetricReport"} else "Event"
        subscription = Subscription(number, secrets.token_hex(8), format=wanted_format)
        reader = Reader(subscription, wants)
        self._tree.subscriptions[number] = subscription
        self.readers[number] = reader
        for raw in self._missed(last_id):
            reader.send(raw)
        return reader

    def close(self, number: str) -> None:
        """Remove a subscription and end its stream."""
        self._tree.subscriptions.pop(number, None)
        reader = self.readers.pop(number, None)
        if reader is not None:
            reader.send(None)

    def close_all(self) -> None:
        """End every stream and forget what was sent, as a reboot does."""
        for number in list(self._tree.subscriptions):
            self.close(number)
        self._ring.clear()

    def send_event(self, record: Body) -> int:
        """Send an event to whoever wants events; returns its number."""
        number = next(self._numbers)
        body: Body = {"@odata.type": "#Event.v1_11_0.Event", "Id": str(number), "Name": "Event Log", "Events": [record]}
        self._ring.append((number, body))
        self._send(body, number, "Event")
        return number

    def send_report(self, body: Body) -> None:
        """Send a metric report, where this BMC streams any: bmcweb does only while somebody holds a push subscription."""
        if self._profile.streams_reports or any(s.destination and s.format == "MetricReport" for s in self._tree.subscriptions.values()):
            self._send(body, next(self._numbers), "MetricReport")

    def _send(self, body: Body, number: int, kind: str) -> None:
        if not self.readers:
            return
        raw = frame(body, number, self._profile.framing)
        for reader in self.readers.values():
            if kind in reader.wants:
                reader.send(raw)

    def _missed(self, last_id: str) -> list[bytes]:
        if not last_id:
            return []
        replay, framing = self._profile.replay, self._profile.framing
        known = last_id.isdigit() and any(number == int(last_id) for number, _ in self._ring)
        after = int(last_id) if last_id.isdigit() else 0
        missed = [(number, body) for number, body in self._ring if number > after]
        if known or replay.on_unknown == "nothing":
            return [frame(_replayed(body, as_record=replay.as_record), number, framing) for number, body in missed]
        if replay.on_unknown == "ring":
            return [frame(body, number, framing) for number, body in self._ring]
        exceeded: Body = {"MessageId": "OpenBMC.0.5.EventBufferExceeded", "EventId": str(after), "Message": "Event buffer exceeded"}
        return [frame(exceeded, after, framing)]


def _replayed(body: Body, *, as_record: bool) -> Body:
    records = body["Events"]
    return records[0] if as_record and isinstance(records, list) else body
