"""Append-only files of checked frames, read once in order: what the spool's queues lie in.

    directory of a lane    000000000001.seg, 000000000002.seg, ...; numbers only grow and are never used again
    segment                magic (8 bytes), origin (26 bytes), frames
    frame                  length (u32), CRC-32 (u32) of the payload, payload (MessagePack array of a `Frame`)

A process appends only to segments that it made itself, so a torn end is never written over: a reader that meets one goes on with the next
segment. A frame is in the operating system's hands when `append` returns (it survives the end of the process) and on the disk after
`sync` (it survives the end of the machine).
"""

from __future__ import annotations

import os
import struct
import zlib
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog

from ingest.metrics import SPOOL_TORN

_MAGIC = b"FWSPOOL1"
_ORIGIN_BYTES = 26
_START = len(_MAGIC) + _ORIGIN_BYTES
_HEADER = struct.Struct("<II")
_log = structlog.get_logger()


class Position(NamedTuple):
    """A place between two frames: segment number and byte offset."""

    segment: int
    offset: int


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """One message as it lies on disk: what the queue needs to know about it, and its compressed body."""

    seq: int
    put_at_ns: int
    table: str
    node: str
    rows: int
    body: bytes


class Read(NamedTuple):
    """A frame, the origin of its segment, and the place right after it."""

    frame: Frame
    origin: str
    end: Position


@dataclass
class _Segment:
    number: int
    path: Path
    size: int


class SegmentQueue:
    """A first-in-first-out queue of frames in one directory; not thread-safe."""

    def __init__(self, directory: Path, *, origin: str, released: Position, segment_bytes: int) -> None:
        self._directory = directory
        self._origin = origin
        self._segment_bytes = segment_bytes
        self._segments: deque[_Segment] = deque()
        self._write_fd: int | None = None
        self._read_fd: tuple[int, int, str] | None = None  # segment number, descriptor, origin
        directory.mkdir(parents=True, exist_ok=True)
        for path in sorted(directory.glob("*.seg")):
            self._adopt(_Segment(int(path.stem), path, path.stat().st_size), released)
        self._last_number = max(released.segment, self._segments[-1].number if self._segments else 0)
        self._released = released
        self._cursor = released

    @property
    def size_bytes(self) -> int:
        """Bytes on disk, what was read in unfinished segments included."""
        return sum(segment.size for segment in self._segments)

    @property
    def released(self) -> Position:
        """Everything before this place is done with."""
        return self._released

    def append(self, frame: Frame) -> None:
        """Write one frame at the end; an OSError leaves the queue as it was."""
        payload = msgspec.msgpack.encode(frame)
        data = _HEADER.pack(len(payload), zlib.crc32(payload)) + payload
        if self._write_fd is None or self._segments[-1].size >= self._segment_bytes:
            self._roll()
        assert self._write_fd is not None
        segment = self._segments[-1]
        try:
            _write_all(self._write_fd, data)
        except OSError:
            os.ftruncate(self._write_fd, segment.size)
            raise
        segment.size += len(data)

    def read(self) -> Read | None:
        """Give the next frame and move on; None at the end."""
        found = self._first_after(self._cursor)
        if found:
            self._cursor = found.end
        return found

    def oldest(self) -> Frame | None:
        """Show the first frame that is not released."""
        found = self._first_after(self._released)
        return found.frame if found else None

    def rewind(self) -> None:
        """Read again from the first frame that is not released."""
        self._cursor = self._released

    def release(self, end: Position) -> None:
        """Be done with all frames before `end`; segments that lie wholly before it are deleted."""
        self._released = max(self._released, end)
        self._cursor = max(self._cursor, self._released)
        while self._segments and self._is_spent(self._segments[0]):
            self._unlink(self._segments.popleft())

    def drop_newest(self) -> list[Frame]:
        """Delete the newest segment and say what was in it; nothing where a reader may already be in it."""
        if not self._segments or self._segments[-1].number <= self._cursor.segment:
            return []
        segment = self._segments[-1]
        frames, offset = [], _START
        while found := self._read_at(segment, offset):
            frames.append(found.frame)
            offset = found.end.offset
        self._close_writer()
        self._unlink(self._segments.pop())
        return frames

    def sync(self) -> None:
        """Bring what was appended to the disk."""
        if self._write_fd is not None:
            os.fdatasync(self._write_fd)

    def close(self) -> None:
        """Sync and close all files."""
        self._close_writer()
        self._close_reader()

    def _first_after(self, position: Position) -> Read | None:
        for segment in self._segments:
            if segment.number >= position.segment:
                offset = position.offset if segment.number == position.segment else _START
                found = self._read_at(segment, max(offset, _START))
                if found:
                    return found
        return None

    def _adopt(self, segment: _Segment, released: Position) -> None:
        if segment.number < released.segment:
            self._unlink(segment)
        else:
            self._segments.append(segment)

    def _roll(self) -> None:
        self._close_writer()
        number = self._last_number + 1
        path = self._directory / f"{number:012d}.seg"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o640)
        try:
            _write_all(descriptor, _MAGIC + self._origin.encode("ascii").ljust(_ORIGIN_BYTES))
            _sync_directory(self._directory)
        except OSError:
            os.close(descriptor)
            path.unlink()
            raise
        self._last_number = number
        self._write_fd = descriptor
        self._segments.append(_Segment(number, path, _START))

    def _read_at(self, segment: _Segment, offset: int) -> Read | None:
        if offset >= segment.size:
            return None
        descriptor, origin = self._reader(segment)
        payload = _payload_at(descriptor, offset)
        if payload is None or origin is None:
            SPOOL_TORN.inc()
            _log.warning("spool_segment_torn", path=str(segment.path), offset=offset, lost_bytes=segment.size - offset)
            segment.size = offset  # the rest cannot be read: it ends here
            return None
        end = Position(segment.number, offset + _HEADER.size + len(payload))
        return Read(msgspec.msgpack.decode(payload, type=Frame), origin, end)

    def _reader(self, segment: _Segment) -> tuple[int, str | None]:
        if self._read_fd is None or self._read_fd[0] != segment.number:
            self._close_reader()
            descriptor = os.open(segment.path, os.O_RDONLY)
            head = os.pread(descriptor, _START, 0)
            origin = head[len(_MAGIC) :].decode("ascii", "replace").strip() if head.startswith(_MAGIC) else ""
            self._read_fd = (segment.number, descriptor, origin)
        return self._read_fd[1], self._read_fd[2] or None

    def _is_spent(self, segment: _Segment) -> bool:
        is_written = self._write_fd is not None and segment is self._segments[-1]
        if is_written and segment.size < self._segment_bytes:
            return False
        return segment.number < self._released.segment or self._released >= (segment.number, segment.size)

    def _unlink(self, segment: _Segment) -> None:
        if self._read_fd and self._read_fd[0] == segment.number:
            self._close_reader()
        if not self._segments and self._write_fd is not None:
            self._close_writer()
        with suppress(FileNotFoundError):
            segment.path.unlink()

    def _close_writer(self) -> None:
        if self._write_fd is not None:
            descriptor, self._write_fd = self._write_fd, None
            try:
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)

    def _close_reader(self) -> None:
        if self._read_fd is not None:
            os.close(self._read_fd[1])
            self._read_fd = None


def _payload_at(descriptor: int, offset: int) -> bytes | None:
    header = os.pread(descriptor, _HEADER.size, offset)
    if len(header) < _HEADER.size:
        return None
    length, checksum = _HEADER.unpack(header)
    payload = os.pread(descriptor, length, offset + _HEADER.size)
    return payload if len(payload) == length and zlib.crc32(payload) == checksum else None


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
