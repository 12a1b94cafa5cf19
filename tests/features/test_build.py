"""Features as of a landmark depend on what was known then, and on nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from features import build
from features.build import build_features, compute
from features.rollup import roll_up
from features.schema import FEATURES, GPU_FEATURES, NODE_FEATURES
from ingest.lake import Lake
from ingest.schema import CHASSIS_READINGS, EVENTS, GPU_SAMPLES, INVENTORY, OUTCOMES, TOPOLOGY

At = Callable[..., datetime]
Put = Callable[[Any, Any], None]


def _values(rows: pa.Table) -> dict[tuple[Any, ...], dict[str, float | None]]:
    keys = [name for name in ("as_of", "node", "gpu_uuid") if name in rows.column_names]
    return {tuple(row[key] for key in keys): {name: value for name, value in row.items() if name not in keys} for row in rows.to_pylist()}


def _assert_equal(one: pa.Table, other: pa.Table) -> None:
    """Hold two frames against each other, row by row; sums of floats to nine digits."""
    left, right = _values(one), _values(other)
    assert left.keys() == right.keys()
    for key, values in left.items():
        for name, value in values.items():
            wanted = right[key][name]
            same = value == wanted if value is None or wanted is None else math.isclose(value, wanted, rel_tol=1e-9, abs_tol=1e-9)
            assert same, f"{name} of {key}: {value} is not {wanted}"


@pytest.fixture
def fleet(put: Put, sampled: Callable[..., None], at: At) -> None:
    """Two nodes with all kinds of records over five days."""
    sampled((0, 120), silent={"g1": (100, 104)})
    put(INVENTORY, [{"node": f"n{n // 2}", "gpu_uuid": f"g{n}", "slot": n % 2, "observed_at": at(0), "action": "insert"} for n in range(4)])
    put(TOPOLOGY, [{"node": f"n{n}", "observed_at": at(0), "kind": kind, "domain": "d1"} for n in (0, 1) for kind in ("rack", "chassis")])
    put(EVENTS, [_xid(at(30), "g0", 63, "precursor"), _xid(at(90), "g0", 79, "label"), _xid(at(110), "g2", 31, "noise")])
    put(OUTCOMES, [{"outcome_id": "o", "kind": "reset_fixed", "gpu_uuid": "g0", "mode": "fell_off_bus", "observed_at": at(92)}])
    reading = {"source": "redfish", "sensor": "inlet", "quantity": "inlet_temp_c", "device": "chassis"}
    put(CHASSIS_READINGS, [{**reading, "node": f"n{n}", "observed_at": at(hour), "value": 20.0 + n} for n in (0, 1) for hour in range(120)])


def _xid(when: datetime, gpu: str, code: int, use: str) -> dict[str, Any]:
    return {
        "node": "n0" if gpu in ("g0", "g1") else "n1",
        "observed_at": when,
        "kind": "xid",
        "gpu_uuid": gpu,
        "code": code,
        "use": use,
        "source": "kernel_log",
    }


@pytest.mark.usefixtures("fleet")
def test_training_and_scoring_give_equal_values(lake: Lake, at: At) -> None:
    """A landmark among many, computed later from the whole history, equals the landmark computed alone when it was the present."""
    landmarks = [at(24), at(50), at(99), at(101), at(118)]
    alone = []
    for landmark in landmarks:
        roll_up(lake, landmark + timedelta(minutes=10))
        alone.append(compute(lake, [landmark]))
    roll_up(lake, at(120))
    gpus, nodes = compute(lake, landmarks)
    _assert_equal(pa.concat_tables([frame[0] for frame in alone]), gpus)
    _assert_equal(pa.concat_tables([frame[1] for frame in alone]), nodes)
    assert gpus.num_rows == 20
    assert nodes.num_rows == 10


@pytest.mark.usefixtures("fleet")
def test_off_the_hour_the_five_minute_buckets_complete_the_windows(lake: Lake, at: At) -> None:
    """A window that ends within an hour holds exactly its length: 12 samples in the last hour, and the newest one is minutes old."""
    roll_up(lake, at(118, 36))
    gpus, _ = compute(lake, [at(118, 35)])
    rows = {row["gpu_uuid"]: row for row in gpus.to_pylist()}
    assert rows["g0"]["pcie_replay_1h"] == 12
    assert rows["g0"]["pcie_replay_24h"] == 288
    assert rows["g0"]["telemetry_age_s"] == 300  # sampled at 118:30:02, 298 s before


@pytest.mark.usefixtures("fleet")
def test_the_future_changes_nothing(lake: Lake, put: Put, at: At) -> None:
    """What is observed or received after a landmark leaves its rows as they were."""
    roll_up(lake, at(120))
    landmark = at(60)
    before = compute(lake, [landmark])
    put(EVENTS, [_xid(at(61), "g3", 79, "label"), {**_xid(at(50), "g3", 48, "label"), "received_at": at(70)}])
    put(INVENTORY, [{"node": "n0", "gpu_uuid": "g0", "observed_at": at(61), "action": "remove"}])
    put(INVENTORY, [{"node": "n1", "gpu_uuid": "g9", "observed_at": at(59), "received_at": at(62), "action": "insert"}])
    put(TOPOLOGY, [{"node": "n0", "observed_at": at(61), "kind": "rack", "domain": "d2"}])
    put(OUTCOMES, [{"outcome_id": "p", "kind": "failed_in_service", "gpu_uuid": "g2", "observed_at": at(55), "received_at": at(65)}])
    put(GPU_SAMPLES, [{"gpu_uuid": "g0", "node": "n0", "observed_at": at(120, 10), "temp_c": 99.0, "pcie_replay_total": 10**6}])
    late = {"gpu_uuid": "g0", "node": "n0", "observed_at": at(119, 1), "received_at": at(120, 11), "temp_c": 98.0}
    put(GPU_SAMPLES, [late])
    roll_up(lake, at(123))
    after = compute(lake, [landmark])
    _assert_equal(before[0], after[0])
    _assert_equal(before[1], after[1])


def test_a_late_sample_counts_from_its_receipt_on(lake: Lake, put: Put, at: At) -> None:
    """A landmark before the receipt of a late sample does not see it, a later one does."""
    put(GPU_SAMPLES, [{"gpu_uuid": "g", "observed_at": at(0, minute), "temp_c": 50.0, "power_w": 400.0} for minute in range(0, 181, 10)])
    put(GPU_SAMPLES, [{"gpu_uuid": "g", "observed_at": at(1, 55), "received_at": at(2, 30), "temp_c": 95.0, "power_w": 400.0}])
    roll_up(lake, at(3))
    gpus, _ = compute(lake, [at(2), at(3)])
    assert [row["temp_max_24h_c"] for row in gpus.to_pylist()] == [50.0, 95.0]


def test_without_telemetry_features_are_unknown_and_never_zero(lake: Lake, put: Put, at: At) -> None:
    """A fleet of events alone has history and domains, and null in every feature that needs telemetry."""
    put(INVENTORY, [{"node": f"n{n}", "gpu_uuid": f"g{n}", "observed_at": at(0), "action": "insert"} for n in range(3)])
    put(TOPOLOGY, [{"node": f"n{n}", "observed_at": at(0), "kind": "rack", "domain": "r1"} for n in range(3)])
    put(EVENTS, [{"node": "n0", "gpu_uuid": "g0", "kind": "failure", "code": 48, "observed_at": at(48), "source": "import"}])
    gpus, nodes = compute(lake, [at(24 * 28)])
    by_unit = {row["gpu_uuid"]: row for row in gpus.to_pylist()}
    assert by_unit["g0"]["failures_life"] == 1
    assert by_unit["g0"]["memory_failures_life"] == 1
    assert by_unit["g0"]["failure_age_d"] == 26
    assert by_unit["g1"]["failures_life"] == 0
    assert by_unit["g1"]["fleet_rate_90d"] == pytest.approx(1 / (2 * 28))
    assert by_unit["g1"]["rack_risk_90d"] == pytest.approx((4 + 1) / (4 + 2 / 3))
    needs_telemetry = [f.name for f in FEATURES if f.scope == "gpu" and f.family not in ("history", "domain")]
    assert {name for name in needs_telemetry if any(row[name] is not None for row in by_unit.values())} == set()
    assert nodes.num_rows == 3


def test_a_fleet_known_by_its_nodes_has_node_rows_only(lake: Lake, put: Put, at: At) -> None:
    """Failures of nodes make node features and no GPU rows."""
    put(INVENTORY, [{"node": f"n{n}", "observed_at": at(0), "action": "insert"} for n in range(2)])
    put(EVENTS, [{"node": "n0", "kind": "failure", "mode": "dram", "observed_at": at(48), "source": "import"}])
    gpus, nodes = compute(lake, [at(72)])
    assert gpus.num_rows == 0
    assert {row["node"]: row["node_failures_life"] for row in nodes.to_pylist()} == {"n0": 1, "n1": 0}


@pytest.mark.usefixtures("fleet")
def test_landmarks_in_chunks_give_the_same_rows(lake: Lake, at: At) -> None:
    """Memory is bounded by doing some landmarks at a time, and that changes no value."""
    roll_up(lake, at(120))
    landmarks = [at(hour) for hour in range(24, 120, 24)]
    whole = compute(lake, landmarks)
    with build.FeatureBuilder(lake, rows_per_chunk=400) as builder:
        pieces = builder.compute(landmarks)
    _assert_equal(whole[0], pieces[0])
    _assert_equal(whole[1], pieces[1])


@pytest.mark.usefixtures("fleet")
def test_rows_are_appended_in_the_declared_columns(lake: Lake, read: Callable[[Any], list[dict[str, Any]]], at: At) -> None:
    """Every feature of the catalogue is a column that a query fills, and no query gives another."""
    roll_up(lake, at(120))
    gpus, nodes = compute(lake, [at(118)])
    assert set(gpus.column_names) == {column.name for column in GPU_FEATURES.own_columns}
    assert set(nodes.column_names) == {column.name for column in NODE_FEATURES.own_columns}
    shares: list[float] = []
    report = build_features(lake, [at(118), at(119), at(118)], progress=shares.append)
    assert (report.landmarks, report.gpu_rows, report.node_rows) == (2, 8, 4)
    assert shares[-1] == 1.0
    assert [(row["node"], row["gpu_uuid"], row["as_of"]) for row in read(GPU_FEATURES)][:2] == [
        ("n0", "g0", at(118)),
        ("n0", "g0", at(119)),
    ]


@pytest.mark.usefixtures("fleet")
def test_what_a_pass_that_died_has_written_is_completed_and_not_doubled(
    lake: Lake, read: Callable[[Any], list[dict[str, Any]]], at: At
) -> None:
    """Of one landmark the lake has the GPUs and not the nodes; building both landmarks again adds what is missing, and no more."""
    roll_up(lake, at(121))
    gpus, nodes = compute(lake, [at(100), at(110)])
    is_first = [row["as_of"] == at(100) for row in gpus.to_pylist()]
    lake.append(GPU_FEATURES, gpus.filter(pa.array(is_first)))
    report = build_features(lake, [at(100), at(110)])
    assert (report.gpu_rows, report.node_rows) == (is_first.count(False), nodes.num_rows)
    assert sorted(row["as_of"] for row in read(GPU_FEATURES)) == sorted(gpus["as_of"].to_pylist())
    assert build_features(lake, [at(100), at(110)]).gpu_rows == 0


def test_an_empty_lake_has_no_rows(lake: Lake, at: At) -> None:
    """Nothing known gives nothing, not an error."""
    roll_up(lake, at(1))
    report = build_features(lake, [at(1)])
    assert (report.gpu_rows, report.node_rows) == (0, 0)


def test_history_follows_the_board_to_another_node(lake: Lake, put: Put, at: At) -> None:
    """A GPU takes its failures along: its new node inherits the risk, its old one does not."""
    seat = {"serial": "s1", "gpu_uuid": "g0"}
    put(INVENTORY, [{**seat, "node": "n0", "observed_at": at(0), "action": "insert"}])
    put(EVENTS, [_xid(at(10), "g0", 48, "label")])
    put(INVENTORY, [{**seat, "node": "n0", "observed_at": at(20), "action": "remove"}])
    put(INVENTORY, [{**seat, "node": "n1", "observed_at": at(30), "action": "insert"}])
    put(INVENTORY, [{"gpu_uuid": "g7", "serial": "s7", "node": "n0", "observed_at": at(30), "action": "insert"}])
    gpus, _ = compute(lake, [at(48)])
    assert {row["gpu_uuid"]: (row["node"], row["failures_life"], row["seat_age_d"]) for row in gpus.to_pylist()} == {
        "g0": ("n1", 1, 0.75),
        "g7": ("n0", 0, 0.75),
    }


def test_every_feature_is_described() -> None:
    """No feature without unit of description, window in ISO 8601 and the failures it precedes; names are unique within a scope."""
    assert len({(f.scope, f.name) for f in FEATURES}) == len(FEATURES)
    assert {f.scope for f in FEATURES} == {"gpu", "node"}
    assert [f.name for f in FEATURES if not (f.meaning and f.precursor_of and (not f.window or f.window.startswith("P")))] == []
    assert 40 <= sum(f.scope == "gpu" for f in FEATURES) <= 90


def test_sql_ships_with_the_package() -> None:
    """The queries lie beside the code that reads them."""
    assert (Path(build.__file__).parent / "sql" / "rollup.sql").exists()
