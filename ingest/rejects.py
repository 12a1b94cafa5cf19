"""Messages that could not become rows: kept as they came with their reason; `ingest.replays` puts them back on their way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import structlog

from ingest.bus import Delivery

_log = structlog.get_logger()


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """A rejected message: why, where it came from, and its body as it came."""

    reason: str
    detail: str
    stream: str
    offset: int
    table: str
    body: bytes


class FileRejects:
    """Keep rejected messages as JSON lines, the newest `most_bytes` to twice that of each table."""

    def __init__(self, directory: str | Path, *, most_bytes: int = 64 << 20) -> None:
        self._directory = Path(directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._most_bytes = most_bytes

    def put(self, delivery: Delivery, reason: str, detail: str) -> None:
        """Append one line and bring it to the disk."""
        path = self._directory / f"{delivery.table}.jsonl"
        with path.open("ab") as file:
            if _is_torn(path):
                file.write(b"\n")
            file.write(encode_rejected(delivery, reason, detail) + b"\n")
            file.flush()
            os.fsync(file.fileno())
            is_full = file.tell() >= self._most_bytes
        if is_full:
            path.replace(path.with_suffix(".1.jsonl"))
            _log.warning("older_rejected_messages_forgotten", table=delivery.table)

    def read(self) -> Iterator[Rejected]:
        """Give everything that is kept; a line that was torn, by a kill or a full disk, is none."""
        for path in sorted(self._directory.glob("*.jsonl")):
            for line in path.read_bytes().splitlines(keepends=True):
                with suppress(msgspec.DecodeError):
                    if line.endswith(b"\n"):
                        yield msgspec.json.decode(line, type=Rejected)


def _is_torn(path: Path) -> bool:
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        return file.read(1) not in (b"", b"\n")


def encode_rejected(delivery: Delivery, reason: str, detail: str) -> bytes:
    """Write a rejected message as JSON; its body as base64, since it may be anything."""
    return msgspec.json.encode(
        Rejected(reason=reason, detail=detail, stream=delivery.stream, offset=delivery.offset, table=delivery.table, body=delivery.body)
    )
