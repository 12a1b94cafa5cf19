"""What a collector says of itself and what came of it: metrics as numbers, beats as the kernel stamped them, rows that reached the bus."""

from __future__ import annotations

import itertools
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from ingest.errors import StreamsMoved
from ingest.kafka_admin import KafkaConnection
from ingest.kafka_bus import KafkaSubscriber
from ingest.messages import decode
from ingest.spool import Spool

_SO_TIMESTAMPNS = 35  # socket(7); unix(7) sockets carry it too
_SILENCE_S = 8.0


class Metrics(dict[str, float]):
    """One scrape: series as it is written -> value."""

    @classmethod
    def read(cls, page: str) -> Self:
        """Read a page."""
        lines = (line.rpartition(" ") for line in page.splitlines() if line[:1] != "#")
        return cls({series: float(value) for series, _, value in lines if series})

    def total(self, name: str) -> float:
        """Sum a metric over its labels."""
        return sum(value for series, value in self.items() if series.partition("{")[0] == name)

    @property
    def unaccounted(self) -> float:
        """Count records that were received and are neither emitted, rejected nor dropped."""
        booked = ("emitted", "rejected", "dropped")
        return self.total("forewarn_collector_samples_total") - sum(self.total(f"forewarn_collector_{way}_records_total") for way in booked)


class Beats:
    """The watchdog's socket of a service manager; `at_ns` are the true times at which beats were sent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.at_ns: list[int] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._socket.bind(str(path))
        self._thread = threading.Thread(target=self._listen, name="beats", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._socket.close()

    def gaps_s(self, since_ns: int) -> list[float]:
        """Tell the seconds between beats that came after `since_ns`."""
        at_ns = [at for at in self.at_ns if at >= since_ns]
        return [(later - earlier) / 1e9 for earlier, later in itertools.pairwise(at_ns)]

    def _listen(self) -> None:
        while True:
            try:
                told, more, _, _ = self._socket.recvmsg(256, socket.CMSG_SPACE(16))
            except OSError:
                return
            if not told and not more:
                return
            if told == b"WATCHDOG=1":
                seconds, ns = struct.unpack("@qq", more[0][2]) if more else divmod(time.time_ns(), 10**9)
                self.at_ns.append(seconds * 10**9 + ns)


@dataclass
class Arrived:
    """Messages and rows that reached the bus or wait in the spool."""

    rows: Counter[str] = field(default_factory=Counter)
    seqs: Counter[int] = field(default_factory=Counter)
    in_spool: int = 0

    def note(self, bodies: Iterable[bytes]) -> None:
        """Count messages."""
        for body in bodies:
            message = decode(body)
            self.rows[message.table] += len(message.rows)
            self.seqs[message.seq] += 1

    @property
    def holes(self) -> int:
        """Count numbers between the first and the last that no message has."""
        return max(self.seqs) - min(self.seqs) + 1 - len(self.seqs) if self.seqs else 0

    @property
    def doubles(self) -> int:
        """Count messages that came more than once."""
        return sum(count - 1 for count in self.seqs.values())


def read_all(settings: KafkaConnection, spool: Path) -> Arrived:
    """Read what an ended collector has left on the bus and in its spool."""
    arrived = Arrived()
    subscriber = KafkaSubscriber(settings)
    subscriber.open()
    heard_s = time.monotonic()
    while time.monotonic() < heard_s + _SILENCE_S:
        try:
            found = subscriber.poll(0.5)
        except StreamsMoved:
            subscriber.rewind()
            continue
        if found:
            arrived.note(delivery.body for delivery in found)
            heard_s = time.monotonic()
    subscriber.close()
    left = Spool(spool)
    while taken := left.take(1000):
        arrived.in_spool += len(taken)
        arrived.note(message.body for message in taken)
    left.close()
    return arrived
