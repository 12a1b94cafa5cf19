"""Take metric reports of 100 metrics off an event stream: forewarn, httpx with httpx-sse, requests with sseclient-py, over one real server.

Each reads the same reports over a socket in a process of its own, in turns, down to the names, values and times of the metrics; forewarn's
way is that of the collector (aiohttp, framing, rows without what was said before). The peers stop at a list of tuples. Prints CPU
milliseconds per report, medians of one run, then how ours grows with the size of a report. Exits with 1 where a report of 100 metrics
takes more than 1.5 ms or more than a quarter of requests + sseclient-py. The peers come with `make .venv/peers/sse/.installed`.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / ".venv" / "peers" / "sse" / "bin" / "python"
METRICS, REPORTS, WARM, ROUNDS = 100, 300, 20, 5
NAMES = {"ours": "forewarn", "httpx": "httpx + httpx-sse", "requests": "requests + sseclient-py"}
Metric = tuple[str, float, str]


def report(number: int, metrics: int) -> bytes:
    """Write a report as bmcweb does: pretty JSON, one data line per line of it."""
    at = f"2026-01-02T03:{number // 60 % 60:02d}:{number % 60:02d}.678+00:00"
    rows = [
        {
            "MetricProperty": f"/redfish/v1/Chassis/HGX_GPU_{metric % 8}/Sensors/HGX_GPU_{metric % 8}_DRAM_{metric // 8}_Temp_0",
            "MetricValue": f"{30 + metric / 7:.6f}",
            "Timestamp": at,
            "Oem": {"Nvidia": {"@odata.type": "#NvidiaMetricReport.v1_0_0.NvidiaMetricReport", "MetricValueStale": False}},
        }
        for metric in range(metrics)
    ]
    body = {"@odata.type": "#MetricReport.v1_4_2.MetricReport", "Id": "X", "Name": "X", "MetricValues": rows}
    return "\n".join([f"id: {number}", *(f"data: {line}" for line in json.dumps(body, indent=2).split("\n")), "", ""]).encode()


class Server:
    """Sends the same stream to whoever connects, in chunks, one a report; ends after the last."""

    def __init__(self, metrics: int) -> None:
        reports = [report(number, metrics) for number in range(WARM + REPORTS)]
        self.report_bytes = len(reports[0])
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        self._answer = head + b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in reports) + b"0\r\n\r\n"
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                with client, suppress(OSError):
                    client.recv(65_536)
                    client.sendall(self._answer)

    def close(self) -> None:
        """Stop."""
        self._socket.close()


class Meter:
    """CPU time from the end of the warm-up to the last report."""

    def __init__(self, metrics: int) -> None:
        self._metrics, self._seen, self._from_s = metrics, 0, 0.0

    def note(self, metrics: int) -> None:
        """Count one report."""
        assert metrics == self._metrics, metrics
        self._seen += 1
        if self._seen == WARM:
            self._from_s = time.process_time()

    def print(self) -> None:
        """Print milliseconds per report."""
        assert self._seen == WARM + REPORTS, self._seen
        print((time.process_time() - self._from_s) * 1000 / REPORTS)


def metrics_of(data: str) -> list[Metric]:
    """Read the metrics of a report with the standard library."""
    return [(row["MetricProperty"], float(row["MetricValue"]), row["Timestamp"]) for row in json.loads(data)["MetricValues"]]


def with_httpx(url: str, meter: Meter) -> None:
    """Read with httpx and httpx-sse."""
    import httpx  # noqa: PLC0415
    from httpx_sse import connect_sse  # noqa: PLC0415

    with httpx.Client(timeout=60) as client, connect_sse(client, "GET", url) as source:
        for event in source.iter_sse():
            meter.note(len(metrics_of(event.data)))


def with_requests(url: str, meter: Meter) -> None:
    """Read with requests and sseclient-py."""
    import requests  # noqa: PLC0415
    import sseclient  # noqa: PLC0415

    with requests.get(url, stream=True, timeout=60) as answer:
        for event in sseclient.SSEClient(answer.iter_content(None)).events():  # type: ignore[arg-type]
            meter.note(len(metrics_of(event.data)))


def with_ours(url: str, meter: Meter) -> None:
    """Read as the collector does."""
    import asyncio  # noqa: PLC0415

    import aiohttp  # noqa: PLC0415

    from ingest.clock import parse_time  # noqa: PLC0415
    from ingest.redfish.history import History  # noqa: PLC0415
    from ingest.redfish.payloads import read_json  # noqa: PLC0415
    from ingest.redfish.reports import Machine, decode_report  # noqa: PLC0415
    from ingest.redfish.sse import SseParser  # noqa: PLC0415

    received_at_ns = parse_time("2026-01-02T04:00:00Z")

    async def read() -> None:
        parser, history, machine = SseParser(), History(), Machine("n")
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            async for chunk in answer.content.iter_any():
                for event in parser.feed(chunk):
                    decoded = decode_report(read_json(event.data), machine=machine, received_at_ns=received_at_ns)
                    meter.note(len(history.take(decoded.report, decoded.readings).fresh))

    asyncio.run(read())


READERS: dict[str, Callable[[str, Meter], None]] = {"ours": with_ours, "httpx": with_httpx, "requests": with_requests}


def measure(name: str, server: Server, metrics: int) -> float:
    """Measure one reader in a process of its own, ms per report."""
    python = sys.executable if name == "ours" else str(PEERS)
    command = [python, __file__, name, server.url, str(metrics)]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout)


def main() -> int:
    """Measure, print, judge."""
    if not PEERS.exists():
        print("skipped: the peers are not installed: run make .venv/peers/sse/.installed")
        return 0
    server = Server(METRICS)
    rounds = [{name: measure(name, server, METRICS) for name in READERS} for _ in range(ROUNDS)]
    found = {name: statistics.median(each[name] for each in rounds) for name in READERS}
    print(f"report of {METRICS} metrics, {server.report_bytes / 1000:.0f} kB, median of {ROUNDS} rounds of {REPORTS} reports")
    for name, used_ms in found.items():
        print(f"{NAMES[name]:<26}{used_ms:7.2f} ms a report   {used_ms / found['ours']:5.1f} of ours")
    server.close()
    for metrics in (10, 1000):
        larger = Server(metrics)
        used_ms = statistics.median(measure("ours", larger, metrics) for _ in range(3))
        ratio = used_ms / metrics / found["ours"] * METRICS
        print(f"forewarn, {metrics:4} metrics {used_ms:11.2f} ms a report   {ratio:5.2f} per metric of that with {METRICS}")
        larger.close()
    return 0 if found["ours"] <= 1.5 and found["requests"] >= 4 * found["ours"] else 1


if __name__ == "__main__":
    if len(sys.argv) > 1:
        READERS[sys.argv[1]](sys.argv[2], meter := Meter(int(sys.argv[3])))
        meter.print()
    else:
        sys.exit(main())
