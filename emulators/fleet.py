"""The live part of an emulated fleet: its nodes' devices at their real contracts, under a scaled clock, in one process.

Every five minutes of fleet time each device shows what the world is like then, late between two rounds of polls, so that what a round
finds does not hang on how fast the machine is; kernel events, XIDs and operators' tickets come at their own times. A node that is down
answers nowhere but at its BMC; it comes back with a new boot id and with its counters at zero.
`endpoints.json` in the directory tells where everything is; it is there when all of it is ready.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import structlog
from aiohttp import web

from emulators.bmc.server import Bmc
from emulators.defects import Defects
from emulators.exporter import ExporterFarm
from emulators.kernel_log import KernelLog
from emulators.layout import DRIVER_VERSION, NS, WorldSpec
from emulators.nvml.machine import NvmlMachine
from emulators.operators import Operators
from emulators.scheduler import SchedulerCommands
from emulators.state import GpuState, KernelEvent
from emulators.world import World
from ingest.clock import Clock

log = structlog.get_logger()
BMC_USER = "forewarn"
_SCHEDULER_WALL_S = 0.5  # least wall time between two texts of the scheduler
_SHOWN_AT = 0.6  # share of the cadence: polls come at its beginning, those that are late before this
REPORT_INTERVAL_S = 3600.0  # fleet seconds between the telemetry reports of a BMC


class NodeDevices:
    """The devices inside one node: what its agent, its exporter and its kernel log show."""

    def __init__(self, world: World, name: str, directory: Path, cache_dir: Path, at_ns: int) -> None:
        self.name = name
        self.gpus: list[GpuState] = []
        self.has_answer = True
        self._world = world
        self._node = next(node for node in world.nodes if node.name == name)
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._boot_ns = world.boot_at_ns(name, at_ns)
        boot_id = world.boot_id(name, at_ns)
        self._log = KernelLog(directory / "kmsg", boot_id=boot_id, boot_at_ns=self._boot_ns)
        self._boot_file = directory / "boot_id"
        self._boot_file.write_text(f"{boot_id}\n")
        self._machine: NvmlMachine | None = None
        if self._node.source == "nvml":
            gpus = world.gpu_states(name, at_ns)
            self._machine = NvmlMachine(
                directory / "nvml.state", boot_id=boot_id, gpus=gpus, driver_version=DRIVER_VERSION, cache_dir=cache_dir
            )

    def boot(self, boot_ns: int) -> None:
        """Come up again, if it was another boot until now."""
        if boot_ns == self._boot_ns:
            return
        self._boot_ns = boot_ns
        boot_id = self._world.boot_id(self.name, boot_ns)
        self._log.reboot(boot_id=boot_id, boot_at_ns=boot_ns)
        self._boot_file.write_text(f"{boot_id}\n")
        if self._machine is not None:
            self._machine.reboot(boot_id)

    def say(self, event: KernelEvent) -> None:
        """Let something happen in the kernel."""
        if event.kind == "boot":
            self.boot(event.at_ns)
        self._log.write(event)
        is_listed = any(gpu.gpu_uuid == event.gpu_uuid for gpu in self.gpus)
        if self._machine is not None and event.kind == "xid" and event.code is not None and is_listed:
            assert event.gpu_uuid is not None, "BUG: an XID without its GPU"
            self._machine.post_xid(event.gpu_uuid, event.code)

    def show(self, gpus: list[GpuState], *, has_answer: bool) -> None:
        """Look like this from now on; no GPUs: the node is down."""
        self.gpus, self.has_answer = gpus, has_answer
        if self._machine is not None:
            self._machine.show(gpus)

    def page(self) -> Sequence[GpuState]:
        """Give what the exporter shows; it answers 503 while its node is down or its telemetry is interrupted."""
        if not self.gpus or not self.has_answer:
            raise web.HTTPServiceUnavailable
        return self.gpus

    def endpoints(self) -> dict[str, Any]:
        """Say where the agent and the log are."""
        found: dict[str, Any] = {"source": self._node.source, "kernel_log": str(self._log.path)}
        if self._machine is not None:
            found["nvml"] = {
                "environment": self._machine.environment(),
                "state": str(self._machine.state_path),
                "library": str(self._machine.library_dir),
                "boot_id_file": str(self._boot_file),
            }
        return found

    def close(self) -> None:
        """Let go of the state file."""
        if self._machine is not None:
            self._machine.close()


class Farm:
    """All devices of the live nodes."""

    def __init__(self, world: World, names: Sequence[str], epoch_ns: int, directory: Path, *, scale: float = 1.0) -> None:
        self._world = world
        self._names = tuple(names)
        self._directory = directory.resolve()
        self._directory.mkdir(parents=True, exist_ok=True)
        self._defects = Defects(world.spec)
        self._index = np.array([node.index for node in world.nodes if node.name in set(names)])
        self._exporters = ExporterFarm(driver_version=DRIVER_VERSION)
        self._scheduler = SchedulerCommands(world, self._directory / "scheduler", pause_s=_SCHEDULER_WALL_S * scale)
        self._bmcs: dict[str, Bmc] = {}
        self.devices = {
            name: NodeDevices(world, name, self._directory / name, self._directory / "library", epoch_ns) for name in self._names
        }
        self.show(epoch_ns)

    async def open(self, clock: Clock) -> None:
        """Start every server and write `endpoints.json`."""
        nodes = {name: device.endpoints() for name, device in self.devices.items()}
        pages = {name: device.page for name, device in self.devices.items() if nodes[name]["source"] == "exporter"}
        for name, url in (await self._exporters.start(pages)).items():
            nodes[name]["exporter"] = url
        for name in self._names:
            nodes[name]["bmc"] = await self._start_bmc(name, clock)
        self._write_endpoints(nodes)

    async def _start_bmc(self, name: str, clock: Clock) -> dict[str, str]:
        password = secrets.token_urlsafe(12)
        password_file = self._directory / name / "bmc.password"
        password_file.touch(mode=0o600)
        password_file.write_text(password)

        async def until_next(fleet_s: float) -> None:
            step_ns = int(fleet_s * NS)
            await clock.wait_until((clock.now_ns() // step_ns + 1) * step_ns)

        bmc = Bmc(
            name,
            read_state=lambda: (self._world.chassis_state(name, self._shown_ns), self.devices[name].gpus),
            now_ns=clock.now_ns,
            report_interval_s=REPORT_INTERVAL_S,
            sleep=until_next,
            username=BMC_USER,
            password=password,
        )
        self._bmcs[name] = bmc
        return {"url": await bmc.start(), "username": BMC_USER, "password_file": str(password_file)}

    def _write_endpoints(self, nodes: dict[str, Any]) -> None:
        commands = {name: str(command) for name, command in self._scheduler.commands.items()}
        fresh = self._directory / "endpoints.json.new"
        fresh.write_text(json.dumps({"nodes": nodes, "scheduler": commands}, indent=1))
        fresh.replace(self._directory / "endpoints.json")

    def show(self, at_ns: int) -> None:
        """Let every device show the world at a time."""
        self._shown_ns = at_ns
        states = self._world.states(self._names, at_ns)
        slot = (at_ns - self._world.spec.start_ns) // (self._world.spec.cadence_s * NS)
        is_lost = self._defects.is_lost(self._index, np.full(len(self._index), slot))
        for lost, name in zip(is_lost, self._names, strict=True):
            self.devices[name].show(states[name], has_answer=not lost)
        self._scheduler.refresh(at_ns)

    def say(self, events: Iterable[KernelEvent]) -> None:
        """Let things happen in the kernels of their nodes."""
        for event in events:
            self.devices[event.node].say(event)

    async def close(self) -> None:
        """Stop every server."""
        await self._exporters.stop()
        for bmc in self._bmcs.values():
            await bmc.stop()
        for device in self.devices.values():
            device.close()


async def run_fleet(
    spec: WorldSpec,
    nodes: Sequence[str],
    *,
    clock: Clock,
    directory: Path,
    outcomes_url: str | None = None,
    outcomes_secret_file: Path | None = None,
    cluster: str = "emulated",
    stop: asyncio.Event | None = None,
) -> None:
    """Show `nodes` of the world live under `clock`, until `stop` is set, a signal comes or the world ends."""
    stop = stop or _stop_on_signals()
    world = World(spec)
    farm = Farm(world, nodes, clock.now_ns(), directory, scale=clock.scale)
    life = Life(world, frozenset(nodes), farm, clock)
    await farm.open(clock)
    log.info("fleet_ready", nodes=len(nodes), directory=str(directory))
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
        operators = Operators(world, nodes, session, url=outcomes_url, secret_file=outcomes_secret_file, cluster=cluster)
        try:
            await life.live(operators, stop)
        finally:
            await farm.close()


class Life:
    """Goes from one thing to happen to the next; what the machine was too slow for is shown once, at its newest."""

    def __init__(self, world: World, nodes: frozenset[str], farm: Farm, clock: Clock) -> None:
        self._spec = world.spec
        self._farm = farm
        self._clock = clock
        self._shown_ns = clock.now_ns()
        self._events = deque(event for event in world.events if event.node in nodes and event.at_ns >= self._shown_ns)

    async def live(self, operators: Operators, stop: asyncio.Event) -> None:
        """Go on until `stop` is set or the world ends."""
        while self._shown_ns < self._spec.until_ns:
            due_ns = self._last_change(self._shown_ns) + self._spec.cadence_s * NS
            self._clock.expect("devices", due_ns)
            next_ns = min(due_ns, self._events[0].at_ns if self._events else due_ns)
            await _wait(self._clock, next_ns, stop)
            if stop.is_set():
                return
            now_ns = max(self._clock.now_ns(), next_ns)
            self._farm.say(self._until(now_ns))
            if now_ns >= due_ns:
                self._shown_ns = self._last_change(now_ns)
                self._farm.show(self._shown_ns)
                await operators.report(now_ns)

    def _last_change(self, now_ns: int) -> int:
        cadence_ns = self._spec.cadence_s * NS
        return now_ns - (now_ns - self._spec.start_ns - int(_SHOWN_AT * cadence_ns)) % cadence_ns

    def _until(self, now_ns: int) -> Iterator[KernelEvent]:
        while self._events and self._events[0].at_ns <= now_ns:
            yield self._events.popleft()


async def _wait(clock: Clock, at_ns: int, stop: asyncio.Event) -> None:
    waiting = asyncio.ensure_future(clock.wait_until(at_ns))
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((waiting, stopping), return_when=asyncio.FIRST_COMPLETED)
    for task in (waiting, stopping):
        task.cancel()


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop
