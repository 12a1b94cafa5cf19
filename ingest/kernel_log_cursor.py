"""Where each kernel log was read to, kept over a restart of the collector, so that old events are not said again.

What a read gave is only written down at the next read: by then it is in the spool. A collector killed in between says a few events twice;
their boot and sequence number tell.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import structlog

_log = structlog.get_logger(__name__)


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """A place in one log: by sequence number within a boot, and by position in a file known by its beginning."""

    boot_id: str | None
    seq: int | None
    offset: int
    head: bytes
    gpu_at: dict[str, str]


class Cursors:
    """The cursors of a process's logs in one file; without a file nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._cursors = self._load()
        self._written = dict(self._cursors)

    def get(self, node: str) -> Cursor | None:
        """Find the place of a node's log."""
        return self._cursors.get(node)

    def put(self, node: str, cursor: Cursor) -> None:
        """Note the place of a node's log; `save` writes it."""
        self._cursors[node] = cursor

    def save(self) -> None:
        """Write what was noted, if anything has changed; raises OSError."""
        if self._path is None or self._cursors == self._written:
            return
        fresh = self._path.with_name(f"{self._path.name}.new")
        fresh.write_bytes(msgspec.json.encode(self._cursors))
        fresh.replace(self._path)
        self._written = dict(self._cursors)

    def _load(self) -> dict[str, Cursor]:
        if self._path is None or not self._path.exists():
            return {}
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, Cursor])
        except (OSError, msgspec.DecodeError) as error:
            _log.warning("kernel_log_cursors_unreadable", path=str(self._path), error=str(error))
            return {}
