"""What the field cases come to behind the collectors: growth of counters, files of the lake, and what is decided."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from alerting.rules import GpuFlags, RulePolicy, findings
from alerting.schema import Action
from emulators.nvml.steps import read_steps
from ingest.nvml.inspect import inspect
from ingest.schema import GPU_SAMPLES, GpuSample
from tests.forewarn.pages import CASES, features_of, lake_of, lake_of_polls, pages_of, rollups_of
from tests.nvml_machines import nvml_cache

__all__ = ["nvml_cache"]


@pytest.mark.parametrize("left_out", [None, "ECC_SBE_AGG", "ECC_SBE_VOL"], ids=["both counters", "volatile alone", "lifetime alone"])
def test_d13_growth_over_a_reload_is_the_value_after_it(tmp_path: Path, left_out: str | None) -> None:
    """D13: after a driver reload 3 errors and 2 replays are the growth, never a difference; it is one reset, and nothing went back.

    Both counters of errors say 3: the volatile one by its value after the reset, the one for life by its difference.
    """
    pages = pages_of("D13")
    if left_out:
        pages = {at: b"".join(line for line in page.splitlines(True) if left_out.encode() not in line) for at, page in pages.items()}
    (row,) = rollups_of(lake_of(tmp_path, pages)).iter_rows(named=True)
    assert (row["ecc_ce"], row["pcie_replay"], row["resets"], row["went_back"]) == (3, 2, 1, 0)
    assert (row["energy_mj_total"], row["epoch"]) == (4200, 1)


def test_d14_there_is_no_growth_over_a_lone_step_back(tmp_path: Path) -> None:
    """D14: a counter that alone steps back has no growth, neither 1 nor 149, and is counted."""
    (row,) = rollups_of(lake_of(tmp_path, pages_of("D14"))).iter_rows(named=True)
    assert (row["pcie_replay"], row["resets"], row["went_back"]) == (None, 0, 1)


def test_d33_survivors_of_a_renumbering_have_not_grown(tmp_path: Path) -> None:
    """D33: the counters of the three GPUs that are left stay theirs, though their indices have changed."""
    rows = rollups_of(lake_of(tmp_path, pages_of("D33")))
    assert {row["gpu_uuid"][11]: row["ecc_ce"] for row in rows.iter_rows(named=True) if row["absent_polls"] == 0} == {
        "0": 0,
        "2": 0,
        "3": 0,
    }


def test_d37_nothing_non_finite_reaches_parquet(tmp_path: Path) -> None:
    """D37: no number of any file is NaN or infinite."""
    samples = pl.read_parquet(lake_of(tmp_path, pages_of("D37")).files(GPU_SAMPLES), hive_partitioning=False)
    numbers = [value for column in samples.select(pl.col(pl.Float64)) for value in column if value is not None]
    assert numbers == [410.1]
    assert all(map(math.isfinite, numbers))


@pytest.mark.nvml
async def test_n11_a_late_row_is_a_feature(nvml_cache: Path, tmp_path: Path) -> None:
    """N11: how long the GPU that hangs had been asked at the deadline is its latency of the hour, the largest of the node by far."""
    steps = read_steps(CASES.parent / "nvml" / "N11.json")
    machine = steps.machine(tmp_path / "state", nvml_cache)
    polls = [poll async for poll in inspect(machine.environment(), lambda: steps.take(machine), deadline_s=0.5)]
    machine.close()
    took_us = [row.latency_us for poll in polls for row in poll if isinstance(row, GpuSample) and row.gpu_index == 3]
    features = features_of(lake_of_polls(tmp_path, polls, datetime(2026, 1, 1, 0, 10, tzinfo=UTC)))
    latency_ms = features["latency_max_1h_ms"].to_list()
    assert latency_ms[3] == max(took or 0 for took in took_us) / 1e3
    assert latency_ms[3] > 300
    assert all(other is not None and other < latency_ms[3] for other in latency_ms[:3] + latency_ms[4:])


@pytest.mark.nvml
async def test_n20_a_recovery_action_speaks_by_itself(nvml_cache: Path, tmp_path: Path) -> None:
    """N20: the driver's wish for a reset is a criterion without any score, counter or event; the seven other GPUs raise none."""
    steps = read_steps(CASES.parent / "nvml" / "N20.json")
    machine = steps.machine(tmp_path / "state", nvml_cache)
    polls = [poll async for poll in inspect(machine.environment(), lambda: steps.take(machine))]
    machine.close()
    rows = [row for row in polls[-1] if isinstance(row, GpuSample)]
    names = ("node", "gpu_uuid", "observed_at_ns", "recovery_action", "remap_failure", "sram_threshold_exceeded", "remap_banks_none")
    flags = [GpuFlags(**{name: getattr(row, name) for name in names}) for row in rows]
    held = [finding for finding in findings([], flags, RulePolicy(), rows[0].observed_at_ns) if finding.holds]
    assert [(finding.code, finding.component, finding.response.action) for finding in held] == [
        ("vendor.recovery_action", "GPU-00000001-0000-4000-8000-000000000000", Action.DRAIN_AFTER_JOB)
    ]
