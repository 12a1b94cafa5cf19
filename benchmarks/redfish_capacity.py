"""Hold a thousand idle event streams in one process: memory and CPU of one RedfishSource over as many emulated BMCs.

On each stream comes a comment every five seconds and nothing else. Exits with 1 when a target is missed: 120 MB for the streams and 15 %
of a core. What a report costs is in `redfish_stream.py`.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import time

from ingest.clock import SystemClock
from ingest.redfish.source import RedfishSource
from ingest.redfish.target import RedfishTarget
from ingest.schema import SourceState

STREAMS, IDLE_S = 1000, 30.0
TARGET_MB, TARGET_SHARE = 120, 0.15


async def hold_idle(urls: list[str]) -> bool:
    """Hold idle streams for a while."""
    before_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    targets = {f"n{number}": RedfishTarget(url=url, username="forewarn", password="forewarn-test") for number, url in enumerate(urls)}
    source = RedfishSource(targets, clock=SystemClock(), poll_interval_s=3600.0, interval_s=1.0)
    started, cpu = time.monotonic(), time.process_time()
    await source.open()
    watched: set[str] = set()
    while len(watched) < STREAMS:
        await asyncio.sleep(0.5)
        states = [row for row in await source.read(time.time_ns()) if isinstance(row, SourceState)]
        watched |= {row.node for row in states if "trial" in (row.detail or "")}
    opening_s, opening_cpu_s = time.monotonic() - started, time.process_time() - cpu
    await asyncio.sleep(10)
    started, cpu = time.monotonic(), time.process_time()
    while time.monotonic() < started + IDLE_S:
        await asyncio.sleep(source.interval_s)
        await source.read(time.time_ns())
    share = (time.process_time() - cpu) / (time.monotonic() - started)
    used_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    await source.close()
    print(f"{STREAMS} BMCs: found and opened in {opening_s:.0f} s with {opening_cpu_s:.1f} CPU-s")
    print(f"  idle streams: {100 * share:.1f} % of a core, {used_mb:.0f} MB in all, {used_mb - before_mb:.0f} MB for the streams")
    return share <= TARGET_SHARE and used_mb - before_mb <= TARGET_MB


def measure_idle() -> bool:
    """Hold the streams of as many emulated BMCs in a process of their own."""
    command = [sys.executable, "-m", "emulators.bmc", "--count", str(STREAMS), "--report-interval", "100000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        urls = [process.stdout.readline().split()[1] for _ in range(STREAMS)]
        try:
            return asyncio.run(hold_idle(urls))
        finally:
            process.terminate()


if __name__ == "__main__":
    sys.exit(0 if measure_idle() else 1)
