"""Which lines of a log were there before, so that a log that is replaced, cut or written anew says nothing twice and nothing old as new.

A line about GPUs that has a stamp is known by number, stamp and text. One without is known as often as the file before held it, while
the file is first read. Where that was forgotten, a record is known that is behind in number and stamp. A number that runs far ahead is
damaged: it moves nothing, so that it silences nobody, unless the next record goes on from it.
"""

from __future__ import annotations

from collections import Counter, deque

from ingest.kernel_log.text import Line
from ingest.metrics import KERNEL_LOST

_REMEMBERED = 8_192  # lines about GPUs
_LATELY = 4  # lines by which the end of the file before is found again
_FAR = 2**20  # records; the largest ring, of 2^25 bytes, holds fewer


class KnownLines:
    """What one log has said in one boot."""

    def __init__(self) -> None:
        self._seen: dict[int, None] = {}
        self._has_forgotten = False
        self._here: Counter[int] = Counter()  # lines without a stamp, of this file
        self._before: Counter[int] = Counter()  # those of the file before, less those that came again
        self._lately: deque[int] = deque(maxlen=_LATELY)
        self._ended: tuple[int, ...] = ()
        self._is_later = False
        self._last: tuple[int, int] | None = None  # number and stamp
        self._far: int | None = None

    def another_file(self, *, numbers_go_on: bool) -> None:
        """Begin another file of the log; without knowing the boot its numbers may start over."""
        if self._lately:
            self._before, self._ended = self._here, tuple(self._lately)
        self._here = Counter()
        self._lately.clear()
        self._is_later = False
        if not numbers_go_on:
            self._last = self._far = None

    def settle(self) -> None:
        """Note that the file was read to its end and is not being written: a line without a stamp that comes from now on is a new one."""
        self._before.clear()

    def is_later(self, raw: str) -> bool:
        """Take the next line of the file; claim that it stands behind all that the file before held."""
        was_later = self._is_later
        self._lately.append(hash(raw))
        self._is_later = was_later or (bool(self._ended) and tuple(self._lately) == self._ended)
        return was_later

    def has(self, line: Line, *, is_about_gpus: bool) -> bool:
        """Claim that a line was taken before, and remember it."""
        stamp_ns = line.since_boot_ns if line.since_boot_ns is not None else line.utc_ns or 0
        is_behind = line.seq is not None and self._is_behind(line.seq, stamp_ns)
        if not is_about_gpus:
            return is_behind
        if not line.clock:
            return self._came_again(hash(line.text))
        key = hash((line.clock, line.seq, stamp_ns, line.text))
        if key in self._seen or (is_behind and self._has_forgotten):
            return True
        self._seen[key] = None
        if len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]
            self._has_forgotten = True
        return False

    def _came_again(self, key: int) -> bool:
        came_again = self._before[key] > 0
        if came_again:
            self._before[key] -= 1
        self._here[key] += 1
        if len(self._here) > _REMEMBERED:
            del self._here[next(iter(self._here))]
        return came_again

    def _is_behind(self, seq: int, stamp_ns: int) -> bool:
        if self._last is None:
            self._last = seq, stamp_ns
            return False
        ahead = seq - self._last[0]
        if ahead > _FAR and not (self._far is not None and 0 < seq - self._far <= _FAR):
            self._far = seq
            return False
        if 0 < ahead <= _FAR:
            KERNEL_LOST.inc(ahead - 1)
        elif ahead <= 0 and stamp_ns <= self._last[1]:
            return True
        self._last, self._far = (seq, stamp_ns), None
        return False
