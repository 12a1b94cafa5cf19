"""NVML inside a running collector: what is wrong with a driver or a GPU neither ends nor stops the process."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import tomli_w
from prometheus_client import REGISTRY

from emulators.nvml.machine import NvmlMachine
from forewarn import health
from forewarn.vitals import Vitals
from ingest.clock import ManualClock, SystemClock
from ingest.collector import Collector
from ingest.nvml.source import NvmlSource
from ingest.schema import GpuSample, Observed, SourceState
from ingest.spool import Spool
from tests.ingest.nvml.test_nvml_starved import OpenSource, workers

pytestmark = pytest.mark.nvml
PATIENCE_S = 60.0


def seen(records: list[Observed]) -> tuple[list[str], int]:
    """Give the states that were said and the number of GPUs with a temperature."""
    states = [row.state for row in records if isinstance(row, SourceState)]
    return states, sum(isinstance(row, GpuSample) and row.temp_c is not None for row in records)


async def test_library_that_can_be_used_again_is_loaded_by_another_process(
    open_source: OpenSource, machine: NvmlMachine, clock: ManualClock
) -> None:
    """N04: while the versions differ no process is kept and none is started before its back-off is over; then a new one loads NVML."""
    wall_s = [0.0]
    source = await open_source(monotonic_s=lambda: wall_s[0])
    await source.read(clock.now_ns())
    (first,) = workers()
    with machine.edit_machine() as whole:
        whole.init_rc = 18
    clock.advance(60)
    assert seen(await source.read(clock.now_ns())) == (["driver_mismatch(18)"], 0)
    clock.advance(60)
    assert seen(await source.read(clock.now_ns())) == ([], 0)
    assert workers() == []
    with machine.edit_machine() as whole:
        whole.init_rc = 0
    wall_s[0] += 100
    clock.advance(60)
    assert seen(await source.read(clock.now_ns())) == (["ok"], 8)
    (second,) = workers()
    assert second != first


@pytest.mark.parametrize(("init_rc", "options", "status"), [(18, [], 0), (18, ["--check"], 1), (0, ["--check"], 0)])
def test_collect_fails_for_a_driver_only_when_asked(
    machine: NvmlMachine, tmp_path: Path, init_rc: int, options: list[str], status: int
) -> None:
    """N04: a mismatch is a state among the records; the exit status tells of it with `--check` alone."""
    with machine.edit_machine() as whole:
        whole.init_rc = init_rc
    target = {"node": "gpu001", "environment": dict(machine.environment())}
    configuration = tmp_path / "forewarn.toml"
    configuration.write_text(tomli_w.dumps({"fleet": {"state_dir": str(tmp_path / "state")}, "collect": {"nvml": [target]}}))
    command = [sys.executable, "-m", "forewarn", "collect", "--once", "--config", str(configuration), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    states = [row["state"] for row in map(json.loads, done.stdout.splitlines()) if row["table"] == "source_states"]
    assert states == (["driver_mismatch(18)"] if init_rc else ["ok"]), done.stderr
    assert done.returncode == status
    assert not (tmp_path / "state").exists()


async def test_collector_with_a_hung_gpu_is_alive(machine: NvmlMachine, boot_id_path: Path, tmp_path: Path) -> None:
    """N11: while a GPU blocks for 45 s the process answers that it is alive, and the other GPUs are read."""
    source = NvmlSource(
        "gpu001", clock=SystemClock(), interval_s=1.0, deadline_s=0.5, environment=machine.environment(), boot_id_path=boot_id_path
    )
    collector = Collector([source], Spool(tmp_path / "spool"), clock=SystemClock())
    stop = asyncio.Event()
    with Vitals("127.0.0.1", 0, section="collect", alive={"collector": partial(health.collector_turns, collector)}, ready={}) as vitals:
        running = asyncio.create_task(collector.run(stop))
        await until(lambda: collector.health["nvml"].last_success_at_ns is not None)
        with machine.edit_slot(3) as gpu:
            gpu.latency_us = 45_000_000
        late, good = polls("timeout"), polls("ok")
        answers = []
        end = time.monotonic() + PATIENCE_S
        while polls("timeout") < late + 3 or polls("ok") < good + 14:
            assert time.monotonic() < end
            answers.append(await asyncio.to_thread(status_of, vitals.port))
        stop.set()
        await running
    assert set(answers) == {200}


async def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


def polls(outcome: str) -> float:
    return REGISTRY.get_sample_value("forewarn_nvml_gpu_polls_total", {"outcome": outcome}) or 0.0


def status_of(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
        return int(answer.status)
