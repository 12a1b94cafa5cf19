"""The few numbers that a spool must not forget, in one file of fixed size that is written in place.

Two slots are written in turn, each with a generation and a checksum: a torn write leaves the other slot, and a full disk stops nothing,
because the file never grows. Losing both slots gives a new origin, so that new rows never look like old ones.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import msgspec
from ulid import ULID

from ingest.segments import Position

_SLOT = 512
_HEADER = struct.Struct("<II")


class State(msgspec.Struct, kw_only=True):
    """Identity, numbering and read positions of a spool."""

    generation: int = 0
    origin: str
    ceiling: int = 0  # every sequence number below it may have been used
    released: dict[str, Position] = msgspec.field(default_factory=dict)


class StateFile:
    """Load and save a `State`; `state` is the live one."""

    def __init__(self, path: Path) -> None:
        existing = path.read_bytes() if path.exists() else b""
        slots = [_decode(existing[start : start + _SLOT]) for start in (0, _SLOT)]
        valid = [slot for slot in slots if slot is not None]
        self.is_new = not valid
        self.state = max(valid, key=lambda slot: slot.generation) if valid else State(origin=str(ULID()))
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
        if len(existing) < 2 * _SLOT:
            os.pwrite(self._descriptor, bytes(2 * _SLOT), 0)

    def save(self, *, sync: bool) -> None:
        """Write the state into the older slot; with `sync` it outlives the machine, without it the process."""
        self.state.generation += 1
        payload = msgspec.json.encode(self.state)
        slot = (_HEADER.pack(len(payload), zlib.crc32(payload)) + payload).ljust(_SLOT, b"\0")
        assert len(slot) == _SLOT, "BUG: the state of a spool has outgrown its slot"
        os.pwrite(self._descriptor, slot, (self.state.generation % 2) * _SLOT)
        if sync:
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Save to the disk and close."""
        self.save(sync=True)
        os.close(self._descriptor)


def _decode(slot: bytes) -> State | None:
    if len(slot) < _HEADER.size:
        return None
    length, checksum = _HEADER.unpack_from(slot)
    payload = slot[_HEADER.size : _HEADER.size + length]
    if not payload or zlib.crc32(payload) != checksum:
        return None
    return msgspec.json.decode(payload, type=State)
