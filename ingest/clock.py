"""The two clocks: fleet time, which may be scaled or stepped, rules schedules and windows; wall time rules sockets and deadlines.

Only this module and the command read the wall clock.
"""

from __future__ import annotations

import asyncio
import math
import mmap
import struct
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

NS = 1_000_000_000


class Clock(Protocol):
    """Fleet time in UTC nanoseconds since the epoch, `scale` times as fast as wall time."""

    scale: float

    def now_ns(self) -> int:
        """Tell fleet time."""

    def sleep_until(self, at_ns: int) -> None:
        """Block the thread until fleet time is at `at_ns`."""

    async def wait_until(self, at_ns: int) -> None:
        """Suspend the task until fleet time is at `at_ns`."""

    def expect(self, work: str, at_ns: int | None) -> None:
        """Note that `work` is done up to now and due next at `at_ns`, or never again; whoever paces fleet time may wait for it."""


class SystemClock:
    """Fleet time is wall time."""

    scale = 1.0

    def now_ns(self) -> int:
        """Tell wall time."""
        return time.time_ns()

    def sleep_until(self, at_ns: int) -> None:
        """Block until `at_ns`; returns at once when it has passed."""
        time.sleep(max(0.0, (at_ns - self.now_ns()) / NS))

    async def wait_until(self, at_ns: int) -> None:
        """Suspend until `at_ns`; returns at once when it has passed."""
        await asyncio.sleep(max(0.0, (at_ns - self.now_ns()) / NS))

    def expect(self, work: str, at_ns: int | None) -> None:
        """Do nothing: real time waits for nobody."""


class ScaledClock:
    """Fleet time stands at `epoch_ns` until the monotonic clock reaches `started_monotonic_ns`, then runs `scale` times as fast as it."""

    def __init__(self, epoch_ns: int, scale: float, started_monotonic_ns: int | None = None) -> None:
        self.scale = scale
        self._epoch_ns = epoch_ns
        self._started_ns = time.monotonic_ns() if started_monotonic_ns is None else started_monotonic_ns

    def now_ns(self) -> int:
        """Tell scaled fleet time."""
        epoch_ns, started_ns = self._origin()
        return epoch_ns + int(max(0, time.monotonic_ns() - started_ns) * self.scale)

    def sleep_until(self, at_ns: int) -> None:
        """Block until fleet time is at `at_ns`."""
        while wall_s := self._wall_s_until(at_ns):
            time.sleep(wall_s)

    async def wait_until(self, at_ns: int) -> None:
        """Suspend until fleet time is at `at_ns`."""
        while wall_s := self._wall_s_until(at_ns):  # noqa: ASYNC110  # time may stand meanwhile, which no event tells
            await asyncio.sleep(wall_s)

    def expect(self, work: str, at_ns: int | None) -> None:
        """Do nothing: this time is not paced."""

    def _origin(self) -> tuple[int, int]:
        return self._epoch_ns, self._started_ns

    def _wall_s_until(self, at_ns: int) -> float:
        """Tell how long to sleep before looking again; 0 when `at_ns` has come."""
        epoch_ns, started_ns = self._origin()
        due_ns = started_ns + math.ceil((at_ns - epoch_ns) / self.scale)
        return max(0.0, (due_ns - time.monotonic_ns()) / NS) if at_ns > epoch_ns else 0.0


class SharedClock(ScaledClock):
    """Scaled fleet time of several processes, kept in a file, so that whoever paces an emulated fleet can let time stand for all of them.

    The monotonic clock is one per machine, so that every process reads the same time from the same three numbers. The file holds them
    between two equal revisions; a reader that meets two different ones looks again. After them comes, for each of two processes that may
    be waited for, the time of its earliest work that is not done. One process at a time may let time stand.
    """

    _LAYOUT = struct.Struct("<qqdqq")  # revision, epoch_ns, scale, started_monotonic_ns, revision
    _EXPECTED = struct.Struct("<q")
    _SEATS = 2
    _NEVER_NS = 1 << 62
    _LOOKS_EVERY_S = 0.05

    def __init__(self, file: Path, *, seat: int = 0) -> None:
        with file.open("r+b") as handle:
            self._shared = mmap.mmap(handle.fileno(), self._LAYOUT.size + self._SEATS * self._EXPECTED.size)
        self._place = self._LAYOUT.size + seat * self._EXPECTED.size
        self._due_ns: dict[str, int] = {}
        super().__init__(0, self._read()[2], 0)

    @classmethod
    def create(cls, file: Path, epoch_ns: int, scale: float) -> SharedClock:
        """Make the file of a new fleet time, which stands at `epoch_ns` until it is told to go."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(cls._LAYOUT.pack(0, epoch_ns, scale, cls._NEVER_NS, 0) + cls._SEATS * cls._EXPECTED.pack(cls._NEVER_NS))
        return cls(file)

    @property
    def stands(self) -> bool:
        """Claim that time was told to stand."""
        return self._origin()[1] == self._NEVER_NS

    def stand(self) -> None:
        """Let fleet time stand where it is, for every process."""
        if not self.stands:
            self._write(self.now_ns(), self._NEVER_NS)

    def go(self) -> None:
        """Let fleet time go on from where it stands."""
        if self.stands:
            self._write(self._origin()[0], time.monotonic_ns())

    def expect(self, work: str, at_ns: int | None) -> None:
        """Let everybody see when the earliest work of this process is due that is not done."""
        if at_ns is None:
            self._due_ns.pop(work, None)
        else:
            self._due_ns[work] = at_ns
        self._EXPECTED.pack_into(self._shared, self._place, min(self._due_ns.values(), default=self._NEVER_NS))

    @property
    def expected_ns(self) -> int:
        """Tell the fleet time of the earliest work that is not done; far in the future where there is none."""
        due_ns: list[int] = [at_ns for (at_ns,) in self._EXPECTED.iter_unpack(self._shared[self._LAYOUT.size :])]
        return min(due_ns)

    def _origin(self) -> tuple[int, int]:
        _, epoch_ns, _, started_ns, _ = self._read()
        return epoch_ns, started_ns

    def _wall_s_until(self, at_ns: int) -> float:
        return min(super()._wall_s_until(at_ns), self._LOOKS_EVERY_S)  # time may be told to stand while somebody sleeps

    def _read(self) -> tuple[int, int, float, int, int]:
        while True:
            read: tuple[int, int, float, int, int] = self._LAYOUT.unpack(self._shared[: self._LAYOUT.size])
            if read[0] == read[4]:
                return read

    def _write(self, epoch_ns: int, started_ns: int) -> None:
        revision = self._read()[0] + 1
        self._shared[: self._LAYOUT.size] = self._LAYOUT.pack(revision, epoch_ns, self.scale, started_ns, revision)


class ManualClock:
    """Fleet time moves only when told to, or when somebody waits for it: a test double that never sleeps."""

    scale = 1.0

    def __init__(self, at_ns: int) -> None:
        self._at_ns = at_ns

    def now_ns(self) -> int:
        """Tell the time last set."""
        return self._at_ns

    def advance(self, seconds: float) -> None:
        """Move time on; a negative step is a clock that was set back."""
        self._at_ns += int(seconds * NS)

    def sleep_until(self, at_ns: int) -> None:
        """Jump to `at_ns`."""
        self._at_ns = max(self._at_ns, at_ns)

    async def wait_until(self, at_ns: int) -> None:
        """Jump to `at_ns` and let other tasks run."""
        self._at_ns = max(self._at_ns, at_ns)
        await asyncio.sleep(0)

    def expect(self, work: str, at_ns: int | None) -> None:
        """Do nothing: whoever moves this time knows what is due."""


def ns_of(at: datetime) -> int:
    """Turn an aware datetime into UTC nanoseconds, exact to the microsecond."""
    delta = at.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * NS + delta.microseconds * 1000


def datetime_of(at_ns: int) -> datetime:
    """Turn UTC nanoseconds into an aware datetime; nanoseconds are cut to microseconds."""
    seconds, ns = divmod(at_ns, NS)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=ns // 1000)


def parse_time(text: str) -> int:
    """Read an ISO 8601 time (UTC assumed when it names no zone) into UTC nanoseconds."""
    at = datetime.fromisoformat(text)
    return ns_of(at if at.tzinfo else at.replace(tzinfo=UTC))
