"""Every GPU model, driver and privilege is read for what it has, and a worker never outlives its supervisor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from emulators.nvml import semantics
from emulators.nvml.machine import NvmlMachine
from emulators.nvml.profiles import PROFILES, Profile
from emulators.nvml.variants import R470, R535, Variant, generation
from emulators.state import GpuState
from ingest.clock import ManualClock
from ingest.nvml.source import NvmlSource
from ingest.schema import LinkSample
from tests.ingest.nvml.test_nvml_faults import further, samples

pytestmark = pytest.mark.nvml
OpenSource = Callable[..., Awaitable[NvmlSource]]
MakeMachine = Callable[..., NvmlMachine]
ALL_BUT_3 = [False, False, False, True, False, False, False, False]


async def test_blackwell_links(make_machine: MakeMachine, open_source: OpenSource, clock: ManualClock) -> None:
    """NVLink 5 counters come per link and summed up, error rates unpacked."""
    machine = make_machine([])
    uuid = machine.seat_captured(next(profile for profile in PROFILES if profile.column == "GB200"))[0]
    with machine.edit(uuid) as gpu:
        semantics.set_nvlink5(gpu, 3, 215, 4)
        semantics.set_nvlink5(gpu, 3, 214, 1)
        semantics.set_nvlink5(gpu, 5, 222, semantics.packed_ber(3, 12))
    records = await (await open_source(environment=machine.environment())).read(clock.now_ns())
    row = samples(records)[0]
    link = next(link for link in records if isinstance(link, LinkSample) and (link.gpu_uuid, link.link) == (uuid, 3))
    assert (row.nvlink_active, row.nvlink_recovery_total, row.nvlink_replay_total) == (18, 4, None)
    assert (link.recovery_total, link.recovery_failed_total, link.replay_total, link.is_up) == (4, 1, None, True)
    assert further(records, uuid)["nvlink_symbol_ber"] == pytest.approx(3e-12)
    assert further(records, uuid)["nvlink_recovery_failed_total"] == 1


# What a cold row of each captured model does not have.
LACKS = {
    "A100-SXM4-40GB": {
        "uptime_s",
        "sw_power_cap_ns_total",
        "hw_thermal_ns_total",
        "fabric_state",
        "thermal_margin_c",
        "retired_pages_total",
    },
    "H100": {"uptime_s", "retired_pages_total"},
    "B200": {"uptime_s", "retired_pages_total"},
    "GB200": {"uptime_s", "retired_pages_total"},
    "GB300": {"uptime_s", "retired_pages_total"},
    "L40S": {"uptime_s", "memory_temp_c", "fabric_state", "pcie_correctable_total", "retired_pages_total"},
    "T4": {"uptime_s", "memory_temp_c", "fabric_state", "thermal_margin_c", "remapped_rows_ue_total", "sram_threshold_exceeded"},
}


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.column)
async def test_every_model_is_read(make_machine: MakeMachine, open_source: OpenSource, clock: ManualClock, profile: Profile) -> None:
    """Every captured model gives its rows; what it lacks is named as not supported in the cold row and left out of the next."""
    machine = make_machine([])
    machine.seat_captured(profile)
    source = await open_source(environment=machine.environment())
    cold = samples(await source.read(clock.now_ns()))
    clock.advance(60)
    warm = samples(await source.read(clock.now_ns()))
    assert len(cold) == len(profile.addresses)
    quality = cold[0].quality or {}
    assert LACKS[profile.column] <= set(quality)
    assert set(quality.values()) == {"not_supported"}
    assert (cold[0].gpu_model, cold[0].driver_version) == (profile.model, profile.driver_version)
    assert warm[0].quality is None
    assert warm[0].temp_c is not None
    assert warm[0].power_w is not None


@pytest.mark.parametrize("variant", [R470, R535, generation(1206), generation(1300)], ids=lambda variant: variant.name)
async def test_old_drivers_are_read(
    make_machine: MakeMachine, open_source: OpenSource, eight_gpus: list[GpuState], clock: ManualClock, variant: Variant
) -> None:
    """A driver without the younger calls and fields gives what it has, by the older ways."""
    machine = make_machine(eight_gpus, variant=variant)
    rows = samples(await (await open_source(environment=machine.environment())).read(clock.now_ns()))
    assert [(row.temp_c, row.power_w, row.energy_mj_total, row.nvlink_active) for row in rows] == [(30.0, 70.0, 0, 18)] * 8
    assert {row.clock_event_reasons for row in rows} == {1}


async def test_without_root(make_machine: MakeMachine, open_source: OpenSource, eight_gpus: list[GpuState], clock: ManualClock) -> None:
    """What only root may read is named as such, not as unsupported."""
    machine = make_machine(eight_gpus, is_privileged=False)
    row = samples(await (await open_source(environment=machine.environment())).read(clock.now_ns()))[0]
    assert (row.sram_threshold_exceeded, (row.quality or {})["sram_threshold_exceeded"]) == (None, "no_permission")


PARENT = """
import asyncio, os, sys
from ingest.clock import SystemClock
from ingest.nvml.source import NvmlSource

async def main():
    source = NvmlSource("gpu001", clock=SystemClock())
    await source.open()
    await source.read(SystemClock().now_ns())
    sys.stdout.write(str(source._supervisor._child.process.pid) + "\\n")
    sys.stdout.flush()
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_worker_dies_with_its_supervisor(machine: NvmlMachine) -> None:
    """A supervisor that is killed leaves no worker behind, not even one that hangs in the driver."""
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], env={**os.environ, **machine.environment()}, stdout=subprocess.PIPE, text=True, cwd=root
    ) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        machine.fault("nvmlEventSetCreate", latency_us=45_000_000)
        parent.send_signal(signal.SIGKILL)
    end = time.monotonic() + 10
    while Path(f"/proc/{worker}/stat").exists() and Path(f"/proc/{worker}/stat").read_text().split()[2] != "Z":
        assert time.monotonic() < end, "the worker lives on"
