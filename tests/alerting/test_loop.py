"""Passes over a lake: what a fleet's scores, events and silence make the product say, and what they do not."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import duckdb
import pytest

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


def test_a_failed_pass_loses_nothing(make_fleet: Any, make_loop: Loops, ledger: Ledger) -> None:
    """Events that a pass read and could not write are answered by the next one."""
    fleet = make_fleet(16)
    fleet.score({})
    fleet.xid("gpu003", 79)
    loop = make_loop(fleet)
    with ledger.database.transaction() as connection:
        connection.execute("create trigger broken before insert on revisions begin select raise(abort, 'disk full'); end")
    with pytest.raises(sqlite3.IntegrityError, match="disk full"):
        loop.run_pass()
    with ledger.database.transaction() as connection:
        connection.execute("drop trigger broken")
    assert changes(loop.run_pass()) == [("gpu003", "opened", "remove")]


def test_a_sick_rack_is_one_incident(make_fleet: Any, make_loop: Loops, ledger: Ledger, clock: ManualClock) -> None:
    """When a rack fails as a whole, its other nodes are not drained one by one, and the payload says that the domain is suspected."""
    fleet = make_fleet(96)
    loop = make_loop(fleet)
    fleet.score({})
    loop.run_pass()
    clock.advance(24 * HOUR_S)
    for node in fleet.nodes[:5]:
        fleet.xid(node, 79)
    fleet.score({"gpu006": 0.5, "gpu090": 0.5})
    data = {one.memory.node: json.loads(one.body) for one in loop.run_pass()}
    assert [domain.domain for domain in sorted(loop.incidents)] == ["p00", "r00"]
    assert (data["gpu006"]["budget"]["decision"], data["gpu006"]["budget"]["policy"]) == ("denied", "domain-incident")
    assert [domain["correlated"] for domain in data["gpu006"]["target"]["domains"]] == [True, True]
    assert data["gpu090"]["budget"]["decision"] == "approved"


def test_some_drains_are_held_out(make_fleet: Any, *, make_loop: Loops, wide: AlertSettings, ledger: Ledger, clock: ManualClock) -> None:
    """A share of the predicted drains is left in service at random, stays so, and is logged with its probability; failures never are."""
    fleet = make_fleet(40)
    settings = replace(wide, hold_out_ratio=0.5, hold_out_seed=3)
    loop = make_loop(fleet, settings)
    fleet.score(dict.fromkeys(fleet.nodes[:20], 0.5))
    fleet.xid("gpu030", 79)
    loop.run_pass()
    clock.advance(1800)
    fleet.score(dict.fromkeys(fleet.nodes[:20], 0.9))
    loop.run_pass()
    rows = ledger.database.query("select node, json_extract(budget, '$.policy'), propensity from audit where revision = 1")
    held_out = {node for node, policy, _ in rows if policy == "hold-out"}
    assert 4 <= len(held_out) <= 16
    assert "gpu030" not in held_out
    assert {propensity for node, _, propensity in rows if node != "gpu030"} == {0.5}
    assert {entry.node for entry in ledger.entries() if entry.budget == "denied"} >= held_out


def test_learned_repairs_are_advised(make_fleet: Any, make_loop: Loops, ledger: Ledger, clock: ManualClock) -> None:
    """A node that was reset this week and is risky again is advised the next rung."""
    fleet = make_fleet(16)
    outcome = {"outcome_id": "o1", "cluster": "dc1", "node": "gpu003", "kind": "reset_fixed", "source": "operator"}
    told = OutcomeReport(**outcome, at=datetime_of(clock.now_ns()), failure_mode="hbm_ue")
    take_outcome(ledger.database, told, consumer="ops", received_ns=clock.now_ns())
    clock.advance(24 * HOUR_S)
    fleet.score({"gpu003": 0.4, "gpu004": 0.4})
    followups = {one.memory.node: json.loads(one.body)["action"]["followup"] for one in make_loop(fleet).run_pass()}
    assert followups == {"gpu003": "reboot", "gpu004": "reset_component"}


def test_unreadable_reasons_silence_no_node(make_fleet: Any, make_loop: Loops) -> None:
    """A reason that the contract does not allow is left out; the recommendation still goes."""
    fleet = make_fleet(8)
    fleet.score({"gpu003": 0.4}, reasons='[{"code":"Not A Code","summary":"x"},{"code":"ok.code","summary":"' + "y" * 400 + '"}]')
    (said,) = make_loop(fleet).run_pass()
    assert [(reason["code"], len(reason["summary"])) for reason in json.loads(said.body)["reasons"]] == [("ok.code", 300)]


def test_told_failures(make_fleet: Any, make_loop: Loops, ledger: Ledger, clock: ManualClock) -> None:
    """A failure that only an outcome tells is answered once; one that events have told, or that is repaired since, opens nothing."""
    fleet = make_fleet(16)
    loop = make_loop(fleet)
    fleet.score({"gpu003": 0.4})
    fleet.xid("gpu004", 79)
    loop.run_pass()
    clock.advance(1800)

    def tell(node: str, kind: str, age_s: float) -> None:
        outcome = {"outcome_id": f"{node}/{kind}", "cluster": "dc1", "node": node, "kind": kind, "source": "operator"}
        told = OutcomeReport(**outcome, at=datetime_of(clock.now_ns() - int(age_s * 1e9)))
        take_outcome(ledger.database, told, consumer="ops", received_ns=clock.now_ns())

    tell("gpu003", "failed_in_service", 60)
    tell("gpu004", "failed_in_service", 1790)
    tell("gpu005", "part_replaced", 60)
    tell("gpu005", "failed_in_service", 600)
    tell("gpu006", "failed_in_service", 8 * HOUR_S)
    assert changes(loop.run_pass()) == [("gpu003", "resolved", "drain_now"), ("gpu003", "opened", "drain_now")]
    assert [entry.resolution for entry in ledger.entries() if entry.node == "gpu003"] == ["failed", None]
    clock.advance(60)
    assert loop.run_pass() == []
