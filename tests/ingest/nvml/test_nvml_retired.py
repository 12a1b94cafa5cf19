"""A way of asking that a driver retires gives place to the next one in the same poll, and never changes what a value means in silence."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from emulators.nvml.machine import NvmlMachine
from emulators.nvml.steps import read_steps
from emulators.state import GpuState
from ingest.clock import ManualClock
from ingest.nvml.source import NvmlSource
from ingest.schema import GpuSample
from tests.ingest.nvml.test_nvml_faults import samples

pytestmark = pytest.mark.nvml
OpenSource = Callable[..., Awaitable[NvmlSource]]
N21 = Path(__file__).parents[2] / "cases" / "nvml" / "N21.json"
DEPRECATED = 26
# What each call gives that has another way, which must give the same.
OTHER_WAYS = {
    "nvmlDeviceGetFieldValues": {
        "temp_c": 41.0,
        "power_w": 412.5,
        "energy_mj_total": 9_000_000,
        "pcie_replay_total": 12,
        "ecc_ce_volatile_total": 5,
        "dram_ce_volatile_total": 5,
        "ecc_ue_aggregate_total": 3,
    },
    "nvmlDeviceGetCurrentClocksEventReasons": {"clock_event_reasons": 4},
    "nvmlDeviceGetMemoryInfo_v2": {"memory_total_mb": 81_559.0},
    "nvmlDeviceGetEnforcedPowerLimit": {"power_limit_w": 700.0},
    "nvmlDeviceGetGpuFabricInfoV": {"fabric_state": 3},
}


@pytest.fixture
def working(machine: NvmlMachine, eight_gpus: list[GpuState]) -> NvmlMachine:
    """Give a machine whose first GPU works, so that no value is zero for want of anything to tell."""
    gpu = eight_gpus[0]
    gpu.temp_c, gpu.power_w, gpu.memory_used_mb, gpu.clock_event_reasons = 41.0, 412.5, 40_960.0, 4
    gpu.energy_mj_total, gpu.pcie_replay_total = 9_000_000, 12
    gpu.dram_ce_volatile_total, gpu.dram_ue_aggregate_total = 5, 3
    machine.show(eight_gpus)
    return machine


async def polled(source: NvmlSource, clock: ManualClock) -> GpuSample:
    """Poll once more and give the row of the first GPU."""
    clock.advance(60)
    return samples(await source.read(clock.now_ns()))[0]


@pytest.mark.parametrize("call", OTHER_WAYS)
async def test_retired_call_leaves_no_gap(open_source: OpenSource, working: NvmlMachine, clock: ManualClock, call: str) -> None:
    """N21: what a retired call gave comes by the next way, in the poll in which it is first refused and in the one after it."""
    source = await open_source()
    rows = [await polled(source, clock)]
    working.fault(call, rc=DEPRECATED)
    rows += [await polled(source, clock), await polled(source, clock)]
    given = OTHER_WAYS[call]
    assert [{name: getattr(row, name) for name in given} for row in rows] == [given] * 3
    assert [set(given) & set(row.quality or {}) for row in rows] == [set()] * 3


@pytest.mark.parametrize("further", [(), ("nvmlDeviceGetFieldValues",)], ids=["field 308 is left", "TemperatureV is left"])
async def test_retired_temperature(open_source: OpenSource, working: NvmlMachine, clock: ManualClock, further: tuple[str, ...]) -> None:
    """N21: on a driver that has retired nvmlDeviceGetTemperature the field, or else TemperatureV, gives the temperature of every poll."""
    source = await open_source()
    before = await polled(source, clock)
    read_steps(N21).take(working)
    for call in further:
        working.fault(call, rc=DEPRECATED)
    rows = [before, await polled(source, clock), await polled(source, clock)]
    assert [(row.temp_c, (row.quality or {}).get("temp_c")) for row in rows] == [(41.0, None)] * 3


async def test_oldest_call_for_the_temperature(open_source: OpenSource, working: NvmlMachine, clock: ManualClock) -> None:
    """When neither the field nor TemperatureV is to be had, nvmlDeviceGetTemperature gives the temperature."""
    source = await open_source()
    before = await polled(source, clock)
    for call in ("nvmlDeviceGetFieldValues", "nvmlDeviceGetTemperatureV"):
        working.fault(call, rc=DEPRECATED)
    rows = [before, await polled(source, clock), await polled(source, clock)]
    assert [(row.temp_c, (row.quality or {}).get("temp_c")) for row in rows] == [(41.0, None)] * 3


async def test_older_memory_call_says_that_it_counts_the_reserved_part(
    open_source: OpenSource, working: NvmlMachine, clock: ManualClock
) -> None:
    """The first version of the memory call counts 480 MiB of an H100 as used that the second does not: every such value is marked."""
    source = await open_source()
    rows = [await polled(source, clock)]
    working.fault("nvmlDeviceGetMemoryInfo_v2", rc=DEPRECATED)
    rows += [await polled(source, clock), await polled(source, clock)]
    working.clear_faults()
    clock.advance(3600)  # a cold poll asks for everything again
    rows.append(await polled(source, clock))
    told = [(row.memory_used_mb, row.memory_total_mb, (row.quality or {}).get("memory_used_mb")) for row in rows]
    plain, marked = (40_960.0, 81_559.0, None), (41_440.0, 81_559.0, "with_reserved")
    assert told == [plain, marked, marked, plain]
