"""The live part end to end: devices start, a node fails and comes back, and every device tells its part of it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from emulators.faults import Failure
from emulators.fleet import Farm, run_fleet
from emulators.layout import HOUR_NS, MINUTE_NS, WorldSpec
from emulators.world import World
from ingest.clock import SharedClock

pytestmark = pytest.mark.nvml
SCALE = 3600.0
DEADLINE_S = 30.0


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not await holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)


class Live:
    """A fleet that runs while the test looks at it."""

    def __init__(self, spec: WorldSpec, nodes: list[str], epoch_ns: int, directory: Path) -> None:
        self._stop = asyncio.Event()
        self._directory = directory
        self._clock = SharedClock.create(directory / "clock", epoch_ns, SCALE)
        self._task = asyncio.create_task(run_fleet(spec, nodes, clock=self._clock, directory=directory, stop=self._stop))

    async def __aenter__(self) -> dict[str, Any]:
        await until(self._is_ready)
        self._clock.go()
        found: dict[str, Any] = json.loads((self._directory / "endpoints.json").read_text())
        return found

    async def _is_ready(self) -> bool:
        if self._task.done():
            self._task.result()
        return (self._directory / "endpoints.json").exists()

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        await self._task


def a_failure(world: World, source: str) -> Failure:
    """Find a failure of a GPU with a repair of hours on a node of a source, long after the one before."""
    sources = {node.name: node.source for node in world.nodes}
    return next(
        f
        for f in world.failures
        if f.mode == "fell_off_bus"
        and sources[f.node] == source
        and HOUR_NS < f.repaired_ns - f.down_ns < 3 * HOUR_NS
        and world.is_up(f.node, f.failed_ns - 2 * HOUR_NS)
    )


def text(file: Path) -> str:
    return file.read_text()


async def status(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(url) as answer:
        await answer.read()
        return answer.status


async def test_an_exporter_node_fails_and_comes_back(tmp_path: Path) -> None:
    """Its page serves, then is 503 while it is down, then serves again; its log loses the bus and begins a new boot; its BMC stays up."""
    world = World(WorldSpec.show(nodes=16, days=60, defects=False))
    failure = a_failure(world, "exporter")
    boot_before = world.boot_id(failure.node, failure.failed_ns)
    async with Live(world.spec, [failure.node], failure.failed_ns - 30 * MINUTE_NS, tmp_path) as found, aiohttp.ClientSession() as session:
        at = found["nodes"][failure.node]
        assert at["source"] == "exporter"
        assert "nvml" not in at
        log = Path(at["kernel_log"])

        async def is_down() -> bool:
            return await status(session, at["exporter"]) == 503

        async def is_up_again() -> bool:
            return await status(session, at["exporter"]) == 200 and json.loads(text(log.with_name("kmsg.boot")))["boot_id"] != boot_before

        assert "Linux version" in text(log).splitlines()[0]
        await until(is_down)
        assert "has fallen off the bus" in text(log)
        assert await status(session, f"{at['bmc']['url']}/redfish/v1") == 200
        await until(is_up_again)
        assert "fallen" not in text(log)
        running = json.loads(text(tmp_path / "scheduler" / "squeue.json"))
        assert running["jobs"]


async def test_an_nvml_node_fails_and_comes_back(tmp_path: Path) -> None:
    """Its agent's library has eight GPUs, loses its driver while the node is down and has it back with the new boot's id."""
    world = World(WorldSpec.show(nodes=16, days=60, defects=False))
    failure = a_failure(world, "nvml")
    farm = Farm(world, [failure.node], failure.failed_ns - HOUR_NS, tmp_path)
    device = farm.devices[failure.node]
    at = device.endpoints()["nvml"]
    try:
        assert text(Path(at["boot_id_file"])).strip() == world.boot_id(failure.node, failure.failed_ns)
        assert await visible_gpus(at["environment"]) == 8
        farm.say(world.kernel_events(failure.node, failure.failed_ns, failure.down_ns))
        farm.show(failure.down_ns)
        assert await visible_gpus(at["environment"]) is None
        farm.say(world.kernel_events(failure.node, failure.down_ns, failure.repaired_ns + 1))
        farm.show(failure.repaired_ns)
        assert text(Path(at["boot_id_file"])).strip() == world.boot_id(failure.node, failure.repaired_ns)
        assert await visible_gpus(at["environment"]) == 8
    finally:
        device.close()


_COUNT = "import pynvml as n\nn.nvmlInit()\nprint(n.nvmlDeviceGetCount())"


async def visible_gpus(environment: dict[str, str]) -> int | None:
    """Ask NVML in a process of its own; None where it does not start."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _COUNT, env={**os.environ, **environment}, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    out, _ = await child.communicate()
    return int(out) if child.returncode == 0 else None
