"""The two clocks: fleet time, which may be scaled or stepped, rules schedules and windows; wall time rules sockets and deadlines.

Only this module and the command read the wall clock.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol

NS = 1_000_000_000


class Clock(Protocol):
    """Fleet time in UTC nanoseconds since the epoch."""

    def now_ns(self) -> int:
        """Tell fleet time."""

    def sleep_until(self, at_ns: int) -> None:
        """Block the thread until fleet time is at `at_ns`."""

    async def wait_until(self, at_ns: int) -> None:
        """Suspend the task until fleet time is at `at_ns`."""


class SystemClock:
    """Fleet time is wall time."""

    def now_ns(self) -> int:
        """Tell wall time."""
        return time.time_ns()

    def sleep_until(self, at_ns: int) -> None:
        """Block until `at_ns`; returns at once when it has passed."""
        time.sleep(max(0.0, (at_ns - self.now_ns()) / NS))

    async def wait_until(self, at_ns: int) -> None:
        """Suspend until `at_ns`; returns at once when it has passed."""
        await asyncio.sleep(max(0.0, (at_ns - self.now_ns()) / NS))


class ScaledClock:
    """Fleet time stands at `epoch_ns` until the monotonic clock reaches `started_monotonic_ns`, then runs `scale` times as fast as it.

    The monotonic clock is one per machine, so that processes given the same three numbers agree on fleet time.
    """

    def __init__(self, epoch_ns: int, scale: float, started_monotonic_ns: int | None = None) -> None:
        self.epoch_ns = epoch_ns
        self.scale = scale
        self.started_monotonic_ns = time.monotonic_ns() if started_monotonic_ns is None else started_monotonic_ns

    def now_ns(self) -> int:
        """Tell scaled fleet time."""
        return self.epoch_ns + int(max(0, time.monotonic_ns() - self.started_monotonic_ns) * self.scale)

    def sleep_until(self, at_ns: int) -> None:
        """Block until fleet time is at `at_ns`."""
        time.sleep(max(0.0, (at_ns - self.now_ns()) / NS / self.scale))

    async def wait_until(self, at_ns: int) -> None:
        """Suspend until fleet time is at `at_ns`."""
        await asyncio.sleep(max(0.0, (at_ns - self.now_ns()) / NS / self.scale))


class ManualClock:
    """Fleet time moves only when told to, or when somebody waits for it: a test double that never sleeps."""

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
