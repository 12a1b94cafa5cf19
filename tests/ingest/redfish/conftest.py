"""An emulated BMC, a source that watches it, and a way to wait for what the source says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from emulators.bmc.server import Bmc
from emulators.state import ChassisState, GpuState
from ingest.clock import Clock, ScaledClock, parse_time
from ingest.redfish.source import RedfishSource
from ingest.redfish.target import RedfishTarget
from ingest.redfish.watch import Patience
from ingest.schema import Observed

SCALE = 1000.0  # a report every 100 fleet seconds is one every 100 ms
REPORT_S = 100.0
PATIENCE = Patience(poll_s=200.0, answer_s=2.0, probe_s=0.3, first_delay_s=0.05, most_delay_s=0.2, login_s=0.2, trial_s=0.3)


@dataclass
class Rig:
    """One BMC on one port, the source that watches it, and all that it has said."""

    clock: Clock
    chassis: ChassisState
    gpus: list[GpuState] = field(default_factory=list)
    rows: list[Observed] = field(default_factory=list)
    bmc: Bmc | None = None
    source: RedfishSource | None = None
    port: int = 0

    async def serve(self, **options: Any) -> Bmc:
        """Start the BMC; a second time on the same port."""
        defaults = {"report_interval_s": REPORT_S, "fleet_seconds_per_wall_second": SCALE}
        self.bmc = Bmc("bmc1", read_state=lambda: (self.chassis, self.gpus), now_ns=self.clock.now_ns, **{**defaults, **options})
        url = await self.bmc.start(port=self.port)
        self.port = int(url.rpartition(":")[2])
        return self.bmc

    async def watch(self, **options: Any) -> RedfishSource:
        """Start the source."""
        target = RedfishTarget(url=f"http://127.0.0.1:{self.port}", username="forewarn", password=options.pop("password", "forewarn-test"))
        self.source = RedfishSource({"gpu001": target}, clock=self.clock, patience=PATIENCE, **options)
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


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """Offer a rig whose parts are started by the test and stopped after it."""
    rig = Rig(ScaledClock(parse_time("2026-01-02T03:00:00Z"), SCALE), ChassisState(node="gpu001", serial="CH1"))
    yield rig
    if rig.source is not None:
        await rig.source.close()
    if rig.bmc is not None:
        await rig.bmc.stop()
