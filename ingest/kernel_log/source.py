"""Follow the kernel logs of nodes: `/dev/kmsg`, a file of its records, or a text file as `journalctl -k` or dmesg write it.

One source follows the logs of many nodes. A log file may have a companion `<name>.boot` with `{"boot_id": ..., "boot_at_ns": ...}`: it
dates the records, whose own clock starts at boot. For `/dev/kmsg` the running kernel is asked. A file that was replaced or cut is read
from its start; what was said before is known by sequence number or stamp and is not said twice. After a restart of the
collector a log is read from its start again; the writer knows what the lake has by boot and sequence number, or by stamp and text.
Of what a log held before it was opened, only lines with a date become events: without a companion those of dmesg and kmsg have none.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from ingest.clock import NS, Clock, SystemClock
from ingest.kernel_log.node import SOURCE, Boot, KernelLogNode
from ingest.metrics import KERNEL_OVERRUNS
from ingest.schema import Observed, SourceState
from ingest.source import Pace
from ingest.xid import Catalogue

_AT_ONCE = 4 * 2**20
_RECORD = 8_192  # CONSOLE_EXT_LOG_MAX: one read of /dev/kmsg gives one record
_REPEAT_STATE_NS = 3_600 * NS
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class _BootFile(msgspec.Struct):
    boot_id: str
    boot_at_ns: int


class _Tail:
    """The end of one log, device or file; knows where it has read to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None
        self._inode: int | None = None
        self._is_device = False
        self._offset = 0
        self._rest = b""

    @property
    def is_closed(self) -> bool:
        """Tell whether the log is not being followed, so that what it holds may be of any age."""
        return self._fd is None

    def has_new_file(self) -> bool:
        """Tell whether the log must be opened (again): not open yet, replaced, or cut; raises OSError when it is not there."""
        now = self.path.stat()
        is_same = self._fd is not None and now.st_ino == self._inode and (self._is_device or now.st_size >= self._offset)
        return not is_same

    def open(self) -> None:
        """Open the log at its start."""
        self.close()
        self._fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        now = os.fstat(self._fd)
        self._inode, self._is_device = now.st_ino, stat.S_ISCHR(now.st_mode)
        self._offset, self._rest = 0, b""

    def lines(self) -> Iterator[str]:
        """Give the lines that have come since the last call."""
        if self._fd is None:
            return
        if self._is_device:
            yield from self._records(self._fd)
            return
        while chunk := os.read(self._fd, _AT_ONCE):
            self._offset += len(chunk)
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            for line in whole:
                yield line.decode(errors="replace")

    def close(self) -> None:
        """Let go of the log."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _records(self, fd: int) -> Iterator[str]:
        while True:
            try:
                record = os.read(fd, _RECORD)
            except BlockingIOError:
                return
            except BrokenPipeError:  # EPIPE: the ring overwrote what was next
                KERNEL_OVERRUNS.inc()
                continue
            if not record:
                return
            yield record.split(b"\n", 1)[0].decode(errors="replace")  # continuation lines are key=value pairs


class _Log:
    def __init__(self, node: KernelLogNode, path: Path) -> None:
        self.node = node
        self.tail = _Tail(path)
        self.said: tuple[str, int] | None = None


class KernelLogSource:
    """The kernel logs of the nodes in `paths` (node -> log)."""

    name = SOURCE
    pace = Pace.WALL
    unheard = ()

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
        self._logs = [_Log(KernelLogNode(node, catalogue=catalogue), Path(path)) for node, path in paths.items()]

    async def open(self) -> None:
        """Nothing to start: logs are opened when they are first read."""

    async def read(self, at_ns: int) -> list[Observed]:  # noqa: ARG002  # a line carries its own time
        """Say what the logs have said since the last read."""
        return [record for log in self._logs for record in self._read(log)]

    async def close(self) -> None:
        """Let go of the logs."""
        for log in self._logs:
            log.tail.close()

    def _read(self, log: _Log) -> Iterator[Observed]:
        now_ns = self._clock.now_ns()
        try:
            if log.tail.has_new_file():
                self._open(log, now_ns)
            undated = log.node.outcomes["undated"]
            for line in log.tail.lines():
                yield from log.node.feed(line, now_ns)
            log.node.is_catching_up = False
            yield from log.node.flush()
            if undated := log.node.outcomes["undated"] - undated:
                detail = f"{undated} incidents without a date from before the start: a file {log.tail.path.name}.boot would date them"
                yield from self._state(log, "gap", detail, now_ns)
        except OSError as error:
            log.tail.close()
            yield from self._state(log, "unreachable", f"{log.tail.path.name}: {error.strerror}", now_ns)
        else:
            yield from self._state(log, "ok", None, now_ns)

    def _open(self, log: _Log, now_ns: int) -> None:
        log.node.is_catching_up = log.tail.is_closed
        log.tail.open()
        boot = read_boot(log.tail.path, now_ns)
        if boot.id is None or boot.id != log.node.boot.id:
            log.node.rebooted(boot)

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


def read_boot(log: Path, now_ns: int) -> Boot:
    """Find which boot a log belongs to: its companion file, or for a device the running kernel; else unknown."""
    companion = log.with_name(f"{log.name}.boot")
    try:
        told = msgspec.json.decode(companion.read_bytes(), type=_BootFile)
        return Boot(id=told.boot_id, at_ns=told.boot_at_ns)
    except (FileNotFoundError, msgspec.DecodeError):
        pass
    if not stat.S_ISCHR(log.stat().st_mode):
        return Boot()
    # printk stamps by the monotonic clock, which stands still in suspend: so the offset is taken now, at attach.
    return Boot(id=_BOOT_ID.read_text(encoding="ascii").strip(), at_ns=now_ns - time.monotonic_ns())
