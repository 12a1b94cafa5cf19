"""Emulated nodes at all four of their contracts, whose faults come at random from a seeded generator; it counts what it has said."""

from __future__ import annotations

import asyncio
import mmap
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulators.bmc.server import Bmc
from emulators.exporter import ExporterFarm
from emulators.exporter_quirks import Quirks
from emulators.kernel_log import KernelLog
from emulators.nvml.machine import NvmlMachine
from emulators.state import ChassisState, GpuState, KernelEvent
from ingest.clock import NS

GPUS = 8
TICK_S, FAULT_EVERY_S, SAY_EVERY_S = 1.0, 2.0, 10.0
_PASSWORD = "forewarn-test"  # of an emulator
_XIDS = (13, 31, 43, 63, 74, 94, 119)


Fault = Callable[["SoakFleet", "Node"], Awaitable[None]]


@dataclass(eq=False)
class Node:
    """One node's devices."""

    name: str
    gpus: list[GpuState]
    chassis: ChassisState
    machine: NvmlMachine
    log: KernelLog
    boot_file: Path
    bmc: Bmc
    is_ill: bool = False
    is_silent: bool = False  # says nothing in its kernel log


class SoakFleet:
    """`nodes` nodes below `directory`; `clock_file` moves the wall clock of whoever was started with it."""

    def __init__(self, directory: Path, nodes: int, *, seed: int) -> None:
        self._directory = directory
        self.random = random.Random(seed)
        self._farm = ExporterFarm()
        self._urls: dict[str, str] = {}
        self.clock_file = directory / "moved"
        self.clock_file.write_bytes(bytes(8))
        self.nodes = [self._make(number) for number in range(nodes)]
        self.faults: Counter[str] = Counter()
        self.lines = len(self.nodes)  # of all logs; a boot says one
        self.overwritten = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def _make(self, number: int) -> Node:
        name, place = f"node{number:02d}", self._directory / f"node{number:02d}"
        place.mkdir()
        gpus = [
            GpuState(
                gpu_uuid=f"GPU-{number * GPUS + slot:08x}-0000-4000-8000-{number:012x}",
                serial=f"165{number:04d}{slot}",
                pci=f"0000:{0x1B + slot:02x}:00",
                gpu_index=slot,
                power_w=300.0 + slot,
            )
            for slot in range(GPUS)
        ]
        boot, chassis = boot_id(self.random), ChassisState(node=name, serial=f"CH{number}")
        (place / "boot_id").write_text(boot + "\n")
        return Node(
            name=name,
            gpus=gpus,
            chassis=chassis,
            machine=NvmlMachine(place / "nvml", gpus=gpus, boot_id=boot),
            log=KernelLog(place / "kmsg", boot_id=boot, boot_at_ns=time.time_ns()),
            boot_file=place / "boot_id",
            bmc=Bmc(
                name,
                read_state=lambda: (chassis, gpus),
                now_ns=time.time_ns,
                report_interval_s=1.0,
                profile="hgx" if number % 8 == 7 else "strict",
                password=_PASSWORD,
            ),
        )

    async def open(self) -> dict[str, Any]:
        """Start every server; gives the collector's sources."""
        (self._directory / "password").write_text(_PASSWORD)
        self._urls = await self._farm.start({node.name: lambda node=node: node.gpus for node in self.nodes})  # type: ignore[misc]
        bmcs = [(node.name, await node.bmc.start()) for node in self.nodes]
        return {
            "nvml": [
                {"node": node.name, "environment": node.machine.environment(), "boot_id_file": str(node.boot_file)} for node in self.nodes
            ],
            "exporter": self._urls,
            "kernel_log": {node.name: str(node.log.path) for node in self.nodes},
            "redfish": [{"node": name, "url": url, "password_file": str(self._directory / "password")} for name, url in bmcs],
        }

    async def live(self, until_s: float, faults: Sequence[Fault]) -> None:
        """Let time pass until then (monotonic seconds), with one fault after another on nodes that have none."""
        ticking = asyncio.create_task(self._tick_on())
        try:
            while time.monotonic() < until_s:
                if sound := [node for node in self.nodes if not node.is_ill]:
                    self._strike(self.random.choice(faults), self.random.choice(sound))
                await asyncio.sleep(FAULT_EVERY_S)
            await asyncio.gather(*self._tasks)
        finally:
            ticking.cancel()

    def _strike(self, fault: Fault, node: Node) -> None:
        self.faults[fault.__name__.replace("_", " ")] += 1
        task = asyncio.create_task(self._befall(fault, node))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _befall(self, fault: Fault, node: Node) -> None:
        node.is_ill = True
        try:
            await fault(self, node)
        finally:
            node.is_ill = False

    async def _tick_on(self) -> None:
        before_s = time.monotonic()
        while True:
            await asyncio.sleep(TICK_S)
            passed_s, before_s = time.monotonic() - before_s, time.monotonic()
            for node in self.nodes:
                for gpu in node.gpus:
                    gpu.uptime_s += passed_s
                    gpu.energy_mj_total += int(gpu.power_w * passed_s * 1000)
                    gpu.temp_c = 55.0 + self.random.randrange(10)
                node.chassis.inlet_temp_c = 24.0 + self.random.random()
                node.machine.show(node.gpus)
                if not node.is_silent and self.random.random() < 1 / SAY_EVERY_S:
                    self.say(node)
                await asyncio.sleep(0)

    def say(self, node: Node, times: int = 1) -> None:
        """Let the node's kernel tell XIDs of its GPUs."""
        before = node.log.path.stat().st_size
        for _ in range(times):
            gpu = self.random.choice(node.gpus)
            node.log.write(
                KernelEvent(
                    at_ns=time.time_ns(),
                    node=node.name,
                    kind="xid",
                    gpu_uuid=gpu.gpu_uuid,
                    serial=gpu.serial,
                    pci=gpu.pci,
                    code=self.random.choice(_XIDS),
                )
            )
        with node.log.path.open("rb") as log:
            log.seek(before)
            self.lines += log.read().count(b"\n")

    @contextmanager
    def quirk(self, node: Node, quirks: Quirks) -> Iterator[None]:
        """Let the node's exporter depart from the plain page meanwhile."""
        self._farm.quirks[node.name] = quirks
        try:
            yield
        finally:
            del self._farm.quirks[node.name]

    def move_clock(self, offset_s: int) -> None:
        """Set the wall clock of the collector so far from the true one."""
        with self.clock_file.open("r+b") as file, mmap.mmap(file.fileno(), 8) as moved:
            moved[:] = (offset_s * NS).to_bytes(8, "little", signed=True)

    async def close(self) -> None:
        """Stop every server."""
        await self._farm.stop()
        await asyncio.gather(*(node.bmc.stop() for node in self.nodes))
        for node in self.nodes:
            node.machine.close()


def boot_id(rng: random.Random) -> str:
    return f"{rng.getrandbits(32):08x}-0000-4000-8000-{rng.getrandbits(48):012x}"
