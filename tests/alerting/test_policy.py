"""What is wanted for a node follows from its risk, its job and the hard signals that speak about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from alerting.causes import Cause
from alerting.costs import CostModel
from alerting.options import RunningJob
from alerting.policy import NodeView, PolicySettings, Wanted, want
from alerting.risk import Risk, ScoreRow, abstained, risks
from alerting.rules import REMAP_FAILURE, XIDS, Kind, Response
from alerting.schema import Action

BASE = {1.0: 0.00027, 6.0: 0.0016, 24.0: 0.0065, 168.0: 0.0445}
COSTS = CostModel(checkpoint_interval_h=1.0, gang_nodes=8)
SETTINGS = PolicySettings()


def risk(p24: float, **more: Any) -> Risk:
    shape = {1.0: 0.06, 6.0: 0.33, 24.0: 1.0, 168.0: 1.6}
    rows = [
        ScoreRow(node="gpu043", as_of_ns=1, horizon_h=hours, p_fail=min(0.99, p24 * shape[hours]), p_base=BASE[hours], **more)
        for hours in BASE
    ]
    return risks(rows, 24.0)["gpu043"]


def cause(response: Response, kind: Kind) -> Cause:
    return Cause(node="gpu043", code="c", kind=kind, component="GPU-1", response=response, first_seen_ns=1, last_seen_ns=1)


def wanted(**view: Any) -> Wanted:
    found = want(NodeView(node="gpu043", **view), COSTS, SETTINGS)
    assert found
    return found


def test_base_risk_wants_nothing() -> None:
    """A node at the fleet's rate is left alone and is clear."""
    found = wanted(risk=risk(0.0065))
    assert (found.action, found.is_clear, found.urgency) == (Action.NONE, True, "info")


def test_raised_risk_is_watched() -> None:
    """Three times the base rate is worth watching, where nothing else pays yet."""
    assert wanted(risk=risk(0.02)).action is Action.WATCH


def test_excess_drains_an_idle_node() -> None:
    """(p - p0) L > K: at eight nodes a free drain pays above 7 %."""
    found = wanted(risk=risk(0.2))
    assert (found.action, found.origin, found.is_clear) == (Action.DRAIN_NOW, "score", False)
    assert found.not_act_cost - found.cost_of(found.action) == pytest.approx((0.2 - 0.0065) * 30 - 2, abs=1e-6)


def test_cleared_at_half_the_excess() -> None:
    """It drains above an excess of K/L = 2/30 and is clear below half of that."""
    costs = replace(COSTS, avoid_node_h=1000.0)  # only drains

    def judged(share_of_excess: float) -> tuple[Action, bool]:
        found = want(NodeView(node="gpu043", risk=risk(0.0065 + share_of_excess * 2 / 30)), costs, SETTINGS)
        assert found
        return found.action, found.is_clear

    assert judged(1.02) == (Action.DRAIN_NOW, False)
    assert judged(0.55) == (Action.WATCH, False)
    assert judged(0.48)[1] is True


def test_abstaining_wants_nothing_and_denies_nothing() -> None:
    """Without a probability and without a hard signal there is no answer, with whatever missing sources."""
    assert want(NodeView(node="gpu043", risk=abstained(risk(0.9), "stale_telemetry")), COSTS, SETTINGS) is None
    assert want(NodeView(node="gpu043"), COSTS, SETTINGS) is None


def test_failure_bypasses_the_score() -> None:
    """A failure is answered whatever the score says, even where it abstains."""
    for view in ({"risk": risk(0.0065)}, {"risk": abstained(risk(0.5), "no_telemetry")}, {}):
        found = wanted(causes=(cause(XIDS[79], "failure"),), **view)
        assert (found.action, found.urgency, found.followup, found.origin) == (Action.REMOVE, "critical", "reboot", "failure")
        assert found.p_fail == pytest.approx(1.0)


def test_criterion_never_weakens_a_score() -> None:
    """A vendor criterion raises what a score wants and never lowers it."""
    criterion = (cause(REMAP_FAILURE, "criterion"),)
    calm = wanted(risk=risk(0.0065), causes=criterion)
    assert (calm.action, calm.origin, calm.followup, calm.is_clear) == (Action.DRAIN_AFTER_JOB, "criterion", "replace", False)
    hot = wanted(risk=risk(0.6), causes=criterion)
    assert (hot.action, hot.origin) == (Action.DRAIN_NOW, "score")


def test_assumed_probability_is_marked() -> None:
    """A criterion without a score rests on an assumption, and says so."""
    found = wanted(causes=(cause(REMAP_FAILURE, "criterion"),))
    assert (found.p_fail, found.is_assumed) == (pytest.approx(0.5), True)


def test_jobs_are_advised_within_what_they_declared() -> None:
    """Only a job that checkpoints is asked to, only an elastic one to shrink."""
    jobs = (
        RunningJob(job_id="periodic", nodes=2, checkpoint_mode="periodic", checkpoint_interval_h=1.0),
        RunningJob(job_id="elastic", nodes=1, is_elastic=True),
        RunningJob(job_id="silent", nodes=1),
    )
    assert wanted(risk=risk(0.9), jobs=jobs).responses == {"periodic": "checkpoint_now", "elastic": "shrink", "silent": "continue"}


def test_scores_without_a_base_rate_abstain() -> None:
    """A risk that cannot be compared with a replacement's opens nothing."""
    rows = [ScoreRow(node="n", as_of_ns=1, horizon_h=24.0, p_fail=0.9)]
    assert risks(rows, 24.0)["n"].abstained_because == "no_base_rate"


def test_newest_score_rules() -> None:
    """Of several scores of a node the newest counts, whole; horizons that were told twice count once; falling ones are lifted."""
    rows = [
        ScoreRow(node="n", as_of_ns=2, horizon_h=6.0, p_fail=0.3, p_base=0.1),
        ScoreRow(node="n", as_of_ns=1, horizon_h=24.0, p_fail=0.9, p_base=0.1),
        ScoreRow(node="n", as_of_ns=2, horizon_h=24.0, p_fail=0.2, p_base=0.1),
        ScoreRow(node="n", as_of_ns=2, horizon_h=24.0, p_fail=0.2, p_base=0.1),
    ]
    assert [(point.hours, point.p_fail) for point in risks(rows, 24.0)["n"].horizons] == [(6.0, 0.3), (24.0, 0.3)]
