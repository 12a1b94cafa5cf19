"""Every NVML case from the field becomes what it should: no failure of one GPU, call or library costs anything else."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from emulators.nvml.machine import NvmlMachine
from emulators.nvml.steps import read_steps
from emulators.nvml.variants import generation
from emulators.state import GpuState
from ingest.nvml.inspect import inspect
from ingest.nvml.signals import COLD, columns_of_tier
from ingest.schema import Event, GpuSample, Observed, OtherReading, SourceState

pytestmark = pytest.mark.nvml
CASES = Path(__file__).parents[2] / "cases" / "nvml"
OTHERS = [0, 1, 2, 4, 5, 6, 7]
SLACK_S = 15.0  # a third of the 45 s that the hung call takes: a busy host fails no test


class Polls:
    """The polls of one case and how long each took."""

    def __init__(self, polls: list[list[Observed]], took_s: list[float]) -> None:
        self.polls = polls
        self.took_s = took_s

    def rows(self, poll: int = -1) -> list[GpuSample]:
        """Give the rows of a poll by slot."""
        return sorted((row for row in self.polls[poll] if isinstance(row, GpuSample)), key=lambda row: row.gpu_uuid)

    def states(self) -> list[str]:
        """Name the states that were said."""
        return [row.state for poll in self.polls for row in poll if isinstance(row, SourceState)]

    def events(self) -> list[tuple[str, str | None]]:
        """Give the events."""
        return [(row.kind, row.gpu_uuid) for poll in self.polls for row in poll if isinstance(row, Event)]


@pytest.fixture
def case(nvml_cache: Path, tmp_path: Path, request: pytest.FixtureRequest) -> object:
    """Run a case by its id."""

    async def run(name: str, **options: float) -> Polls:
        steps = read_steps(CASES / f"{name}.json")
        machine = steps.machine(tmp_path / "state", nvml_cache)
        polls, took_s, before_s = [], [], time.monotonic()
        async for poll in inspect(machine.environment(), lambda: steps.take(machine), **options):  # type: ignore[arg-type]
            polls.append(poll)
            took_s.append(time.monotonic() - before_s)
            before_s = time.monotonic()
        return Polls(polls, took_s)

    return run


def have_values(rows: list[GpuSample], slots: list[int]) -> bool:
    return all(rows[slot].temp_c == 30.0 and rows[slot].power_w == 70.0 and rows[slot].ecc_ce_volatile_total == 0 for slot in slots)


@pytest.mark.parametrize("name", ["N01", "N02"])
async def test_lost_gpu(case, name: str) -> None:  # type: ignore[no-untyped-def]
    """N01, N02: seven rows with values, one row with none and the code lost, when the GPU is gone for good."""
    polls = await case(name)
    rows = polls.rows()
    assert len(rows) == 8
    assert have_values(rows, OTHERS)
    assert (rows[3].temp_c, rows[3].energy_mj_total, rows[3].gpu_uuid) == (None, None, "GPU-00000003-0000-4000-8000-000000000000")
    assert set((rows[3].quality or {}).values()) == {"lost"}
    assert polls.events() == []


async def test_gpu_lost_between_two_calls(nvml_cache: Path, eight_gpus: list[GpuState], tmp_path: Path) -> None:
    """N02: what was read of a GPU before the call that says it is lost is discarded, in every column that it had.

    The driver is one of 12.0, which lacks the power as a field: the call that the case makes fail is really made, after most others.
    """
    steps, trace = read_steps(CASES / "N02.json"), tmp_path / "trace"
    machine = NvmlMachine(tmp_path / "state", boot_id="b", gpus=eight_gpus, cache_dir=nvml_cache, variant=generation(1200))
    lose = replace(steps, steps=steps.steps[:1])  # the GPU itself still answers every other call
    environment = {**machine.environment(), "NVML_EMU_TRACE": str(trace)}
    polls = Polls([poll async for poll in inspect(environment, lambda: lose.take(machine))], [])
    machine.close()
    assert {line.split(maxsplit=1)[1] for line in trace.read_text().splitlines() if line.endswith(" 15")} == {"nvmlDeviceGetPowerUsage 15"}
    had = {column for column in columns_of_tier(COLD) if getattr(polls.rows(0)[3], column) is not None}
    assert {"temp_c", "power_w", "energy_mj_total", "gpu_util_ratio", "ecc_ce_volatile_total"} <= had
    for poll in (1, 2):
        assert have_values(polls.rows(poll), OTHERS)
        row = polls.rows(poll)[3]
        assert {(getattr(row, column), (row.quality or {}).get(column)) for column in had} == {(None, "lost")}
        assert (row.nvlink_active, set((row.quality or {}).values())) == (None, {"lost"})


@pytest.mark.parametrize(("name", "state"), [("N04", "driver_mismatch(18)"), ("N05", "nvml_unavailable(999)")])
async def test_library_that_cannot_be_used(case, name: str, state: str) -> None:  # type: ignore[no-untyped-def]
    """N04, N05: the collector stays up and says a state; no GPU is said to have failed or gone."""
    polls = await case(name)
    assert polls.states() == ["ok", state]
    assert polls.rows() == []
    assert polls.events() == []


async def test_old_driver(case) -> None:  # type: ignore[no-untyped-def]
    """N07: a missing symbol costs the process count alone, which is told as one that this driver has not."""
    polls = await case("N07")
    assert have_values(polls.rows(0), list(range(8)))
    counts = [row for poll in polls.polls for row in poll if isinstance(row, OtherReading) and row.name == "compute_process_count"]
    assert len({row.device for row in counts}) == len(counts) == 8
    assert {(row.value, row.quality) for row in counts} == {(None, "not_supported")}
    assert polls.states() == ["ok"]


async def test_crash(case) -> None:  # type: ignore[no-untyped-def]
    """N09: the worker is started anew at once, the GPU that was being read is passed over, the others have their rows in both polls."""
    polls = await case("N09")
    for poll in (1, 2):
        assert have_values(polls.rows(poll), OTHERS)
        assert (polls.rows(poll)[3].quality or {})["temp_c"] == "timeout"
    assert polls.states() == ["ok"]


async def test_field_that_fails_inside_a_good_call(case) -> None:  # type: ignore[no-untyped-def]
    """N10: a field's own return code makes that value unknown although the call succeeded."""
    rows = (await case("N10")).rows()
    assert (rows[0].memory_temp_c, (rows[0].quality or {})["memory_temp_c"]) == (None, "not_supported")
    assert rows[1].memory_temp_c == 38.0


async def test_gpu_that_blocks(case) -> None:  # type: ignore[no-untyped-def]
    """N11: when the calls of one GPU take 45 s, a poll ends at its deadline with the values of the other seven and a timeout row.

    The row says how long the GPU has been asked.
    """
    polls = await case("N11", deadline_s=0.5)
    rows = polls.rows(1)
    assert max(polls.took_s[1:]) < 0.5 + SLACK_S
    assert have_values(rows, OTHERS)
    assert (rows[3].quality or {})["temp_c"] == "timeout"
    assert rows[3].latency_us is not None
    assert 300_000 < rows[3].latency_us < 45_000_000
    assert all(row.latency_us is not None for row in rows)


async def test_count_shrinks(case) -> None:  # type: ignore[no-untyped-def]
    """N13: the UUID that is gone is missing, told once, in a row of its own in every poll."""
    polls = await case("N13")
    gone = "GPU-00000007-0000-4000-8000-000000000000"
    assert polls.events() == [("gpu_missing", gone)]
    assert [row.use for poll in polls.polls for row in poll if isinstance(row, Event)] == ["precursor"]
    for poll in (1, 2):
        assert [row.gpu_uuid for row in polls.rows(poll) if row.gpu_present is False] == [gone]
        assert have_values(polls.rows(poll), list(range(7)))


async def test_ecc_off(case) -> None:  # type: ignore[no-untyped-def]
    """N14: with ECC off every ECC counter is unknown, not zero, and the mode says why."""
    row = (await case("N14")).rows()[0]
    counters = [name for name in GpuSample.__struct_fields__ if name.startswith(("ecc_", "dram_", "sram_")) and name.endswith("_total")]
    assert len(counters) == 8
    assert {(getattr(row, name), (row.quality or {}).get(name)) for name in counters} == {(None, "not_supported")}
    assert row.ecc_mode is False


async def test_mig_on(case) -> None:  # type: ignore[no-untyped-def]
    """N15: with MIG on utilisation, remaps and link states are unknown, and nothing says that the GPU is ill."""
    polls = await case("N15")
    row = polls.rows()[0]
    assert (row.gpu_util_ratio, row.remapped_rows_ue_total, row.nvlink_active) == (None, None, None)
    assert {(row.quality or {})[name] for name in ("gpu_util_ratio", "remapped_rows_ue_total", "nvlink_active")} == {"not_supported"}
    assert row.temp_c == 30.0
    assert polls.events() == []


async def test_recovery_action_alone(case) -> None:  # type: ignore[no-untyped-def]
    """N20: the recovery action is read though every counter is clean."""
    rows = (await case("N20")).rows()
    assert [row.recovery_action for row in rows] == [0, 1, 0, 0, 0, 0, 0, 0]
