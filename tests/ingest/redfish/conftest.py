"""An emulated BMC, a source that watches it, and a way to wait for what the source says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from emulators.bmc.server import Bmc
from emulators.state import ChassisState, GpuState
from ingest.clock import Clock, ScaledClock, parse_time
from ingest.redfish.source import RedfishSource
from ingest.redfish.target import RedfishTarget
from ingest.redfish.watch import Patience
from ingest.schema import ChassisReading, Event, SourceState

SCALE = 1000.0  # a report every 100 fleet seconds is one every 100 ms
REPORT_S = 100.0
PATIENCE = Patience(
    poll_s=200.0, answer_s=2.0, probe_s=0.3, first_delay_s=0.05, most_delay_s=0.2, login_s=0.2, trial_s=0.3, relearn_s=0.3, check_s=0.2
)


@dataclass
class Rig:
    """One BMC on one port, the source that watches it, and all that it has said."""

    clock: Clock
    chassis: ChassisState
    gpus: list[GpuState] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)
    bmcs: list[Bmc] = field(default_factory=list)
    source: RedfishSource | None = None
    urls: list[str] = field(default_factory=list)

    @property
    def bmc(self) -> Bmc:
        """The BMC started last."""
        return self.bmcs[-1]

    async def serve(self, *, port: int = 0, tls: Any = None, setup: Callable[[Bmc], None] = lambda _: None, **options: Any) -> Bmc:
        """Start a BMC; `setup` changes it before it is reachable."""
        defaults = {"report_interval_s": REPORT_S, "sleep": lambda fleet_s: asyncio.sleep(fleet_s / SCALE)}
        bmc = Bmc("bmc1", read_state=lambda: (self.chassis, self.gpus), now_ns=self.clock.now_ns, **{**defaults, **options})
        setup(bmc)
        self.bmcs.append(bmc)
        self.urls.append(await bmc.start(port=port, tls=tls))
        return bmc

    def target(self, number: int = -1, **options: Any) -> RedfishTarget:
        """Where a BMC is."""
        return RedfishTarget(**{"url": self.urls[number], "username": "forewarn", "password": "forewarn-test", **options})

    async def watch(self, targets: dict[str, RedfishTarget] | None = None, **options: Any) -> RedfishSource:
        """Start the source."""
        self.source = RedfishSource(targets or {"gpu001": self.target()}, **{"clock": self.clock, "patience": PATIENCE, **options})
        await self.source.open()
        return self.source

    async def until(self, find: Callable[[list[Any]], Any], deadline_s: float = 10.0) -> Any:
        """Read until `find` finds something among all that was said, and return that."""
        assert self.source is not None
        async with asyncio.timeout(deadline_s):
            while not (found := find(self.rows)):
                await asyncio.sleep(0.01)
                self.rows += await self.source.read(self.clock.now_ns())
        return found

    def readings(self, quantity: str, node: str = "gpu001") -> list[ChassisReading]:
        """List the readings of a quantity."""
        return [row for row in self.rows if isinstance(row, ChassisReading) and row.quantity == quantity and row.node == node]

    @property
    def events(self) -> list[Event]:
        """List the events."""
        return [row for row in self.rows if isinstance(row, Event)]

    @property
    def states(self) -> list[str]:
        """List the states in order."""
        return [row.state for row in self.rows if isinstance(row, SourceState)]

    @property
    def details(self) -> str:
        """Tell all that was said about the source."""
        return "\n".join(f"{row.state}: {row.detail}" for row in self.rows if isinstance(row, SourceState))


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """Offer a rig whose parts are started by the test and stopped after it."""
    rig = Rig(ScaledClock(parse_time("2026-01-02T03:00:00Z"), SCALE), ChassisState(node="gpu001", serial="CH1"))
    yield rig
    if rig.source is not None:
        await rig.source.close()
    for bmc in rig.bmcs:
        await bmc.stop()


@pytest.fixture
def cases() -> Path:
    """Folder of the Redfish field cases."""
    return Path(__file__).resolve().parents[2] / "cases" / "redfish"


@pytest.fixture
def received_at_ns() -> int:
    """When the recorded cases are taken to have come."""
    return parse_time("2026-01-02T03:04:10Z")


@pytest.fixture
def eight_gpus() -> list[GpuState]:
    """Eight GPUs with serial numbers and UUIDs of their own."""
    return [
        GpuState(gpu_uuid=f"GPU-0000000{slot}-1111-2222-3333-444444444444", serial=f"165{slot}", pci=f"0000:{slot:02x}:00", gpu_index=slot)
        for slot in range(8)
    ]
