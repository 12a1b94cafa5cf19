"""What a sick driver does stays with the GPU concerned, and what happens to a machine over time is followed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from emulators.nvml.machine import NvmlMachine
from emulators.nvml.profiles import support
from emulators.state import GpuState
from ingest.clock import ManualClock
from ingest.nvml.source import NvmlSource
from ingest.schema import Event, GpuSample, InventoryRow, Observed, OtherReading, SourceState

pytestmark = pytest.mark.nvml
OpenSource = Callable[..., Awaitable[NvmlSource]]
MakeMachine = Callable[..., NvmlMachine]
ALL_BUT_3 = [False, False, False, True, False, False, False, False]
FIRST = "GPU-00000000-0000-4000-8000-000000000000"
FOURTH = "GPU-00000003-0000-4000-8000-000000000000"


def samples(records: list[Observed]) -> list[GpuSample]:
    return sorted((row for row in records if isinstance(row, GpuSample)), key=lambda row: row.gpu_uuid)


def states(records: list[Observed]) -> list[str]:
    return [row.state for row in records if isinstance(row, SourceState)]


def further(records: list[Observed], uuid: str) -> dict[str, float | None]:
    return {row.name: row.value for row in records if isinstance(row, OtherReading) and row.device == uuid}


async def test_hang_that_holds_the_driver_costs_one_gpu(open_source: OpenSource, machine: NvmlMachine, clock: ManualClock) -> None:
    """When a hung call blocks all GPUs, the worker is replaced in the same poll and all but the GPU that hung have their values."""
    source = await open_source(deadline_s=0.5)
    await source.read(clock.now_ns())
    machine.fault("nvmlDeviceGetUtilizationRates", slot=3, latency_us=45_000_000, holds_lock=True)
    clock.advance(60)
    records = await source.read(clock.now_ns())
    assert [row.temp_c is None for row in samples(records)] == ALL_BUT_3
    assert states(records) == []
    machine.clear_faults()


async def test_driver_that_hangs_for_everybody_is_a_state(open_source: OpenSource, machine: NvmlMachine, clock: ManualClock) -> None:
    """When every GPU hangs, whoever asks, the state is hung and every GPU has a row with the code timeout."""
    source = await open_source(deadline_s=0.2)
    await source.read(clock.now_ns())
    machine.fault("nvmlDeviceGetCount_v2", latency_us=45_000_000)
    clock.advance(60)
    records = await source.read(clock.now_ns())
    assert states(records) == ["hung"]
    assert [(row.quality or {})["temp_c"] for row in samples(records)] == ["timeout"] * 8
    machine.clear_faults()


@pytest.mark.parametrize("call", ["nvmlDeviceGetUtilizationRates", "nvmlDeviceGetFieldValues"])
async def test_gpu_lost_in_the_middle_of_a_poll(open_source: OpenSource, machine: NvmlMachine, clock: ManualClock, call: str) -> None:
    """N02: when one call says that the GPU is lost, what other calls of the poll have read of it is discarded, until it answers again."""
    source = await open_source()
    await source.read(clock.now_ns())
    machine.fault(call, slot=3, rc=15)
    clock.advance(60)
    row = samples(await source.read(clock.now_ns()))[3]
    assert set((row.quality or {}).values()) == {"lost"}
    assert {"temp_c", "power_w", "energy_mj_total", "gpu_util_ratio", "ecc_ce_volatile_total"} <= set(row.quality or {})
    assert (row.temp_c, row.power_w, row.energy_mj_total, row.gpu_util_ratio, row.ecc_ce_volatile_total) == (None,) * 5
    assert row.latency_us is not None
    machine.clear_faults()
    clock.advance(60)
    rows = samples(await source.read(clock.now_ns()))
    assert [(row.temp_c, row.epoch, row.quality) for row in rows] == [(30.0, 0, None)] * 8


async def test_hung_gpu_comes_back_when_it_answers(open_source: OpenSource, machine: NvmlMachine, clock: ManualClock) -> None:
    """A GPU that overran has a timeout row that tells how long its call has taken so far, and values once the call has come back."""
    source = await open_source(deadline_s=0.3)
    await source.read(clock.now_ns())
    machine.fault("nvmlDeviceGetUtilizationRates", slot=3, latency_us=600_000, calls=1)
    clock.advance(60)
    row = samples(await source.read(clock.now_ns()))[3]
    assert (row.temp_c, (row.quality or {})["temp_c"]) == (None, "timeout")
    assert row.latency_us is not None
    assert row.latency_us > 200_000
    end = time.monotonic() + 60
    while row.temp_c is None:
        assert time.monotonic() < end
        clock.advance(60)
        row = samples(await source.read(clock.now_ns()))[3]


async def test_reload_is_a_new_epoch_and_no_loss(
    open_source: OpenSource, machine: NvmlMachine, eight_gpus: list[GpuState], clock: ManualClock
) -> None:
    """A driver reload makes handles stale: they are looked up again in the same poll, and counters begin a new epoch."""
    for gpu in eight_gpus:
        gpu.energy_mj_total, gpu.pcie_replay_total, gpu.uptime_s = 9_000_000, 12, 5000.0
    machine.show(eight_gpus)
    source = await open_source()
    before = samples(await source.read(clock.now_ns()))
    machine.reload_driver()
    clock.advance(60)
    after = samples(await source.read(clock.now_ns()))
    assert [(row.epoch, row.energy_mj_total) for row in before] == [(0, 9_000_000)] * 8
    assert [(row.epoch, row.energy_mj_total, row.quality) for row in after] == [(1, 0, None)] * 8
    clock.advance(60)
    assert samples(await source.read(clock.now_ns()))[0].tier == "cold"


async def test_reset_of_one_gpu_is_its_epoch_alone(open_source: OpenSource, machine: NvmlMachine, clock: ManualClock) -> None:
    """A GPU reset begins a new epoch of that GPU."""
    with machine.edit(FOURTH) as gpu:
        gpu.uptime_s, gpu.energy_mj = 5000, 777
    source = await open_source()
    await source.read(clock.now_ns())
    machine.reset_gpu(FOURTH)
    clock.advance(60)
    assert [row.epoch for row in samples(await source.read(clock.now_ns()))] == [0, 0, 0, 1, 0, 0, 0, 0]


async def test_upgrade_underneath_is_survived_by_a_new_worker(open_source: OpenSource, machine: NvmlMachine, clock: ManualClock) -> None:
    """A driver upgraded under the worker costs no poll: a new process loads the new library."""
    wall_s = [0.0]
    source = await open_source(monotonic_s=lambda: wall_s[0])
    await source.read(clock.now_ns())
    machine.reload_driver("595.91.07")
    clock.advance(60)
    records = await source.read(clock.now_ns())
    wall_s[0] += 100
    if not samples(records):
        clock.advance(60)
        records = await source.read(clock.now_ns())
    assert [row.temp_c for row in samples(records)] == [30.0] * 8
    assert {row.epoch for row in samples(records)} == {1}


def reboot(machine: NvmlMachine, boot_id_path: Path) -> None:
    machine.reboot("99999999-2222-3333-4444-555555555555")
    boot_id_path.write_text("99999999-2222-3333-4444-555555555555\n")


async def test_boot_ends_back_off(open_source: OpenSource, machine: NvmlMachine, clock: ManualClock, boot_id_path: Path) -> None:
    """A node that was down and has booted is read at its first poll, whatever the back-off, in a new boot's first epoch."""
    source = await open_source(monotonic_s=lambda: 0.0)
    await source.read(clock.now_ns())
    with machine.edit_machine() as whole:
        whole.init_rc = 9
    clock.advance(60)
    assert states(await source.read(clock.now_ns())) == ["driver_not_loaded(9)"]
    with machine.edit_machine() as whole:
        whole.init_rc = 0
    reboot(machine, boot_id_path)
    clock.advance(60)
    rows = samples(await source.read(clock.now_ns()))
    assert [(row.temp_c, row.epoch, row.boot_id) for row in rows] == [(30.0, 0, "99999999-2222-3333-4444-555555555555")] * 8


async def test_memory_outlasts_the_collector(
    open_source: OpenSource, machine: NvmlMachine, eight_gpus: list[GpuState], clock: ManualClock, tmp_path: Path
) -> None:
    """A GPU that vanished while the collector was down is missing, and known ones are not inserted again."""
    first = await open_source(memory_path=tmp_path / "memory.json")
    await first.read(clock.now_ns())
    await first.close()
    eight_gpus[3].is_hidden = True
    machine.show(eight_gpus)
    clock.advance(3600)
    second = await open_source(memory_path=tmp_path / "memory.json")
    records = await second.read(clock.now_ns())
    assert [(row.kind, row.gpu_uuid) for row in records if isinstance(row, Event)] == [("gpu_missing", FOURTH)]
    assert [row for row in records if isinstance(row, InventoryRow)] == []
    assert [row.gpu_present for row in samples(records)] == [True, True, True, False, True, True, True, True]


async def test_lost_since_before_the_start(
    open_source: OpenSource, machine: NvmlMachine, eight_gpus: list[GpuState], clock: ManualClock, tmp_path: Path
) -> None:
    """A GPU that was lost before the collector started is known by the index it had."""
    first = await open_source(memory_path=tmp_path / "memory.json")
    await first.read(clock.now_ns())
    await first.close()
    eight_gpus[3].is_lost = True
    machine.show(eight_gpus)
    second = await open_source(memory_path=tmp_path / "memory.json")
    rows = samples(await second.read(clock.now_ns()))
    assert (rows[3].gpu_uuid, (rows[3].quality or {})["temp_c"]) == (FOURTH, "lost")
    assert [row.temp_c is None for row in rows] == ALL_BUT_3


async def test_event_wait_that_fails_is_a_state_and_does_not_spin(
    open_source: OpenSource, machine: NvmlMachine, eight_gpus: list[GpuState], clock: ManualClock
) -> None:
    """While events cannot be waited for the state says so and the driver is asked few times; afterwards events arrive again."""
    source = await open_source()
    await source.read(clock.now_ns())
    machine.fault("nvmlEventSetWait_v2", rc=999)
    machine.post_xid(FIRST, 13)  # ends the wait that is under way
    said: list[str] = []
    end = time.monotonic() + 5
    while "events_down" not in said and time.monotonic() < end:
        clock.advance(10)
        said += states(await source.read(clock.now_ns()))
    assert "events_down" in said
    machine.clear_faults()
    heard: list[int | None] = []
    end = time.monotonic() + 10
    events = source.events()
    while 79 not in heard and time.monotonic() < end:
        machine.post_xid(FOURTH, 79)
        await asyncio.sleep(0)
        heard += [row.code for row in await events.read(clock.now_ns()) if isinstance(row, Event)]
    assert 79 in heard


async def test_hard_return_codes_are_events_once(open_source: OpenSource, machine: NvmlMachine, clock: ManualClock) -> None:
    """A corrupted InfoROM and a reset that is required are events, once, whatever else the GPU answers."""
    with machine.edit(FIRST) as gpu:
        gpu.inforom_rc = 14
        support(gpu, fabric_state=16)
    source = await open_source()
    told = []
    for _ in range(2):
        told += [(row.kind, row.detail, row.gpu_uuid) for row in await source.read(clock.now_ns()) if isinstance(row, Event)]
        clock.advance(86_400)
    assert told == [("error", "NVML_ERROR_CORRUPTED_INFOROM", FIRST), ("error", "NVML_ERROR_RESET_REQUIRED", FIRST)]


async def test_unknown_code_costs_one_value(open_source: OpenSource, machine: NvmlMachine, clock: ManualClock) -> None:
    """A call that fails with UNKNOWN costs its value alone: the other values and GPUs are kept."""
    machine.fault("nvmlDeviceGetUtilizationRates", slot=3, rc=999)
    rows = samples(await (await open_source()).read(clock.now_ns()))
    assert (rows[3].gpu_util_ratio, rows[3].temp_c, (rows[3].quality or {})["gpu_util_ratio"]) == (None, 30.0, "absent")
    assert "gpu_util_ratio" not in (rows[2].quality or {})


async def test_implausible_values_are_taken_back(
    open_source: OpenSource, machine: NvmlMachine, eight_gpus: list[GpuState], clock: ManualClock
) -> None:
    """Power beyond three times the limit and utilisation beyond 100 % are not believed, though the driver says success."""
    eight_gpus[0].power_w, eight_gpus[1].gpu_util_ratio = 9_000.0, 1.83
    machine.show(eight_gpus)
    rows = samples(await (await open_source()).read(clock.now_ns()))
    assert (rows[0].power_w, (rows[0].quality or {})["power_w"]) == (None, "out_of_range")
    assert (rows[1].gpu_util_ratio, (rows[1].quality or {})["gpu_util_ratio"]) == (None, "out_of_range")


async def test_further_signals_are_told_when_they_change(open_source: OpenSource, machine: NvmlMachine, clock: ManualClock) -> None:
    """What has no column of its own is told at first sight and when it changes."""
    source = await open_source()
    first = further(await source.read(clock.now_ns()), FIRST)
    assert (first["pcie_bad_tlp_total"], first["slowdown_margin_c"], first["remap_banks_max"], first["inforom_valid"]) == (0, -2, 2560, 1)
    with machine.edit(FIRST) as gpu:
        gpu.pcie_errors[3] = 7
    clock.advance(60)
    assert further(await source.read(clock.now_ns()), FIRST) == {"pcie_bad_tlp_total": 7}
