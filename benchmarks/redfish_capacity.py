"""Follow many BMCs in one process: cost of a report of 100 metrics, and of a thousand streams on which nothing is said.

Prints milliseconds per report of one run beside sseclient-py and json, then memory and CPU of idle streams (each with a comment every
five seconds) held by one RedfishSource; exits with 1 when a target is missed: cheaper framing than sseclient-py, 3 ms per report, 150 MB
and 15 % of a core for the idle streams. A machine that is busy with something else misses them.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import sseclient

from ingest.clock import SystemClock, parse_time
from ingest.redfish.history import History
from ingest.redfish.payloads import read_json
from ingest.redfish.reports import Machine, decode_report
from ingest.redfish.source import RedfishSource
from ingest.redfish.sse import SseParser
from ingest.redfish.target import RedfishTarget
from ingest.schema import SourceState

REPORTS, METRICS = 200, 100
STREAMS, IDLE_S = 1000, 30.0
RECEIVED_NS = parse_time("2026-01-02T04:00:00Z")


def report(number: int) -> bytes:
    """Write a report of 100 metrics as bmcweb does: pretty JSON, one data line per line of it."""
    at = f"2026-01-02T03:{number // 60:02d}:{number % 60:02d}.678+00:00"
    rows = [
        {
            "MetricProperty": f"/redfish/v1/Chassis/HGX_GPU_{metric % 8}/Sensors/HGX_GPU_{metric % 8}_DRAM_{metric // 8}_Temp_0",
            "MetricValue": f"{30 + metric / 7:.6f}",
            "Timestamp": at,
            "Oem": {"Nvidia": {"@odata.type": "#NvidiaMetricReport.v1_0_0.NvidiaMetricReport", "MetricValueStale": False}},
        }
        for metric in range(METRICS)
    ]
    body = {"@odata.type": "#MetricReport.v1_4_2.MetricReport", "Id": "X", "Name": "X", "MetricValues": rows}
    lines = [f"id: {number}", *(f"data: {line}" for line in json.dumps(body, indent=2).split("\n")), "", ""]
    return "\n".join(lines).encode()


def milliseconds(work: Callable[[], None]) -> float:
    """Tell the CPU time of one report's share of the work."""
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1000 / REPORTS


def measure_reports() -> bool:
    """Compare framing and whole decoding of the same stream."""
    stream = [report(number) for number in range(REPORTS)]
    found: list[int] = []

    def ours() -> None:
        parser = SseParser()
        found.append(sum(len(list(parser.feed(chunk))) for chunk in stream))

    def theirs() -> None:
        found.append(sum(1 for _ in sseclient.SSEClient(iter(stream)).events()))  # type: ignore[arg-type]

    def whole() -> None:
        parser, history, machine = SseParser(), History(), Machine("n")
        for chunk in stream:
            for event in parser.feed(chunk):
                decoded = decode_report(read_json(event.data), machine=machine, received_at_ns=RECEIVED_NS)
                found.append(len(history.take(decoded.report, decoded.readings).fresh))

    framing, peer, all_of_it = milliseconds(ours), milliseconds(theirs), milliseconds(whole)
    assert found[:2] == [REPORTS, REPORTS]
    assert sum(found[2:]) == REPORTS * METRICS
    print(f"report of {METRICS} metrics, {len(stream[0]) / 1000:.0f} kB")
    print(f"  framing      {framing:.2f} ms   sseclient-py {peer:.2f} ms   ratio {peer / framing:.1f}")
    print(f"  to readings  {all_of_it:.2f} ms   {1000 / all_of_it:.0f} reports/s per core")
    return framing < peer and all_of_it < 3.0


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
    return share < 0.15 and used_mb - before_mb < 150


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
    sys.exit(0 if measure_reports() & measure_idle() else 1)
