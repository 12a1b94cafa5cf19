"""Tells a process that was kept from running from one that waits for a driver, by what the kernel's scheduler counts of its threads.

A thread inside a hung call sleeps, or spins on a CPU that it has; on a starved host it is ready to run and is not let. Where the kernel
keeps no such counts nothing is known, and nothing excused.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

STARVED_RATIO = 0.5  # of the time in which an answer was due


class Scheduled(NamedTuple):
    """Seconds that a thread has been on a CPU, and has been ready and waited for one; a wait counts when it is over."""

    ran_s: float
    waited_s: float


class Watch(Protocol):
    """Tells, of the time since it was made, whether the host has let a process run."""

    def was_starved(self) -> bool:
        """Tell whether it has not, so that being late says nothing."""


class SchedulerWatch:
    """Watches a process through the kernel's counts."""

    def __init__(self, pid: int | str = "self") -> None:
        self._pid = pid
        self._started_s = time.monotonic()
        self._before = scheduled(pid)

    def was_starved(self) -> bool:
        """Compare the counts with those of the beginning."""
        return was_starved(self._before, scheduled(self._pid), ready(self._pid), time.monotonic() - self._started_s)


def was_starved(before: Mapping[int, Scheduled], after: Mapping[int, Scheduled], ready: Collection[int], elapsed_s: float) -> bool:
    """Tell whether the threads of a process waited for a CPU for half of the time; `ready` are those that wait for one now."""
    waited_s = 0.0
    for thread, now in after.items():
        then = before.get(thread, Scheduled(0, 0))
        is_waiting = thread in ready
        waited_s += max(now.waited_s - then.waited_s, elapsed_s - (now.ran_s - then.ran_s) if is_waiting else 0)
    return waited_s >= STARVED_RATIO * elapsed_s > 0


def scheduled(pid: int | str = "self") -> dict[int, Scheduled]:
    """Read the counts of each thread of a process; none where there are none, or the process has ended."""
    counts = {}
    for thread in _threads(pid):
        fields = _read(thread / "schedstat").split()
        if len(fields) >= 2:
            counts[int(thread.name)] = Scheduled(int(fields[0]) / 1e9, int(fields[1]) / 1e9)
    return counts


def ready(pid: int | str = "self") -> set[int]:
    """Name the threads of a process that want a CPU at this moment, but for the one that asks."""
    asks = threading.get_native_id()
    return {int(thread.name) for thread in _threads(pid) if int(thread.name) != asks and _is_ready(thread)}


def _threads(pid: int | str) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def _is_ready(thread: Path) -> bool:
    return _read(thread / "stat").rpartition(")")[2].lstrip().startswith("R")


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
