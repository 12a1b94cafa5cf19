"""Episodes are survival data: exposure in service, one end each, every kind of censoring named."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.episodes import Stay, episodes_of
from features.labels import label
from features.outages import Outage
from features.rollup import roll_up
from features.schema import EPISODES
from ingest.clock import datetime_of
from ingest.lake import Lake
from ingest.schema import EVENTS, GPU_SAMPLES, INVENTORY, OUTCOMES

At = Callable[..., datetime]
Put = Callable[[Any, Any], None]
Read = Callable[[Any], list[dict[str, Any]]]


def _told(rows: list[dict[str, Any]], *names: str, scope: str = "gpu") -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows if row["scope"] == scope]


def _insert(at: At, gpu: str, node: str = "n1", hours: float = 0) -> dict[str, Any]:
    return {"node": node, "gpu_uuid": gpu, "observed_at": at(hours), "action": "insert", "source": "import"}


def _failure(at: At, hours: float, gpu: str | None, node: str = "n1", **more: Any) -> dict[str, Any]:
    return {"node": node, "gpu_uuid": gpu, "observed_at": at(hours), "kind": "failure", "source": "import", **more}


def test_a_failure_ends_its_unit_and_censors_the_rest_of_the_node(lake: Lake, put: Put, read: Read, at: At) -> None:
    """The failed GPU has a failure, its neighbours and the node itself an exposure that ended with the node."""
    put(INVENTORY, [_insert(at, "g1"), _insert(at, "g2"), _insert(at, "g3", "n2")])
    put(EVENTS, [_failure(at, 24, "g1", code=48), _failure(at, 100, "g3", "n2", code=79)])
    report = label(lake, at(100))
    assert (report.episodes, report.failures) == (8, 2)
    assert _told(read(EPISODES), "unit", "started_at", "ended_at", "ended_by", "mode", "confidence", "past_failures") == [
        ("g1", at(0), at(24), "failure", "hbm_ue", "inferred", 0),
        ("g1", at(48), at(100), "data_end", None, None, 1),
        ("g2", at(0), at(24), "node_down", None, None, 0),
        ("g2", at(48), at(100), "data_end", None, None, 0),
        ("g3", at(0), at(100), "failure", "fell_off_bus", "inferred", 0),
    ]
    assert _told(read(EPISODES), "unit", "ended_at", "ended_by", scope="node") == [
        ("n1", at(24), "node_down"),
        ("n1", at(100), "data_end"),
        ("n2", at(100), "data_end"),
    ]


def test_a_burst_of_a_hundred_events_is_one_failure(lake: Lake, put: Put, at: At) -> None:
    """A device-interval is labelled, never an event row."""
    put(INVENTORY, [_insert(at, "g1")])
    put(EVENTS, [_failure(at, 24 + number / 60, "g1", code=48) for number in range(106)])
    assert label(lake, at(100)).failures == 1


def test_failures_of_software_never_count(lake: Lake, put: Put, read: Read, at: At) -> None:
    """A job that dies on a healthy node leaves its exposure whole."""
    put(INVENTORY, [_insert(at, None)])
    put(EVENTS, [_failure(at, 24, None, mode="software"), _failure(at, 30, None, mode="dependency"), _failure(at, 50, None, mode="dram")])
    label(lake, at(50))
    assert _told(read(EPISODES), "started_at", "ended_at", "ended_by", "mode", scope="node") == [(at(0), at(50), "failure", "dram")]


def test_a_fleet_known_by_its_nodes_has_no_gpu_episodes(lake: Lake, put: Put, read: Read, at: At) -> None:
    """Inventory rows without a device are the nodes themselves."""
    put(INVENTORY, [_insert(at, None, "n1"), _insert(at, None, "n2")])
    put(EVENTS, [_failure(at, 24, None, "n1", mode="cpu"), _failure(at, 90, None, "n2", mode="unknown")])
    label(lake, at(90))
    assert _told(read(EPISODES), "unit") == []
    assert _told(read(EPISODES), "unit", "ended_by", "mode", scope="node") == [
        ("n1", "failure", "cpu"),
        ("n1", "data_end", None),
        ("n2", "failure", "unknown"),
    ]


def test_a_unit_removed_at_the_moment_of_its_failure_has_failed(lake: Lake, put: Put, read: Read, at: At) -> None:
    """Records that take a dead GPU out with the same time do not turn its failure into a removal."""
    put(INVENTORY, [_insert(at, "g1"), _insert(at, "g2"), {**_insert(at, "g1", hours=24), "action": "remove"}])
    put(INVENTORY, [{**_insert(at, "g2", hours=50), "action": "remove"}])
    put(EVENTS, [_failure(at, 24, "g1", code=79)])
    label(lake, at(100))
    assert _told(read(EPISODES), "unit", "ended_at", "ended_by")[0] == ("g1", at(24), "failure")
    assert _told(read(EPISODES), "unit", "ended_at", "ended_by")[-1] == ("g2", at(50), "removed")


def test_exposure_starts_with_the_telemetry(lake: Lake, put: Put, read: Read, at: At) -> None:
    """A GPU that sat unseen before the records began is left-truncated, and one that the inventory does not know is taken as seen."""
    put(INVENTORY, [_insert(at, "g1")])
    put(GPU_SAMPLES, [{"gpu_uuid": gpu, "observed_at": at(hour), "temp_c": 50.0} for gpu in ("g1", "g2") for hour in range(5, 12)])
    roll_up(lake, at(11))
    label(lake, at(11))
    assert _told(read(EPISODES), "unit", "started_at", "ended_at", "ended_by") == [
        ("g1", at(5), at(10), "data_end"),
        ("g2", at(5), at(10), "data_end"),
    ]


def test_silence_alone_ends_nothing(lake: Lake, put: Put, read: Read, at: At) -> None:
    """A gap in the telemetry is a feature, not a censoring: the node may be failing."""
    put(GPU_SAMPLES, [{"gpu_uuid": "g1", "observed_at": at(hour), "temp_c": 50.0} for hour in (*range(5), *range(20, 30))])
    roll_up(lake, at(29))
    put(EVENTS, [{"gpu_uuid": "g1", "observed_at": at(19, 59), "kind": "xid", "code": 79, "use": "label"}])
    label(lake, at(29))
    assert _told(read(EPISODES), "started_at", "ended_at", "ended_by", "mode")[0] == (at(0), at(19, 59), "failure", "fell_off_bus")


def test_labels_are_as_known_at_the_time(lake: Lake, put: Put, read: Read, at: At) -> None:
    """An outcome that is reported later is not in the labels of today, and replaces them when it is."""
    put(INVENTORY, [_insert(at, "g1")])
    put(EVENTS, [_failure(at, 24, "g1", code=62, kind="xid", use="label"), _failure(at, 60, None, "n9", mode="software")])
    outcome = {"outcome_id": "o", "kind": "failed_in_service", "gpu_uuid": "g1", "mode": "thermal", "confidence": "confirmed"}
    put(OUTCOMES, [{**outcome, "observed_at": at(24), "received_at": at(70)}])
    label(lake, at(60))
    assert _told(read(EPISODES), "mode", "confidence", "known_at", "labelled_at")[0] == ("gpu_faulty", "inferred", at(24), at(60))
    label(lake, at(80))
    assert _told(read(EPISODES), "mode", "confidence", "known_at", "labelled_at")[0] == ("thermal", "confirmed", at(24), at(80))


def test_a_drain_of_ours_is_an_informative_censoring(lake: Lake, put: Put, read: Read, at: At) -> None:
    """An outcome that answers a recommendation ends the exposure of the node's units as ours."""
    put(INVENTORY, [_insert(at, "g1"), _insert(at, "g2", "n2")])
    put(OUTCOMES, [{"outcome_id": "o", "kind": "no_fault_found", "recommendation_id": "R1", "observed_at": at(24)}])
    put(OUTCOMES, [{"outcome_id": "p", "kind": "decommissioned", "node": "n2", "observed_at": at(30)}])
    put(EVENTS, [_failure(at, 90, None, "n9", mode="software")])
    label(lake, at(90))
    assert _told(read(EPISODES), "unit", "ended_at", "ended_by") == [
        ("g1", at(24), "drained_by_us"),
        ("g1", at(90), "data_end"),
        ("g2", at(30), "decommissioned"),
    ]


def test_an_empty_lake_has_no_labels(lake: Lake, at: At) -> None:
    """Nothing known gives no episode."""
    assert label(lake, at(0)).episodes == 0


@pytest.fixture
def outage(at: At) -> Callable[..., Outage]:
    def make(start: float, end: float, unit: str = "g1", reason: str = "failure") -> Outage:
        return Outage(
            node="n1", started_at=at(start), ended_at=at(end), known_at=at(start), reason=reason, unit=unit, mode="hbm_ue", rank=2
        )

    return make


def test_past_failures_add_up_over_stays(outage: Callable[..., Outage], at: At) -> None:
    """A GPU that is put back into another seat keeps its count."""
    stays = [
        Stay(scope="gpu", unit="g1", node="n1", started_at=at(0), ended_at=at(30), ended_known_at=at(31)),
        Stay(scope="gpu", unit="g1", node="n2", started_at=at(40)),
    ]
    episodes = list(episodes_of(stays, {"n1": [outage(10, 12)]}, at(90), at(90)))
    assert [(e.node, e.ended_by, e.past_failures, datetime_of(e.known_at_ns)) for e in episodes] == [
        ("n1", "failure", 0, at(10)),
        ("n1", "removed", 1, at(31)),
        ("n2", "data_end", 1, at(90)),
    ]


@given(cuts=st.lists(st.integers(1, 200), min_size=0, max_size=12, unique=True), own=st.lists(st.booleans(), min_size=12, max_size=12))
def test_exposure_and_outages_tile_a_stay(cuts: list[int], own: list[bool]) -> None:
    """Exposure plus time out of service is the whole stay, and episodes lie in order without overlap."""
    start = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    hour = timedelta(hours=1)
    borders = sorted(cuts)
    outages = [
        Outage(
            node="n1",
            started_at=start + begin * hour,
            ended_at=start + (begin + (after - begin) / 2) * hour,
            known_at=start + begin * hour,
            reason="failure",
            unit="g1" if mine else "g2",
        )
        for begin, after, mine in zip(borders, [*borders[1:], 240], own, strict=False)
    ]
    episodes = list(episodes_of([Stay(scope="gpu", unit="g1", node="n1", started_at=start)], {"n1": outages}, start + 240 * hour, start))
    exposure = sum(episode.ended_at_ns - episode.started_at_ns for episode in episodes)
    away = sum((outage.ended_at - outage.started_at).total_seconds() for outage in outages)
    assert exposure / 1e9 + away == 240 * 3600
    assert all(one.ended_at_ns <= other.started_at_ns for one, other in itertools.pairwise(episodes))
    assert sum(episode.ended_by == "failure" for episode in episodes) == sum(outage.unit == "g1" for outage in outages)
