"""The source reads every GPU of a machine through the real pynvml, and what happens to one GPU costs no other its row."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from emulators.nvml.machine import NvmlMachine
from emulators.state import GpuState
from ingest.clock import ManualClock
from ingest.nvml.source import NvmlSource
from ingest.schema import Event, GpuSample, InventoryRow, LinkSample, Observed, SourceState

pytestmark = pytest.mark.nvml
OpenSource = Callable[..., Awaitable[NvmlSource]]


def samples(records: list[Observed]) -> list[GpuSample]:
    return sorted((row for row in records if isinstance(row, GpuSample)), key=lambda row: row.gpu_uuid)


def events(records: list[Observed]) -> list[Event]:
    return [row for row in records if isinstance(row, Event)]


def states(records: list[Observed]) -> list[str]:
    return [row.state for row in records if isinstance(row, SourceState)]


async def test_first_poll_says_everything(open_source: OpenSource, clock: ManualClock) -> None:
    """The first poll of a healthy node gives eight cold rows, eight insertions, every link and the state ok."""
    source = await open_source()
    records = await source.read(clock.now_ns())
    rows = samples(records)
    assert [(row.tier, row.temp_c, row.power_w, row.ecc_mode, row.gpu_present) for row in rows] == [("cold", 30.0, 70.0, True, True)] * 8
    assert [(row.gpu_model, row.driver_version, row.pci) for row in rows][:1] == [("NVIDIA H100 80GB HBM3", "580.105.08", "0000:1b:00")]
    assert [row.action for row in records if isinstance(row, InventoryRow)] == ["insert"] * 8
    assert len([row for row in records if isinstance(row, LinkSample)]) == 8 * 18
    assert states(records) == ["ok"]


async def test_row_holds_what_the_gpu_shows(
    open_source: OpenSource, machine: NvmlMachine, eight_gpus: list[GpuState], clock: ManualClock
) -> None:
    """Values arrive in the units of the table, whatever unit NVML gives them in."""
    gpu = eight_gpus[2]
    gpu.temp_c, gpu.memory_temp_c, gpu.thermal_margin_c = 61.0, None, 23.0
    gpu.power_w, gpu.energy_mj_total, gpu.gpu_util_ratio, gpu.memory_used_mb = 412.5, 5_000_000_007, 0.93, 40_960.0
    gpu.dram_ce_volatile_total, gpu.sram_ue_volatile_total, gpu.dram_ce_aggregate_total = 17_700, 2, 90_000
    gpu.remapped_rows_ue_total, gpu.remap_pending, gpu.remap_banks_low = 3, True, 1
    gpu.links[4].is_up, gpu.links[5].recovery_total, gpu.recovery_action = False, 9, 1
    machine.show(eight_gpus)
    row = samples(await (await open_source()).read(clock.now_ns()))[2]
    assert (row.temp_c, row.memory_temp_c, row.thermal_margin_c) == (61.0, None, 23.0)
    assert (row.power_w, row.energy_mj_total, row.gpu_util_ratio, row.memory_used_mb) == (412.5, 5_000_000_007, 0.93, 40_960.0)
    assert (row.dram_ce_volatile_total, row.sram_ue_volatile_total) == (17_700, 2)
    assert (row.ecc_ce_volatile_total, row.ecc_ce_aggregate_total) == (17_700, 90_000)
    assert (row.remapped_rows_ue_total, row.remap_pending, row.remap_banks_low) == (3, True, 1)
    assert (row.nvlink_active, row.nvlink_recovery_total, row.recovery_action) == (17, 9, 1)
    assert (row.quality or {})["memory_temp_c"] == "not_supported"


async def test_tiers_follow_fleet_time(open_source: OpenSource, clock: ManualClock) -> None:
    """A poll asks for the slower tiers only when they are due; fields of a tier that is not due are None without a code."""
    source = await open_source(interval_s=10, warm_interval_s=60, cold_interval_s=3600, link_interval_s=3600)
    await source.read(clock.now_ns())
    clock.advance(10)
    hot = samples(await source.read(clock.now_ns()))[0]
    clock.advance(50)
    warm = samples(await source.read(clock.now_ns()))[0]
    assert (hot.tier, hot.temp_c, hot.ecc_ce_volatile_total, hot.quality) == ("hot", 30.0, None, None)
    assert (warm.tier, warm.ecc_ce_volatile_total, warm.ecc_mode) == ("warm", 0, None)


async def test_lost_gpu_costs_only_itself(
    open_source: OpenSource, machine: NvmlMachine, eight_gpus: list[GpuState], clock: ManualClock
) -> None:
    """A lost GPU gives a row without values and with the code lost; the other seven have theirs."""
    source = await open_source()
    await source.read(clock.now_ns())
    eight_gpus[3].is_lost = True
    machine.show(eight_gpus)
    clock.advance(60)
    records = await source.read(clock.now_ns())
    rows = samples(records)
    assert [row.temp_c for row in rows] == [30.0, 30.0, 30.0, None, 30.0, 30.0, 30.0, 30.0]
    assert (rows[3].quality or {})["temp_c"] == "lost"
    assert events(records) == []


async def test_vanished_gpu_is_an_explicit_row(
    open_source: OpenSource, machine: NvmlMachine, eight_gpus: list[GpuState], clock: ManualClock
) -> None:
    """A GPU that leaves the device list gives gpu_present = False in every poll and gpu_missing once; indices move, identities do not."""
    source = await open_source()
    await source.read(clock.now_ns())
    eight_gpus[3].is_hidden = True
    machine.show(eight_gpus)
    told = []
    for _ in range(2):
        clock.advance(60)
        records = await source.read(clock.now_ns())
        told.append([(event.kind, event.gpu_uuid) for event in events(records)])
        rows = samples(records)
        assert [row.gpu_present for row in rows] == [True, True, True, False, True, True, True, True]
        assert [row.gpu_index for row in rows] == [0, 1, 2, None, 3, 4, 5, 6]
        assert [row.serial for row in rows] == [gpu.serial for gpu in eight_gpus]
    assert told == [[("gpu_missing", eight_gpus[3].gpu_uuid)], []]


async def test_swapped_gpu_is_removed_and_inserted(
    open_source: OpenSource, machine: NvmlMachine, eight_gpus: list[GpuState], clock: ManualClock
) -> None:
    """Another GPU at the same PCI address ends the seat of the one before."""
    source = await open_source()
    await source.read(clock.now_ns())
    old = eight_gpus[5]
    eight_gpus[5] = GpuState(gpu_uuid="GPU-ffffffff-0000-4000-8000-000000000000", serial="1652524099999", pci=old.pci, gpu_index=5)
    machine.show(eight_gpus)
    clock.advance(60)
    records = await source.read(clock.now_ns())
    moves = [(row.action, row.gpu_uuid) for row in records if isinstance(row, InventoryRow)]
    assert moves == [("remove", old.gpu_uuid), ("insert", "GPU-ffffffff-0000-4000-8000-000000000000")]
    assert len(samples(records)) == 8
    assert events(records) == []


async def test_hung_gpu_costs_only_itself(open_source: OpenSource, machine: NvmlMachine, clock: ManualClock) -> None:
    """A GPU whose calls take 45 s gives a timeout row within the deadline, and the others are read at once from then on."""
    source = await open_source(deadline_s=0.5)
    await source.read(clock.now_ns())
    with machine.edit("GPU-00000003-0000-4000-8000-000000000000") as gpu:
        gpu.latency_us = 45_000_000
    clock.advance(60)
    started = time.monotonic()
    rows = samples(await source.read(clock.now_ns()))
    assert time.monotonic() - started < 1.5
    assert [row.temp_c is None for row in rows] == [False, False, False, True, False, False, False, False]
    assert (rows[3].quality or {})["temp_c"] == "timeout"
    clock.advance(60)
    started = time.monotonic()
    rows = samples(await source.read(clock.now_ns()))
    assert time.monotonic() - started < 0.3
    assert [row.temp_c is None for row in rows] == [False, False, False, True, False, False, False, False]


async def test_crash_costs_only_the_gpu_being_read(open_source: OpenSource, machine: NvmlMachine, clock: ManualClock) -> None:
    """A driver that kills the worker costs the GPU that was being read its row; the others are read by a new worker in the same poll."""
    source = await open_source()
    await source.read(clock.now_ns())
    machine.fault("nvmlDeviceGetMemoryInfo_v2", slot=3, action="abort")
    clock.advance(60)
    records = await source.read(clock.now_ns())
    rows = samples(records)
    assert [row.temp_c is None for row in rows] == [False, False, False, True, False, False, False, False]
    assert (rows[3].quality or {})["temp_c"] == "timeout"
    assert events(records) == []


async def test_xid_is_told_once(open_source: OpenSource, machine: NvmlMachine, eight_gpus: list[GpuState], clock: ManualClock) -> None:
    """An XID that happens after registration is one event, with its GPU and instance."""
    source = await open_source()
    await source.read(clock.now_ns())
    machine.post_xid(eight_gpus[6].gpu_uuid, 79, gpu_instance=5)
    told: list[Event] = []
    end = time.monotonic() + 5
    while not told and time.monotonic() < end:
        clock.advance(10)
        told = events(await source.read(clock.now_ns()))
    clock.advance(10)
    told += events(await source.read(clock.now_ns()))
    assert [(event.kind, event.code, event.gpu_uuid, event.gpu_instance) for event in told] == [("xid", 79, eight_gpus[6].gpu_uuid, 5)]


@pytest.mark.parametrize(("init_rc", "state"), [(9, "driver_not_loaded(9)"), (18, "driver_mismatch(18)"), (999, "nvml_unavailable(999)")])
async def test_unusable_nvml_says_nothing_about_hardware(
    open_source: OpenSource, machine: NvmlMachine, clock: ManualClock, init_rc: int, state: str
) -> None:
    """When NVML cannot be used there is one source state and no GPU row; when it can again, by a new process, all is as before."""
    wall_s = [0.0]
    source = await open_source(monotonic_s=lambda: wall_s[0])
    await source.read(clock.now_ns())
    with machine.edit_machine() as whole:
        whole.init_rc = init_rc
    clock.advance(60)
    records = await source.read(clock.now_ns())
    assert states(records) == [state]
    assert len(records) == 1
    with machine.edit_machine() as whole:
        whole.init_rc = 0
    wall_s[0] += 100.0
    clock.advance(60)
    records = await source.read(clock.now_ns())
    assert states(records) == ["ok"]
    assert [row.temp_c for row in samples(records)] == [30.0] * 8


async def test_missing_library_is_a_state(open_source: OpenSource, clock: ManualClock, tmp_path: Path) -> None:
    """A node without the library says so."""
    source = await open_source(environment={"LD_LIBRARY_PATH": str(tmp_path)})
    assert states(await source.read(clock.now_ns())) == ["library_not_found(12)"]
