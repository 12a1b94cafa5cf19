"""The roll-up adds samples up once, whatever the order and pieces in which they come."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from features import engine
from features.buckets import GPU_ROLLUPS_1D, GPU_ROLLUPS_1H, GPU_ROLLUPS_5M, NODE_ROLLUPS_1H
from features.rollup import Rollup, roll_up
from ingest.lake import Lake
from ingest.schema import CHASSIS_READINGS, GPU_SAMPLES

Read = Callable[[Any], list[dict[str, Any]]]
At = Callable[..., datetime]
_ADDED = ("polls", "pcie_replay", "ecc_ce", "nvlink_crc", "load_polls", "hw_thermal_s", "elapsed_s")
HOUR = timedelta(hours=1)


def _totals(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], tuple[float | None, ...]]:
    """Add up the parts of each bucket."""
    totals: dict[tuple[Any, ...], list[float | None]] = {}
    for row in rows:
        kept = totals.setdefault((row["gpu_uuid"], row["source"], row["started_at"]), [None] * len(_ADDED))
        for place, name in enumerate(_ADDED):
            if row[name] is not None:
                kept[place] = (kept[place] or 0) + row[name]
    return {key: tuple(None if value is None else round(value, 6) for value in values) for key, values in totals.items()}


def test_a_second_run_adds_nothing(lake: Lake, sampled: Callable[..., None], at: At) -> None:
    """What is rolled up already is not rolled up again."""
    sampled((0, 30))
    first, second = roll_up(lake, at(30)), roll_up(lake, at(30))
    assert first.parts == {"gpu_rollups_1h": 4 * 29, "gpu_rollups_5m": 4 * (30 * 12 - 1), "gpu_rollups_1d": 4}
    assert second.parts == {}


def test_only_closed_buckets_are_rolled_up(lake: Lake, sampled: Callable[..., None], read: Read, at: At) -> None:
    """A bucket waits until the lake has telemetry from after its end."""
    sampled((0, 1.5))
    report = roll_up(lake, at(1.5))
    assert report.watermark == at(1, 25)  # the last sample was received at 1:25:03
    assert max(row["started_at"] for row in read(GPU_ROLLUPS_5M)) == at(1, 20)
    assert {row["started_at"] for row in read(GPU_ROLLUPS_1H)} == {at(0)}


def test_a_silent_fleet_is_waited_for_no_longer_than_patience(lake: Lake, sampled: Callable[..., None], at: At) -> None:
    """Without telemetry the watermark goes on, so that silence is seen."""
    sampled((0, 2))
    assert Rollup(lake, patience=timedelta(minutes=30)).run(at(5)).watermark == at(4, 30)


def test_pieces_give_what_one_run_gives(tmp_path: Path, lake: Lake, sampled: Callable[..., None], read: Read, at: At) -> None:
    """Many small runs and one big run add up to the same in every tier."""
    sampled((0, 27))
    for hour in (1, 2, 5, 23, 24, 27):
        roll_up(lake, at(hour, 7))
    pieces = {table.name: _totals(read(table)) for table in (GPU_ROLLUPS_5M, GPU_ROLLUPS_1H, GPU_ROLLUPS_1D)}
    whole = Lake(tmp_path / "whole")
    with engine.connect(1) as connection:
        lake.attach(connection, GPU_SAMPLES)
        whole.append(GPU_SAMPLES, connection.sql("from gpu_samples").to_arrow_table())
    roll_up(whole, at(27, 7))
    with engine.connect(1) as connection:
        for table in (GPU_ROLLUPS_5M, GPU_ROLLUPS_1H, GPU_ROLLUPS_1D):
            whole.attach(connection, table)
            assert _totals(connection.sql(f"from {table.name}").to_arrow_table().to_pylist()) == pieces[table.name]


def test_five_minute_buckets_add_up_to_their_hour(lake: Lake, sampled: Callable[..., None], read: Read, at: At) -> None:
    """The tiers agree although each is made of samples."""
    sampled((0, 4))
    roll_up(lake, at(4))
    hours: dict[tuple[str, datetime], int] = {}
    for row in read(GPU_ROLLUPS_5M):
        key = (row["gpu_uuid"], row["started_at"].replace(minute=0))
        hours[key] = hours.get(key, 0) + row["pcie_replay"] if row["pcie_replay"] is not None else hours.get(key, 0)
    for row in read(GPU_ROLLUPS_1H):
        assert hours[row["gpu_uuid"], row["started_at"]] == row["pcie_replay"]


def test_a_long_history_is_rolled_up_in_runs_of_bounded_size(lake: Lake, sampled: Callable[..., None], read: Read, at: At) -> None:
    """Growth goes on over the border of two runs, and a run that is cut short is taken up where it ended."""
    sampled((0, 30))
    with Rollup(lake, rows_per_run=100) as rolling:
        rolling.run(at(30))
    growth = [row["pcie_replay"] for row in read(GPU_ROLLUPS_1H) if row["gpu_uuid"] == "g0"]
    assert growth == [11] + [12] * 28


def test_growth_over_a_long_silence_is_kept(lake: Lake, sampled: Callable[..., None], read: Read, at: At) -> None:
    """A GPU that was silent for days is measured from its last known reading."""
    sampled((0, 100), gpus=1, silent={"g0": (10, 90)})
    for hour in (9, 12, 50, 91, 100):
        roll_up(lake, at(hour))
    grown = {row["started_at"]: row["pcie_replay"] for row in read(GPU_ROLLUPS_1H)}
    assert grown[at(90)] == 80 * 12 + 12


def test_samples_that_come_late_make_a_further_part(lake: Lake, put: Any, read: Read, at: At) -> None:
    """A re-opened bucket keeps its first part, and the later part is known from its receipt on."""
    put(GPU_SAMPLES, [{"gpu_uuid": "g", "observed_at": at(0, minute), "pcie_replay_total": minute} for minute in (0, 10, 70, 130)])
    roll_up(lake, at(2, 10))
    put(GPU_SAMPLES, [{"gpu_uuid": "g", "observed_at": at(0, 20), "received_at": at(3), "pcie_replay_total": 20, "temp_c": 70.0}])
    put(GPU_SAMPLES, [{"gpu_uuid": "g", "observed_at": at(3, 10), "pcie_replay_total": 190}])
    report = roll_up(lake, at(3, 10))
    parts = sorted((row for row in read(GPU_ROLLUPS_1H) if row["started_at"] == at(0)), key=lambda row: row["revision"])
    assert [(part["revision"], part["known_at"], part["polls"], part["pcie_replay"]) for part in parts] == [
        (0, at(1), 2, 10),
        (1, at(3), 1, None),
    ]
    assert report.late_parts["gpu_rollups_1h"] == 1
    assert sum(row["pcie_replay"] or 0 for row in read(GPU_ROLLUPS_1H)) == 130  # 190 lies in the open hour


def test_samples_that_the_bus_held_back_are_rolled_up_with_their_growth(lake: Lake, put: Any, read: Read, at: At) -> None:
    """A node whose messages reach the lake after its buckets were closed loses nothing."""
    put(GPU_SAMPLES, [{"node": "n2", "gpu_uuid": "h", "observed_at": at(0, minute), "temp_c": 50.0} for minute in (0, 60, 120, 180)])
    put(GPU_SAMPLES, [{"gpu_uuid": "g", "observed_at": at(0, 5), "pcie_replay_total": 1}])
    roll_up(lake, at(3))
    put(GPU_SAMPLES, [{"gpu_uuid": "g", "observed_at": at(0, minute), "pcie_replay_total": minute} for minute in (65, 125, 181)])
    put(GPU_SAMPLES, [{"node": "n2", "gpu_uuid": "h", "observed_at": at(4), "temp_c": 50.0}])
    roll_up(lake, at(4))
    assert {row["started_at"]: row["pcie_replay"] for row in read(GPU_ROLLUPS_1H) if row["gpu_uuid"] == "g"} == {
        at(0): None,
        at(1): 64,
        at(2): 60,
        at(3): 56,
    }


def test_samples_later_than_the_limit_stay_raw(lake: Lake, put: Any, read: Read, at: At) -> None:
    """Late data is stored and not acted on."""
    put(GPU_SAMPLES, [{"gpu_uuid": "g", "observed_at": at(hour), "temp_c": 50.0} for hour in range(12)])
    roll_up(lake, at(11))
    put(GPU_SAMPLES, [{"gpu_uuid": "g", "observed_at": at(1, 30), "received_at": at(12), "temp_c": 50.0}])
    put(GPU_SAMPLES, [{"gpu_uuid": "g", "observed_at": at(12, 1), "temp_c": 50.0}])
    Rollup(lake, late_by=timedelta(hours=6)).run(at(12, 1))
    assert sum(row["polls"] for row in read(GPU_ROLLUPS_1H)) == 12


def test_chassis_hours_are_rolled_up_once(lake: Lake, put: Any, read: Read, at: At) -> None:
    """Readings of a BMC add up to hours, and a second run adds nothing."""
    reading = {"source": "redfish", "sensor": "inlet", "quantity": "inlet_temp_c", "device": "chassis", "value": 24.0}
    put(CHASSIS_READINGS, [{**reading, "observed_at": at(0, minute)} for minute in (0, 30, 60, 90)])
    put(GPU_SAMPLES, [{"gpu_uuid": "g", "observed_at": at(2), "temp_c": 50.0}])
    roll_up(lake, at(2))
    roll_up(lake, at(2))
    assert [(row["started_at"], row["inlet_temp_c_sum"], row["inlet_polls"]) for row in read(NODE_ROLLUPS_1H)] == [
        (at(0), 48.0, 2),
        (at(1), 48.0, 2),
    ]


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.tuples(st.integers(0, 1000), st.sampled_from(["goes on", "boots"])), min_size=2, max_size=20),
    cut=st.integers(1, 19),
)
def test_growth_is_never_negative_and_adds_up(steps: list[tuple[int, str]], cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever the resets and wherever the runs are cut, growth is what a counter that is read at every step has gained."""
    lake = Lake(tmp_path_factory.mktemp("lake"))
    start = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    rows, counter, boot, expected = [], 500, 0, 0
    for number, (gain, what) in enumerate(steps):
        if what == "boots" and number:
            boot, counter = boot + 1, 0
        counter += gain
        expected += gain if number else 0
        rows.append((start + number * HOUR / 2, f"b{boot}", counter))
    rows.append((start + 12 * HOUR, f"b{boot}", counter))
    for part in (rows[:cut], rows[cut:]):
        if part:
            with engine.connect(1) as connection:
                listed = ", ".join(f"(timestamptz '{when}', '{boot_id}', {value})" for when, boot_id, value in part)
                table = connection.sql(
                    "select 'n' as node, 'g' as gpu_uuid, 'nvml' as source, 'warm' as tier, t as observed_at, t as received_at,"
                    f" b as boot_id, c::bigint as pcie_replay_total from (values {listed}) as v(t, b, c)"
                ).to_arrow_table()
            lake.append(GPU_SAMPLES, table)
            roll_up(lake, part[-1][0])
    roll_up(lake, start + 13 * HOUR)
    with engine.connect(1) as connection:
        lake.attach(connection, GPU_ROLLUPS_1H)
        growth = [value for (value,) in connection.execute("select pcie_replay from gpu_rollups_1h").fetchall() if value is not None]
    assert all(value >= 0 for value in growth)
    assert sum(growth) == expected
