"""What a process has used, as the kernel counts it, and how rates are told per core."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def memory_mb(pid: int) -> float:
    """Tell the resident memory of a process, MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1e6


def cpu_s(pid: int) -> float:
    """Tell the CPU time of a process, all its threads and its ended children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / TICKS


def own_cpu_s(act: Callable[[], object]) -> float:
    """Time one act in CPU seconds of this process, all its threads."""
    before = time.process_time()
    act()
    return time.process_time() - before


def rate(rows: int, act: Callable[[], object]) -> float:
    """Give rows per second of this process's CPU time, all its threads."""
    return rows / own_cpu_s(act)


def set_apart() -> None:
    """Keep what a benchmark has prepared out of garbage collections: the process that is measured for would not hold it."""
    gc.collect()
    gc.freeze()
