"""Passes over a lake: what a fleet's scores, events and silence make the product say, and what they do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import duckdb

from alerting.answers import take_outcome
from alerting.contract import problems
from alerting.ledger import Ledger, Said
from alerting.loop import AlertLoop
from alerting.schema import Action, OutcomeReport
from alerting.settings import AlertSettings
from ingest.clock import ManualClock, datetime_of
from ingest.schema import OUTCOMES

HOUR_S = 3600.0
Loops = Callable[..., AlertLoop]


def changes(said: list[Said]) -> list[tuple[str, str, str]]:
    return [(one.memory.node, one.change, one.memory.action.value) for one in said]


def test_a_risky_node_is_said_once(make_fleet: Any, make_loop: Loops, ledger: Ledger, clock: ManualClock) -> None:
    """A risky node opens one recommendation that keeps the contract, and the next pass has nothing to add."""
    fleet = make_fleet(16)
    fleet.score({"gpu003": 0.4})
    loop = make_loop(fleet)
    (said,) = loop.run_pass()
    data = json.loads(said.body)
    assert problems("recommendation", data) == []
    assert (data["mode"], data["target"]["nodes"], data["action"]["kind"]) == ("shadow", [{"name": "gpu003"}], "drain_now")
    assert data["target"]["domains"][1] == {"kind": "rack", "id": "r00", "nodes_total": 8, "nodes_drained": 1}
    assert data["target"]["components"] == [{"type": "gpu", "id": "GPU-gpu003-3"}]
    assert data["budget"]["decision"] == "approved"
    assert data["cost"]["net_benefit"] > 0
    event = json.loads(said.event.body)
    assert (event["specversion"], event["type"], event["subject"], event["sequence"], event["partitionkey"]) == (
        "1.0",
        "io.forewarn.recommendation.opened.v1",
        "node/gpu003",
        "0000000001",
        "dc1/gpu003",
    )
    clock.advance(300)
    fleet.score({"gpu003": 0.41})
    assert loop.run_pass() == []


def test_alternatives_are_kept_with_the_decision(make_fleet: Any, make_loop: Loops, ledger: Ledger) -> None:
    """The audit holds every alternative with its expected cost, so that another policy can be evaluated later."""
    fleet = make_fleet(16)
    fleet.job("j1", ["gpu003", "gpu004"])
    fleet.score({"gpu003": 0.4})
    make_loop(fleet).run_pass()
    ((chosen, options, facts),) = ledger.database.query("select chosen, options, facts from audit")
    costs = json.loads(options)
    assert set(costs) == {"none", "avoid_new_gangs", "checkpoint_now", "drain_after_job", "drain_by", "drain_now"}
    assert costs[chosen] == min(costs.values())
    assert (json.loads(facts)["jobs"], json.loads(facts)["assumptions"]["gang_gpus"]) == (["j1"], 16)


def test_a_predicted_failure_is_resolved_and_answered(make_fleet: Any, make_loop: Loops, ledger: Ledger, clock: ManualClock) -> None:
    """A failure resolves its prediction as failed; the reaction is a recommendation of its own and keeps the place in the budget."""
    fleet = make_fleet(16)
    fleet.score({"gpu003": 0.4})
    loop = make_loop(fleet, AlertSettings())
    loop.run_pass()
    clock.advance(HOUR_S)
    fleet.score({"gpu003": 0.5})
    fleet.xid("gpu003", 79)
    fleet.xid("gpu003", 45, use="exclude")
    assert changes(loop.run_pass()) == [("gpu003", "resolved", "drain_now"), ("gpu003", "opened", "remove")]
    first, second = ledger.entries()
    assert (first.origin, first.resolution, first.resolved_ns) == ("score", "failed", clock.now_ns())
    assert (second.origin, second.budget, second.strongest) == ("failure", "approved", Action.REMOVE)
    assert [revision.change for revision in ledger.revisions(first.recommendation_id)] == ["opened", "resolved"]


def test_reboot_ends_the_reaction(make_fleet: Any, make_loop: Loops, ledger: Ledger, clock: ManualClock) -> None:
    """A new boot ends the cause of a failure; after two clear hours the node is given back."""
    fleet = make_fleet(16)
    loop = make_loop(fleet)
    fleet.score({})
    fleet.sample("gpu003", boot_id="b1")
    fleet.xid("gpu003", 79)
    loop.run_pass()
    resolved = []
    for turn in range(30):
        clock.advance(300)
        fleet.score({})
        fleet.sample("gpu003", boot_id="b2")
        resolved += [(turn, one.resolution) for one in loop.run_pass() if one.change == "resolved"]
    assert resolved == [(24, "risk_cleared")]


def test_vendor_criterion_stands_until_denied(make_fleet: Any, make_loop: Loops, ledger: Ledger, clock: ManualClock) -> None:
    """A remap failure asks for a drain by itself; polls that do not say leave it, and only a denial takes it back."""
    fleet = make_fleet(16)
    loop = make_loop(fleet)
    fleet.score({})
    fleet.sample("gpu003", remap_failure=True)
    (said,) = loop.run_pass()
    assert (said.memory.origin, json.loads(said.body)["reasons"][0]["code"]) == ("criterion", "vendor.remap_failure")
    clock.advance(HOUR_S)
    fleet.score({})
    fleet.sample("gpu003")
    loop.run_pass()
    assert list(ledger.open_recommendations()) == ["gpu003"]


def test_future_rows_are_not_seen(make_fleet: Any, make_loop: Loops, clock: ManualClock) -> None:
    """Scores and events from after the pass's own time wait for the pass whose time has come, and are not lost."""
    fleet = make_fleet(16)
    loop = make_loop(fleet)
    at_ns = clock.now_ns()
    clock.advance(HOUR_S)
    fleet.score({"gpu003": 0.9})
    fleet.xid("gpu004", 79)
    assert loop.run_pass(at_ns) == []
    assert changes(loop.run_pass()) == [("gpu003", "opened", "drain_now"), ("gpu004", "opened", "remove")]


def test_outcomes_reach_the_lake_once(make_fleet: Any, make_loop: Loops, ledger: Ledger, clock: ManualClock) -> None:
    """Outcomes become rows of the lake in batches, each once, over restarts and repeated calls."""
    fleet = make_fleet(16)
    fleet.score({})
    for number in (1, 2, 2):
        outcome = {"outcome_id": f"o{number}", "cluster": "dc1", "node": "gpu003", "kind": "part_replaced", "source": "ticket"}
        told = OutcomeReport(**outcome, at=datetime_of(clock.now_ns()), failure_mode="hbm_ue", component="GPU-1")
        take_outcome(ledger.database, told, consumer="ops", received_ns=clock.now_ns())
    for _ in range(2):
        make_loop(fleet).run_pass()
    with duckdb.connect() as connection:
        fleet.lake.attach(connection, OUTCOMES)
        rows = connection.execute("select outcome_id, node, kind, mode, gpu_uuid, source from outcomes order by seq").fetchall()
    assert rows == [(f"o{number}", "gpu003", "part_replaced", "hbm_ue", "GPU-1", "ticket") for number in (1, 2)]
