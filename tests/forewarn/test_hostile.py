"""What is hostile to a collector costs it neither its memory nor its heartbeat, and it says what happened."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from emulators.bmc.server import Bmc
from emulators.nvml.header import HeaderMissing, find_header
from emulators.nvml.machine import NvmlMachine
from emulators.state import ChassisState, GpuState
from ingest.clock import SystemClock
from ingest.redfish.outbox import FLOODED_DRAINS
from tests.forewarn.agent import Agent

pytestmark = pytest.mark.slow
MEMORY_MB = 160.0  # of the collector alone; at rest it has 60
PAGE_BYTES = 500_000_000


@pytest.fixture
def agents() -> Iterator[list[Agent]]:
    """Collect the collectors of a test, to end them with it."""
    started: list[Agent] = []
    yield started
    for agent in started:
        agent.kill()


def eight_gpus() -> list[GpuState]:
    return [
        GpuState(
            gpu_uuid=f"GPU-{slot:08x}-0000-4000-8000-000000000000", serial=f"165{slot}", pci=f"0000:{0x1B + slot:02x}:00", gpu_index=slot
        )
        for slot in range(8)
    ]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[NvmlMachine]:
    """Emulate eight GPUs; skips where the library cannot be built."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler named cc")
    try:
        find_header()
    except HeaderMissing as missing:
        pytest.skip(str(missing))
    (tmp_path / "boot_id").write_text("11111111-2222-3333-4444-555555555555\n")
    with closing(NvmlMachine(tmp_path / "machine", gpus=eight_gpus(), boot_id="11111111-2222-3333-4444-555555555555")) as machine:
        yield machine


class HugePage:
    """A server whose only page is endless for practical purposes; it makes the page as it sends it."""

    def __init__(self, *, is_zipped: bool) -> None:
        block = b"".join(b'DCGM_FI_DEV_GPU_TEMP{gpu="%d",UUID="GPU-%d"} 42\n' % (n % 8, n % 8) for n in range(20_000))
        self._head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n" + b"Content-Encoding: gzip\r\n" * is_zipped + b"\r\n"
        self._block = gzip.compress(block, 9) if is_zipped else block  # members of gzip may follow each other
        self._blocks = PAGE_BYTES // len(block)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}/metrics"
        self.pages = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                self.pages += 1
                with client, suppress(OSError):
                    client.recv(65_536)
                    client.sendall(self._head)
                    for _ in range(self._blocks):
                        client.sendall(self._block)

    def close(self) -> None:
        self._server.close()


def started(agents: list[Agent], directory: Path, **collect: Any) -> Agent:
    """Start a collector that reads a quiet kernel log as well."""
    (directory / "kmsg").write_text("")
    agents.append(Agent(directory, kernel_log={"n1": str(directory / "kmsg")}, interval_s=1.0, **collect))
    agents[-1].start()
    return agents[-1]


def test_all_gpus_hang_at_once(agents: list[Agent], tmp_path: Path, machine: NvmlMachine) -> None:
    """Eight hung GPUs give rows with the code timeout, dead workers that are counted and logged, and no late heartbeat."""
    target = {"node": "n1", "environment": machine.environment(), "boot_id_file": str(tmp_path / "boot_id")}
    agent = started(agents, tmp_path, nvml=[target], deadline_s=0.3)
    agent.until(lambda: agent.metric('forewarn_nvml_gpu_polls_total{outcome="ok"}') >= 8)
    machine.fault("nvmlDeviceGetUtilizationRates", latency_us=600_000_000, holds_lock=True)
    agent.until(lambda: agent.metric('forewarn_nvml_gpu_polls_total{outcome="timeout"}') >= 8)
    assert agent.get("/healthz") == (200, '{"status":"alive","checks":{"collector":"ok"}}\n')
    assert agent.metric('forewarn_nvml_worker_ends_total{reason="hang"}') >= 1
    assert agent.logged("nvml_worker_killed")
    assert agent.memory_mb() < MEMORY_MB
    machine.clear_faults()
    assert agent.stop() == 0
    rows: list[Any] = agent.spooled("gpu_samples")
    hung = {row.gpu_uuid for row in rows if (row.quality or {}).get("gpu_util_ratio") == "timeout"}
    assert hung == {gpu.gpu_uuid for gpu in eight_gpus()}


@pytest.mark.parametrize("is_zipped", [False, True], ids=["plain", "zipped"])
def test_a_page_of_500_mb(agents: list[Agent], tmp_path: Path, is_zipped: bool) -> None:
    """Of a page without end the beginning is read; that it was cut is a state, a metric and one log line, scrape after scrape."""
    page = HugePage(is_zipped=is_zipped)
    with closing(page):
        agent = started(agents, tmp_path, exporter={"n1": page.url}, deadline_s=10.0)
        agent.until(lambda: agent.metric("forewarn_exporter_truncated_pages_total") >= 3)
        assert agent.get("/healthz")[0] == 200
        assert agent.memory_mb() < MEMORY_MB
        assert [line["node"] for line in agent.logged("exporter_page_too_large")] == ["n1"]
        assert agent.stop() == 0
    states: list[Any] = agent.spooled("source_states")
    assert ("exporter", "partial", "the page was cut") in {(row.source, row.state, row.detail) for row in states}


async def test_a_bmc_of_10_000_events_a_second(agents: list[Agent], tmp_path: Path) -> None:
    """A flood is taken as fast as the collector can keep: the BMC waits, which is a state, a metric and a log line; samples go on."""
    chassis = ChassisState(node="bmc1", serial="CH1")
    bmc = Bmc("bmc1", read_state=lambda: (chassis, eight_gpus()), now_ns=SystemClock().now_ns, report_interval_s=1.0)
    url = await bmc.start()
    (tmp_path / "password").write_text("forewarn-test")
    flooding = asyncio.create_task(_flood(bmc))
    try:
        await asyncio.to_thread(_survive_flood, agents, tmp_path, url)
    finally:
        flooding.cancel()
        await bmc.stop()


async def _flood(bmc: Bmc) -> None:
    """Offer 20 times a second 500 events that nobody has seen; what the reader does not take, the BMC drops."""
    for first in itertools.count(0, 500):
        events = b"".join(b"id: %d\ndata: %s\n\n" % (number, _event(number)) for number in range(first, first + 500))
        for reader in bmc.streams.readers.values():
            reader.send(events)
        await asyncio.sleep(0.05)


def _event(number: int) -> bytes:
    record = {"EventId": str(number), "MessageId": "Test.1.0.Flood", "Message": f"flood {number}", "EventTimestamp": "2026-01-02T03:04:05Z"}
    return msgspec.json.encode({"@odata.type": "#Event.v1_11_0.Event", "Id": str(number), "Name": "Event Log", "Events": [record]})


def _survive_flood(agents: list[Agent], directory: Path, url: str) -> None:
    target = {"node": "n1", "url": url, "password_file": str(directory / "password")}
    agent = started(agents, directory, redfish=[target])
    agent.until(lambda: agent.logged("redfish_flooded"))
    events = 'forewarn_redfish_payloads_total{kind="event"}'
    before = agent.metric(events)
    agent.until(lambda: agent.metric(events) >= before + 2000)
    assert agent.metric("forewarn_redfish_paused_seconds") > 0.5 * FLOODED_DRAINS / 2
    assert agent.get("/healthz")[0] == 200
    assert agent.memory_mb() < MEMORY_MB
    assert agent.stop() == 0
    states: list[Any] = agent.spooled("source_states")
    assert "flooded" in {row.state for row in states if row.source == "redfish"}
    assert agent.spooled("chassis_readings")
