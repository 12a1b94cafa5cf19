"""Follow the kernel logs of nodes: `/dev/kmsg`, a file of its records, or a text file as `journalctl -k` or dmesg write it.

One source follows the logs of many nodes. A log file may have a companion `<name>.boot` with `{"boot_id": ..., "boot_at_ns": ...}`: it
dates the records, whose own clock starts at boot. For `/dev/kmsg` the running kernel is asked. A file that was replaced or cut is read
from its start; what was said before is not said twice. After a restart of the collector a log is read from its start again; the writer
knows what the lake has by boot and sequence number, or by stamp and text. Of what a file held before it was opened, only lines with a
date become events, and those behind all that the file before it held: without a companion lines of dmesg and kmsg have no date.
"""

from __future__ import annotations

import stat
import time
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import structlog

from ingest.clock import NS, Clock, SystemClock, ns_of
from ingest.kernel_log.node import SOURCE, Boot, KernelLogNode
from ingest.kernel_log.tail import Part, Tail
from ingest.metrics import KERNEL_LINES
from ingest.schema import Observed, SourceState
from ingest.source import Pace
from ingest.xid import Catalogue, catalogue_of

_AT_ONCE = 2**20  # bytes of all logs that one read takes: 0.2 s of CPU, while nothing else of the collector turns
_OF_ONE = 2**19
_REPEAT_STATE_NS = 3_600 * NS
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_COMPANION_MAX = 65_536
_FIRST_BOOT_NS = ns_of(datetime(2000, 1, 1, tzinfo=UTC))
_log = structlog.get_logger()


class _BootFile(msgspec.Struct):
    boot_id: str
    boot_at_ns: int


class _Log:
    def __init__(self, node: KernelLogNode, path: Path) -> None:
        self.node = node
        self.tail = Tail(path)
        self.said: tuple[str, int] | None = None
        self.undated = 0
        self.is_caught_up = False  # all that it held was read once


class KernelLogSource:
    """The kernel logs of the nodes in `paths` (node -> log)."""

    name = SOURCE
    pace = Pace.WALL

    def __init__(
        self,
        paths: Mapping[str, Path],
        *,
        interval_s: float = 0.2,
        clock: Clock | None = None,
        catalogue: Catalogue | Path | None = None,
    ) -> None:
        self.interval_s = interval_s
        self._clock = clock or SystemClock()
        known = catalogue_of(catalogue)
        self._logs = deque(_Log(KernelLogNode(node, catalogue=known), Path(path)) for node, path in paths.items())

    @property
    def unheard(self) -> list[str]:
        """Nodes whose log is still being read to its end for the first time."""
        return [log.node.node for log in self._logs if not log.is_caught_up]

    async def open(self) -> None:
        """Nothing to start: logs are opened when they are first read."""

    async def read(self, at_ns: int) -> list[Observed]:  # noqa: ARG002  # a line carries its own time
        """Say what the logs have said since the last read, up to `_AT_ONCE`; the next read goes on with those that had no turn."""
        said: list[Observed] = []
        left = _AT_ONCE
        for _ in range(len(self._logs)):
            if left <= 0:
                break
            log = self._logs[0]
            self._logs.rotate(-1)
            left -= self._read(log, said)
        return said

    async def close(self) -> None:
        """Let go of the logs."""
        for log in self._logs:
            log.tail.close()

    def _read(self, log: _Log, said: list[Observed]) -> int:
        """Add what one log says, its trouble included, which costs no other log anything; give how much of it was read."""
        now_ns = self._clock.now_ns()
        read, trouble = 0, _look(log.tail)
        try:
            while read < _OF_ONE and (part := log.tail.take(_OF_ONE - read)):
                read += part.size
                self._take(log, part, said, now_ns)
            if read == 0:
                log.node.known.settle()
        except OSError as error:
            trouble = error.strerror or str(error)
            log.tail.close()
        said += log.node.flush()
        log.is_caught_up = log.is_caught_up or read < _OF_ONE
        if log.undated and read < _OF_ONE:
            detail = f"{log.undated} incidents without a date from before its opening: a file {log.tail.path.name}.boot would date them"
            said += self._state(log, "gap", detail, now_ns)
            log.undated = 0
        if trouble:
            said += self._state(log, "unreachable", f"{log.tail.path.name}: {trouble}", now_ns)
        else:
            said += self._state(log, "ok", None, now_ns)
        return read

    def _take(self, log: _Log, part: Part, said: list[Observed], now_ns: int) -> None:
        if part.begins:
            log.node.begin_file(read_boot(log.tail.path, now_ns))
        undated = log.node.outcomes["undated"]
        for line in part.lines:
            try:
                said += log.node.feed(line.text, now_ns, is_old=line.is_old)
            except Exception as error:  # noqa: BLE001  # one line's bug must not cost the lines after it
                KERNEL_LINES.labels("failed").inc()
                _log.error("kernel_log_line_failed", node=log.node.node, line=line.text[:200], error=repr(error))
        log.undated += log.node.outcomes["undated"] - undated

    def _state(self, log: _Log, state: str, detail: str | None, now_ns: int) -> Iterator[SourceState]:
        if log.said is not None and log.said[0] == state and now_ns - log.said[1] < _REPEAT_STATE_NS:
            return
        log.said = (state, now_ns)
        yield SourceState(
            node=log.node.node,
            source=SOURCE,
            boot_id=log.node.boot.id,
            observed_at_ns=now_ns,
            received_at_ns=now_ns,
            state=state,
            detail=detail,
        )


def _look(tail: Tail) -> str | None:
    try:
        tail.look()
    except OSError as error:  # what is open is read on
        return error.strerror or str(error)
    except ValueError as error:  # no name of a file
        return str(error)
    return None


def read_boot(log: Path, now_ns: int) -> Boot:
    """Find which boot a log belongs to: its companion file, or for a device the running kernel; else unknown."""
    try:
        with Path(f"{log}.boot").open("rb") as companion:
            told = msgspec.json.decode(companion.read(_COMPANION_MAX), type=_BootFile)
    except (OSError, msgspec.MsgspecError):
        pass
    else:
        return Boot(id=told.boot_id, at_ns=told.boot_at_ns if _FIRST_BOOT_NS <= told.boot_at_ns <= now_ns + 86_400 * NS else None)
    try:
        if not stat.S_ISCHR(log.stat().st_mode):
            return Boot()
        # printk stamps by the monotonic clock, which stands still in suspend: so the offset is taken now, at attach.
        return Boot(id=_BOOT_ID.read_text(encoding="ascii").strip(), at_ns=now_ns - time.monotonic_ns())
    except OSError:
        return Boot()
