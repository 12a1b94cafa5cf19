"""The end of one log, whatever becomes of its file: what was written since the last look, each line once and whole.

```
another file at its path            the old one is followed while the new one is empty, and to its end: a writer goes over with one line
renamed or deleted, none at its path   followed
cut, or written anew in place       read from its start as another file
```
One look takes no more than it is allowed to; the next goes on from there. Of a line that is longer than `LINE_MAX` the rest is passed over.
A line that was in its file before the file was opened is `is_old`: nobody knows since when.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from pathlib import Path
from typing import NamedTuple

from ingest.metrics import KERNEL_CUT, KERNEL_OVERRUNS

LINE_MAX = 8_192  # CONSOLE_EXT_LOG_MAX: one read of /dev/kmsg gives one record
_KMSG = (1, 11)  # the device numbers of /dev/kmsg: Documentation/admin-guide/devices.txt
_MARK = 256  # bytes
_FILES = 8  # replaced one after the other before the first was read to its end


class LogLine(NamedTuple):
    """One line, and whether it may have been written at any time before its file was opened."""

    text: str
    is_old: bool


class Part(NamedTuple):
    """Some lines of one file; `begins` where they are its first."""

    lines: list[LogLine]
    size: int
    begins: bool


class Tail:
    """The end of the log at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: deque[_File] = deque()  # the first is read, the last is the one that was at the path when it was last looked at

    def look(self) -> None:
        """Open what is at the path now, if it is another file than before; raises OSError where there is none that can be read."""
        now = self.path.stat()
        last = self._files[-1] if self._files else None
        if last and last.is_at(now):
            if not last.is_cut(now):
                return
            last.end()
        if len(self._files) == _FILES and (passed := next((heir for heir in self._heirs() if not heir.has_content()), None)):
            self._files.remove(passed)
            passed.close()
        if len(self._files) < _FILES:
            self._files.append(_File(self.path))

    def take(self, limit: int) -> Part | None:
        """Give what comes next, about `limit` bytes; None where there is nothing now."""
        while self._files:
            file = self._files[0]
            has_heir = any(heir.has_content() for heir in self._heirs())  # asked first: what is read then is all that this one gets
            begins, file.is_begun = not file.is_begun, True
            lines, size = file.read(limit)
            if begins or size:
                return Part(lines, size, begins)
            if not has_heir:
                return None
            self._files.popleft().close()
        return None

    def _heirs(self) -> list[_File]:
        return list(self._files)[1:]

    def close(self) -> None:
        """Let go of the log."""
        while self._files:
            self._files.popleft().close()


class _File:
    """One open file, FIFO or `/dev/kmsg`."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        now = os.fstat(self._fd)
        self._is_device, self._is_regular = stat.S_ISCHR(now.st_mode), stat.S_ISREG(now.st_mode)
        if self._is_device and (os.major(now.st_rdev), os.minor(now.st_rdev)) != _KMSG:
            os.close(self._fd)
            raise OSError(errno.ENODEV, "is a device, and not that of the kernel log")
        self._identity = now.st_dev, now.st_ino
        self._old_until = now.st_size if self._is_regular else 0
        self._has_old_records = self._is_device
        self._offset = 0
        self._rest = b""
        self._mark = b""  # what stands before the offset
        self._looked_at_ns = now.st_mtime_ns
        self._is_passing_over = False
        self._is_over = False
        self.is_begun = False

    def is_at(self, now: os.stat_result) -> bool:
        return (now.st_dev, now.st_ino) == self._identity

    def is_cut(self, now: os.stat_result) -> bool:
        """Claim that what was read is not there any more; a file that has not changed since the last look is not looked into."""
        if not self._is_regular or now.st_size < self._offset:
            return self._is_regular
        has_changed, self._looked_at_ns = now.st_mtime_ns != self._looked_at_ns, now.st_mtime_ns
        return has_changed and os.pread(self._fd, len(self._mark), self._offset - len(self._mark)) != self._mark

    def has_content(self) -> bool:
        return not self._is_regular or os.fstat(self._fd).st_size > 0

    def end(self) -> None:
        """Read nothing more of it: what it held is gone."""
        self._is_over = True

    def close(self) -> None:
        if self._rest:  # whoever wrote its beginning will not end it here
            KERNEL_CUT.inc()
        os.close(self._fd)

    def read(self, limit: int) -> tuple[list[LogLine], int]:
        """Give the whole lines of the next `limit` bytes, and how many bytes there were."""
        if self._is_over:
            return [], 0
        if self._is_device:
            return self._records(limit)
        try:
            chunk = os.read(self._fd, limit)
        except BlockingIOError:  # a FIFO whose writer is silent
            chunk = b""
        return self._split(chunk), len(chunk)

    def _split(self, chunk: bytes) -> list[LogLine]:
        start = self._offset - len(self._rest)
        self._offset += len(chunk)
        self._mark = (self._mark + chunk)[-_MARK:]
        *whole, rest = (self._rest + chunk).split(b"\n")
        lines = []
        for piece in whole:
            if not self._is_passing_over:
                lines.append(LogLine(_text(piece), start < self._old_until))
            self._is_passing_over = False
            start += len(piece) + 1
        if len(rest) > LINE_MAX and not self._is_passing_over:
            lines.append(LogLine(_text(rest), start < self._old_until))
            self._is_passing_over = True
        self._rest = b"" if self._is_passing_over else rest
        return lines

    def _records(self, limit: int) -> tuple[list[LogLine], int]:
        lines, size = [], 0
        while size < limit:
            try:
                record = os.read(self._fd, LINE_MAX)
            except BlockingIOError:
                self._has_old_records = False
                break
            except BrokenPipeError:  # EPIPE: the ring overwrote what was next
                KERNEL_OVERRUNS.inc()
                continue
            if not record:
                break
            size += len(record)
            text = record.split(b"\n", 1)[0].decode(errors="replace")  # continuation lines are key=value pairs
            lines.append(LogLine(text, self._has_old_records))
        return lines, size


def _text(line: bytes) -> str:
    if len(line) > LINE_MAX:
        KERNEL_CUT.inc()
        line = line[:LINE_MAX].rpartition(b" ")[0] or line[:LINE_MAX]  # half a number would be another one
    return line.decode(errors="replace")
