"""A bounded queue on disk between the poll loop and the bus: what it took survives the end of the process, and events are never dropped.

Two lanes, each first in first out: tables of things that happened go before tables of gauges. At the bound the newest gauges go first: an
incoming gauge is refused, an incoming event pushes the newest gauges out. A disk without space is the same case; there the reserve file
gives its room to events, and when that is used up too `put` raises SpoolFull. What is dropped is counted with its reason.

A message's number (`seq`) only grows within its origin, the identity that the spool got when it was made, also over crashes: numbers are
taken from blocks that are on the disk before the first of them is used. A reader takes messages, and releases them when their receiver
has answered for them; after a crash or `rewind` the same messages come again under the same numbers. Messages are synced to the disk at
least once per `sync_interval_s`, so that a machine that stops at once loses at most that much.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import structlog
import zstandard

from ingest.clock import NS
from ingest.errors import ConfigError, SpoolFull
from ingest.messages import VERSION, Message, encode
from ingest.metrics import SPOOL_BYTES, SPOOL_DROPPED, SPOOL_OLDEST_AGE
from ingest.segments import Frame, Position, SegmentQueue
from ingest.spool_state import StateFile
from ingest.tables import Record

EVENTS, GAUGES = "events", "gauges"
GAUGE_TABLES = frozenset({"gpu_samples", "link_samples", "chassis_readings", "other_readings", "job_progress"})
_SEQ_BLOCK = 4096
_log = structlog.get_logger()


class Spooled(NamedTuple):
    """A message taken from the spool: its place in its lane, its routing and its body as JSON."""

    lane: str
    origin: str
    seq: int
    table: str
    node: str
    rows: int
    body: bytes


class _Taken(NamedTuple):
    origin: str
    seq: int
    end: Position


class Spool:
    """One directory, one process, any number of its threads."""

    def __init__(
        self,
        directory: str | Path,
        *,
        max_bytes: int = 1 << 30,
        segment_bytes: int = 16 << 20,
        reserve_bytes: int = 1 << 20,
        sync_interval_s: float = 1.0,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._directory = Path(directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._lock_file = _lock(self._directory / "lock")
        self._max_bytes = max_bytes
        self._reserve_bytes = reserve_bytes
        self._sync_interval_s = sync_interval_s
        self._wall_ns = wall_ns
        self._state_file = StateFile(self._directory / "state")
        self._state = self._state_file.state
        self.origin = self._state.origin
        self._next_seq = self._state.ceiling
        self._lanes = {
            name: SegmentQueue(
                self._directory / name,
                origin=self.origin,
                released=self._state.released.get(name, Position(0, 0)),
                segment_bytes=min(segment_bytes, max(4096, max_bytes // 8)),
            )
            for name in (EVENTS, GAUGES)
        }
        self._taken: dict[str, deque[_Taken]] = {EVENTS: deque(), GAUGES: deque()}
        self._changed = threading.Condition()
        self._puts = 0
        self._puts_seen = -1
        self._synced_at = time.monotonic()
        self._compress = zstandard.ZstdCompressor(level=1).compress
        self._decompress = zstandard.ZstdDecompressor().decompress
        self._has_reserve = False
        self._fill_reserve()

    def put(self, table: str, node: str, rows: Sequence[Record]) -> bool:
        """Queue rows of one table and node as one message; False where the bound or the disk refuses these gauges.

        Raises SpoolFull when not even an event finds room on the disk: the caller still holds it.
        """
        with self._changed:
            seq = self._take_seq()
            body = encode(Message(v=VERSION, table=table, node=node, origin=self.origin, seq=seq, rows=tuple(rows)))
            frame = Frame(seq, self._wall_ns(), table, node, len(rows), self._compress(body))
            is_kept = self._put_gauges(frame) if table in GAUGE_TABLES else self._put_event(frame)
            self._puts += 1
            self._changed.notify_all()
            self._sync_if_due()
            return is_kept

    def take(self, limit: int, max_bytes: int = 4 << 20) -> list[Spooled]:
        """Give up to `limit` messages that were not taken before, events first; at least one where there is one."""
        taken: list[Spooled] = []
        size = 0
        with self._changed:
            self._puts_seen = self._puts
            for name, lane in self._lanes.items():
                while len(taken) < limit and size < max_bytes and (found := lane.read()):
                    frame = found.frame
                    body = self._decompress(frame.body)
                    size += len(body)
                    taken.append(Spooled(name, found.origin, frame.seq, frame.table, frame.node, frame.rows, body))
                    self._taken[name].append(_Taken(found.origin, frame.seq, found.end))
            if len(taken) == limit or size >= max_bytes:
                self._puts_seen = -1  # there may be more: do not wait
        return taken

    def wait(self, timeout_s: float) -> bool:
        """Block until something was put after the last `take`, at most `timeout_s` of wall time; say whether there was."""
        with self._changed:
            return self._changed.wait_for(lambda: self._puts != self._puts_seen, timeout_s)

    def release(self, message: Spooled) -> None:
        """Forget what was taken of the message's lane, up to and including it; nothing where it is forgotten already."""
        with self._changed:
            taken = self._taken[message.lane]
            if not any(item.seq == message.seq and item.origin == message.origin for item in taken):
                return
            item = taken.popleft()
            while (item.origin, item.seq) != (message.origin, message.seq):
                item = taken.popleft()
            self._lanes[message.lane].release(item.end)
            self._state.released[message.lane] = item.end
            self._state_file.save(sync=False)

    def rewind(self) -> None:
        """Give out again, from the oldest on, what was taken and not released."""
        with self._changed:
            self._puts_seen = -1
            for name, lane in self._lanes.items():
                self._taken[name].clear()
                lane.rewind()

    def measure(self) -> None:
        """Set the gauges of the spool as of now."""
        with self._changed:
            SPOOL_BYTES.set(self.size_bytes)
            oldest = [frame.put_at_ns for lane in self._lanes.values() if (frame := lane.oldest())]
            SPOOL_OLDEST_AGE.set((self._wall_ns() - min(oldest)) / NS if oldest else 0)

    @property
    def size_bytes(self) -> int:
        """Bytes that the queued messages take on disk."""
        return sum(lane.size_bytes for lane in self._lanes.values())

    def close(self) -> None:
        """Sync everything and give the directory free."""
        with self._changed:
            for lane in self._lanes.values():
                lane.close()
            self._state.ceiling = self._next_seq
            self._state_file.close()
            os.close(self._lock_file)

    def _put_gauges(self, frame: Frame) -> bool:
        if self.size_bytes + len(frame.body) > self._max_bytes:
            return _drop([frame], "full")
        try:
            self._lanes[GAUGES].append(frame)
        except OSError as error:
            _log.warning("spool_write_failed", lane=GAUGES, error=str(error))
            return _drop([frame], "disk_full")
        return True

    def _put_event(self, frame: Frame) -> bool:
        while self.size_bytes + len(frame.body) > self._max_bytes and (frames := self._lanes[GAUGES].drop_newest()):
            _drop(frames, "full")
        while True:
            try:
                self._lanes[EVENTS].append(frame)
            except OSError as error:
                if not self._make_room_on_disk():
                    raise SpoolFull(f"{self._directory}: {error}; make room on that disk") from error
            else:
                return True

    def _make_room_on_disk(self) -> bool:
        frames = self._lanes[GAUGES].drop_newest()
        if frames:
            _drop(frames, "disk_full")
            return True
        if self._has_reserve:
            (self._directory / "reserve").unlink()
            self._has_reserve = False
            _log.warning("spool_reserve_used", directory=str(self._directory))
            return True
        return False

    def _fill_reserve(self) -> None:
        """Keep some room on the disk for events; a disk without it is asked again at every sync."""
        path = self._directory / "reserve"
        try:
            with path.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, self._reserve_bytes)
            self._has_reserve = True
        except OSError:
            path.unlink(missing_ok=True)
            self._has_reserve = False

    def _take_seq(self) -> int:
        if self._next_seq >= self._state.ceiling:
            self._state.ceiling = self._next_seq + _SEQ_BLOCK
            try:
                self._state_file.save(sync=True)
            except OSError as error:
                self._state.ceiling = self._next_seq
                raise SpoolFull(f"{self._directory}: {error}; make room on that disk") from error
        self._next_seq += 1
        return self._next_seq - 1

    def _sync_if_due(self) -> None:
        if time.monotonic() - self._synced_at >= self._sync_interval_s:
            self._synced_at = time.monotonic()
            try:
                for lane in self._lanes.values():
                    lane.sync()
            except OSError as error:  # what was put is kept; it is not safe from a loss of power until a sync succeeds
                _log.error("spool_sync_failed", directory=str(self._directory), error=str(error))
            if not self._has_reserve:
                self._fill_reserve()


def _drop(frames: Sequence[Frame], reason: str) -> bool:
    SPOOL_DROPPED.labels(reason).inc(sum(frame.rows for frame in frames))
    return False


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise ConfigError(f"{path.parent}: another process uses this spool; give each its own directory") from error
    return descriptor
