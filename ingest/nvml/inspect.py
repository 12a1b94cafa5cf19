"""What the collector makes of a machine to which something happens: polled once before, then a few times after."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from ingest.clock import NS, ManualClock
from ingest.nvml.source import BOOT_ID, NvmlSource
from ingest.nvml.supervisor import START_GRACE_S
from ingest.schema import Observed

POLLS_AFTER = 2
INTERVAL_S = 60.0
START_NS = 1_767_225_600 * NS  # 2026-01-01


async def inspect(
    environment: Mapping[str, str],
    happen: Callable[[], None],
    *,
    node: str = "node",
    deadline_s: float = 1.0,
    polls_after: int = POLLS_AFTER,
    boot_id_path: Path = BOOT_ID,
) -> AsyncIterator[list[Observed]]:
    """Give the records of each poll: the first of the healthy machine, the others after `happen`; fleet time stands still in between."""
    clock = ManualClock(START_NS)
    source = NvmlSource(
        node,
        clock=clock,
        interval_s=INTERVAL_S,
        warm_interval_s=INTERVAL_S,
        cold_interval_s=INTERVAL_S,
        link_interval_s=INTERVAL_S,
        deadline_s=deadline_s,
        start_wait_s=START_GRACE_S,
        environment=environment,
        boot_id_path=boot_id_path,
    )
    await source.open()
    try:
        yield await source.read(clock.now_ns())
        happen()
        for _ in range(polls_after):
            clock.advance(INTERVAL_S)
            yield await source.read(clock.now_ns())
    finally:
        await source.close()
