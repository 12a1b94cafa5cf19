"""Inputs that made other systems drain healthy nodes, and the behaviour that is right for each (from public bug reports)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import REGISTRY

from alerting.answers import take_ack, take_outcome
from alerting.ledger import Ledger, Said
from alerting.loop import AlertLoop
from alerting.schema import Ack, Actor, OutcomeReport
from alerting.settings import AlertSettings
from ingest.clock import ManualClock, datetime_of

HOUR_S = 3600.0
Loops = Callable[..., AlertLoop]


def changes(said: list[Said]) -> list[tuple[str, str, str]]:
    return [(one.memory.node, one.change, one.memory.action.value) for one in said]


def test_unreachable_monitors_drain_nothing(make_fleet: Any, make_loop: Loops, clock: ManualClock) -> None:
    """100 nodes whose host engine is unreachable for 10 minutes: no recommendation, one telemetry alert for the source."""

    def silent_nodes() -> float | None:
        return REGISTRY.get_sample_value("forewarn_telemetry_silent_nodes", {"source": "nvml"})

    fleet = make_fleet(100)
    loop = make_loop(fleet)
    for _ in range(3):
        fleet.state("nvml", "unreachable")
        fleet.score(dict.fromkeys(fleet.nodes))
        assert loop.run_pass() == []
        assert silent_nodes() == 100
        clock.advance(300)
    fleet.state("nvml", "ok")
    loop.run_pass()
    assert silent_nodes() == 0


def test_alternating_causes_drain_once(make_fleet: Any, make_loop: Loops, ledger: Ledger, clock: ManualClock) -> None:
    """Two causes that alternate each 30 s for an hour open one recommendation, and each keeps its own start."""
    fleet = make_fleet(16)
    fleet.score({})
    loop = make_loop(fleet)
    said = []
    for turn in range(120):
        fleet.xid("gpu003", 48 if turn % 2 else 95)
        said += loop.run_pass() if turn % 5 == 0 else []
        clock.advance(30)
    assert [one.change for one in said] == ["opened"]
    started = sorted(cause.first_seen_ns for cause in ledger.causes().values())
    assert started[1] - started[0] == 30_000_000_000


def test_oscillating_score_says_one_thing(make_fleet: Any, make_loop: Loops, ledger: Ledger, clock: ManualClock) -> None:
    """A score that swings around the threshold for a day opens at most one recommendation."""
    fleet = make_fleet(8)
    loop = make_loop(fleet)
    for turn in range(96):
        fleet.score({"gpu003": 0.0655 + (0.01 if turn % 2 else -0.01)})
        loop.run_pass()
        clock.advance(900)
    assert [(entry.node, entry.resolution) for entry in ledger.entries()] == [("gpu003", None)]


@pytest.mark.parametrize("size", [3, 10])
def test_small_fleets_lose_one(make_fleet: Any, make_loop: Loops, ledger: Ledger, size: int) -> None:
    """In a fleet of three, and of ten at 5 %, one drain is approved; the refused ones stay visible."""
    fleet = make_fleet(size)
    fleet.score({"gpu000": 0.5, "gpu001": 0.6})
    make_loop(fleet, AlertSettings()).run_pass()
    assert [(entry.node, entry.budget) for entry in ledger.entries()] == [("gpu000", "denied"), ("gpu001", "approved")]


def test_tripped_budget_is_judged_anew_after_reset(make_fleet: Any, make_loop: Loops, ledger: Ledger, clock: ManualClock) -> None:
    """A burst trips; an hour later a reset approves what is still risky then, and nothing that has calmed down meanwhile."""
    fleet = make_fleet(24)
    burst = dict.fromkeys(fleet.nodes[:8], 0.5)
    loop = make_loop(fleet, AlertSettings())
    fleet.score(burst)
    assert {json.loads(one.body)["budget"]["decision"] for one in loop.run_pass()} == {"denied"}
    for _ in range(12):
        clock.advance(300)
        fleet.score({**dict.fromkeys(fleet.nodes[:8], 0.0065), "gpu002": 0.5})
        loop.run_pass()
    assert [entry.node for entry in ledger.entries() if entry.budget == "approved"] == []
    ledger.reset_budget()
    clock.advance(600)
    fleet.score({**dict.fromkeys(fleet.nodes[:8], 0.0065), "gpu002": 0.5})
    loop.run_pass()
    assert [entry.node for entry in ledger.entries() if entry.budget == "approved"] == ["gpu002"]


def test_a_tripped_budget_never_holds_a_release_back(make_fleet: Any, make_loop: Loops, ledger: Ledger, clock: ManualClock) -> None:
    """Nodes are given back while the budget is tripped."""
    fleet = make_fleet(24)
    loop = make_loop(fleet, AlertSettings())
    fleet.score({"gpu020": 0.5})
    loop.run_pass()
    fleet.score({"gpu020": 0.5, **dict.fromkeys(fleet.nodes[:8], 0.5)})
    loop.run_pass()
    assert "budget_tripped_ns" in ledger.marks()
    released = []
    for _ in range(26):
        clock.advance(300)
        fleet.score(dict.fromkeys(fleet.nodes[:8], 0.5))
        released += [json.loads(one.body)["resolution"] for one in loop.run_pass() if one.change == "resolved"]
    assert [(one["reason"], one["release_target"]) for one in released] == [("risk_cleared", True)]


def test_restart_says_nothing_twice(make_fleet: Any, make_loop: Loops, ledger: Ledger, clock: ManualClock) -> None:
    """A new process over the same ledger and lake repeats neither open recommendations nor events that were answered."""
    fleet = make_fleet(16)
    fleet.score({"gpu003": 0.4})
    fleet.xid("gpu005", 79)
    assert len(make_loop(fleet).run_pass()) == 2
    clock.advance(60)
    assert make_loop(fleet).run_pass() == []
    outcome = {"outcome_id": "o1", "cluster": "dc1", "node": "gpu005", "kind": "reboot_fixed", "source": "operator"}
    told = OutcomeReport(**outcome, at=datetime_of(clock.now_ns()))
    take_outcome(ledger.database, told, consumer="ops", received_ns=clock.now_ns())
    clock.advance(60)
    assert changes(make_loop(fleet).run_pass()) == [("gpu005", "resolved", "remove")]
    clock.advance(60)
    assert make_loop(fleet).run_pass() == []


def ack(loop_said: Said, state: Any, clock: ManualClock, **more: Any) -> Ack:
    memory = loop_said.memory
    actor = Actor(kind=more.pop("kind", "scheduler"), name="slurm/dc1")
    at = datetime_of(clock.now_ns())
    return Ack(recommendation_id=memory.recommendation_id, revision=memory.revision, state=state, at=at, actor=actor, **more)


def test_a_humans_drain_is_not_undone(make_fleet: Any, make_loop: Loops, ledger: Ledger, clock: ManualClock) -> None:
    """A human had drained the node; when our score falls, the resolution asks for no release."""
    fleet = make_fleet(16)
    loop = make_loop(fleet)
    fleet.score({"gpu003": 0.4})
    (said,) = loop.run_pass()
    answer = ack(said, "deferred", clock, reason_code="already_drained_by_other")
    take_ack(ledger.database, answer, consumer="slurm", webhook_id="m1", received_ns=clock.now_ns(), wall_ns=0)
    resolved = []
    for _ in range(26):
        clock.advance(300)
        fleet.score({})
        resolved += [json.loads(one.body)["resolution"] for one in loop.run_pass() if one.change == "resolved"]
    assert [(one["reason"], one["release_target"]) for one in resolved] == [("risk_cleared", False)]


def test_dismissed_by_an_operator(make_fleet: Any, make_loop: Loops, ledger: Ledger, clock: ManualClock) -> None:
    """An operator's rejection ends it, and the same advice does not come back the same day."""
    fleet = make_fleet(16)
    loop = make_loop(fleet)
    fleet.score({"gpu003": 0.4})
    (said,) = loop.run_pass()
    answer = ack(said, "rejected", clock, reason_code="maintenance_window", kind="operator")
    take_ack(ledger.database, answer, consumer="ops", webhook_id="m1", received_ns=clock.now_ns(), wall_ns=0)
    clock.advance(300)
    assert changes(loop.run_pass()) == [("gpu003", "resolved", "drain_now")]
    clock.advance(300)
    fleet.score({"gpu003": 0.4})
    assert loop.run_pass() == []
    clock.advance(25 * HOUR_S)
    fleet.score({"gpu003": 0.4})
    assert changes(loop.run_pass()) == [("gpu003", "opened", "drain_now")]


def test_stale_scores_hold(make_fleet: Any, make_loop: Loops, ledger: Ledger, clock: ManualClock) -> None:
    """Scores that stop coming open nothing and release nothing."""
    fleet = make_fleet(16)
    loop = make_loop(fleet)
    fleet.score({"gpu003": 0.4})
    loop.run_pass()
    clock.advance(5 * HOUR_S)
    assert loop.run_pass() == []
    assert list(ledger.open_recommendations()) == ["gpu003"]
