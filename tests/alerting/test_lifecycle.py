"""A recommendation opens, holds, changes and ends as its clocks and answers say."""

from __future__ import annotations

from typing import Any

import pytest

from alerting.lifecycle import NOTHING, LifecycleSettings, News, OpenRecommendation, Step, step, with_budget
from alerting.options import Option
from alerting.policy import Wanted
from alerting.schema import Action, Horizon

HOUR = 3_600_000_000_000
MINUTE = HOUR // 60
NOW = 500_000 * HOUR
SETTINGS = LifecycleSettings()
CALM = News()


def wish(action: Action = Action.DRAIN_AFTER_JOB, p_fail: float = 0.2, *, is_clear: bool = False, **more: Any) -> Wanted:
    defaults: dict[str, Any] = {
        "node": "n",
        "urgency": "medium",
        "followup": "diagnose",
        "origin": "score",
        "horizons": (Horizon(hours=24.0, p_fail=p_fail),),
        "options": (Option(Action.NONE, 6.0), Option(Action.DRAIN_NOW, 2.0)),
        "deadline_h": 4.0,
    }
    return Wanted(action=action, p_fail=p_fail, is_clear=is_clear, **{**defaults, **more})


CLEAR = wish(Action.NONE, 0.01, is_clear=True)
BAND = wish(Action.NONE, 0.12)


def opened(action: Action = Action.DRAIN_AFTER_JOB, **more: Any) -> OpenRecommendation:
    defaults: dict[str, Any] = {
        "recommendation_id": "rec_1",
        "node": "n",
        "revision": 1,
        "origin": "score",
        "urgency": "medium",
        "p_fail": 0.2,
        "opened_at_ns": NOW - HOUR,
        "updated_at_ns": NOW - HOUR,
        "expires_at_ns": NOW + 5 * HOUR,
    }
    return OpenRecommendation(action=action, **{**defaults, **more})


def take(open_: OpenRecommendation | None, wanted: Wanted | None, news: News = CALM, at_ns: int = NOW) -> Step:
    return step(open_, wanted, news, SETTINGS, at_ns)


@pytest.mark.parametrize(
    ("action", "says"),
    [(Action.NONE, "nothing"), (Action.WATCH, "nothing"), (Action.AVOID_NEW_GANGS, "opened"), (Action.REMOVE, "opened")],
)
def test_opens_from_the_mildest_output(action: Action, says: str) -> None:
    """Whatever changes something for the scheduler opens a recommendation; watching does not."""
    assert take(None, wish(action)).says == says


def test_abstaining_never_opens() -> None:
    """No score, no recommendation."""
    assert take(None, None) is NOTHING


def test_abstaining_holds_and_never_releases() -> None:
    """Silence keeps a recommendation open, forgets how long it had been clear, and after three days ends it without release."""
    silent = take(opened(clear_since_ns=NOW - HOUR), None)
    assert (silent.says, silent.open and silent.open.clear_since_ns) == ("hold", None)
    still = take(silent.open, None, at_ns=NOW + 71 * HOUR)
    assert still.says == "hold"
    over = take(still.open, None, at_ns=NOW + 72 * HOUR)
    assert (over.says, over.resolution, over.release) == ("resolved", "telemetry_lost", False)


def test_clears_after_two_hours() -> None:
    """Clear for two hours on end resolves and gives the node back; a relapse starts the clock anew."""
    first = take(opened(), CLEAR)
    assert first.says == "updated"  # the probability fell
    assert first.open
    relapse = take(first.open, wish(), at_ns=NOW + HOUR)
    assert relapse.open
    assert relapse.open.clear_since_ns is None
    again = take(relapse.open, CLEAR, at_ns=NOW + 2 * HOUR)
    assert again.open
    assert take(again.open, CLEAR, at_ns=NOW + 4 * HOUR - 1).says != "resolved"
    end = take(again.open, CLEAR, at_ns=NOW + 4 * HOUR)
    assert (end.says, end.resolution, end.release) == ("resolved", "risk_cleared", True)


def test_between_half_and_full_threshold_it_holds() -> None:
    """Below the opening threshold and above half of it the action stands, for days."""
    memory = opened(p_fail=0.12, updated_at_ns=NOW)
    for quarter in range(1, 200):
        at_ns = NOW + quarter * 15 * MINUTE
        taken = take(memory, BAND, at_ns=at_ns)
        assert taken.action is Action.DRAIN_AFTER_JOB
        assert (taken.says, taken.why) in (("hold", ""), ("updated", "renewed"))
        memory = opened(p_fail=0.12, updated_at_ns=at_ns, expires_at_ns=at_ns + 6 * HOUR) if taken.says == "updated" else memory


def test_severer_goes_at_once() -> None:
    """A severer action does not wait for the ten minutes; a stronger second signal is never ignored."""
    taken = take(opened(updated_at_ns=NOW - MINUTE), wish(Action.DRAIN_NOW))
    assert (taken.says, taken.why, taken.action) == ("updated", "severer", Action.DRAIN_NOW)


def test_earlier_deadline_goes_at_once() -> None:
    """A deadline that comes much earlier is said at once; one that moves later is not."""
    memory = opened(Action.DRAIN_BY, updated_at_ns=NOW - MINUTE, act_by_ns=NOW + 4 * HOUR)
    assert take(memory, wish(Action.DRAIN_BY, deadline_h=1.0)).why == "earlier"
    assert take(memory, wish(Action.DRAIN_BY, deadline_h=3.9)).says == "hold"
    assert take(memory, wish(Action.DRAIN_BY, deadline_h=9.0)).says == "hold"


def test_milder_waits_for_the_hold() -> None:
    """A milder action replaces a severer one after two hours of being wanted."""
    first = take(opened(Action.DRAIN_NOW), wish(Action.AVOID_NEW_GANGS))
    assert (first.says, first.action) == ("hold", Action.DRAIN_NOW)
    later = take(first.open, wish(Action.AVOID_NEW_GANGS), at_ns=NOW + 2 * HOUR)
    assert (later.says, later.why, later.action) == ("updated", "milder", Action.AVOID_NEW_GANGS)


@pytest.mark.parametrize(
    ("p_fail", "age_ns", "says"), [(0.26, 11, "updated"), (0.24, 11, "hold"), (0.26, 9, "hold"), (0.14, 11, "updated")]
)
def test_probability_moves(p_fail: float, age_ns: int, says: str) -> None:
    """A relative change of more than a quarter is said, at most once per ten minutes."""
    assert take(opened(updated_at_ns=NOW - age_ns * MINUTE), wish(p_fail=p_fail)).says == says


def test_renewed_before_it_expires() -> None:
    """While it is wanted its expiry moves on."""
    assert take(opened(expires_at_ns=NOW + HOUR), wish()).why == "renewed"


def test_failure_ends_a_prediction() -> None:
    """The failure that was predicted resolves it as failed, without release; one from before it opened does not."""
    end = take(opened(), wish(), News(failed_at_ns=NOW - MINUTE))
    assert (end.resolution, end.release) == ("failed", False)
    assert take(opened(), wish(), News(failed_at_ns=NOW - 2 * HOUR)).says == "hold"


def test_one_incident_is_one_reaction() -> None:
    """Further signs of the failure that opened a reaction do not end it; a failure hours later is a new one."""
    reaction = opened(Action.REMOVE, origin="failure", opened_at_ns=NOW - 3 * HOUR, updated_at_ns=NOW - 3 * HOUR)
    assert take(reaction, wish(Action.REMOVE), News(failed_at_ns=NOW - 2 * HOUR)).says == "hold"
    assert take(reaction, wish(Action.REMOVE), News(failed_at_ns=NOW - MINUTE)).resolution == "failed"


def test_repair_completes() -> None:
    """A told repair resolves it as completed."""
    end = take(opened(), wish(), News(repaired_at_ns=NOW - MINUTE, outcome_id="out_1"))
    assert (end.resolution, end.release) == ("completed", True)


def test_operator_dismisses() -> None:
    """An operator's rejection ends it and keeps it from coming back, unless something severer comes."""
    assert take(opened(), wish(), News(is_dismissed=True)).resolution == "dismissed"
    dismissed = News(dismissed_action=Action.DRAIN_AFTER_JOB)
    assert take(None, wish(), dismissed) is NOTHING
    assert take(None, wish(Action.DRAIN_NOW), dismissed).says == "opened"


def test_foreign_drain_is_not_released() -> None:
    """A node that somebody else had drained is not given back by us."""
    end = take(opened(clear_since_ns=NOW - 2 * HOUR), CLEAR, News(is_foreign_drain=True))
    assert (end.resolution, end.release) == ("risk_cleared", False)


def test_budget_change_is_said() -> None:
    """A changed budget decision is an update, under the same ten minutes; a silent node gets none."""
    hold = take(opened(), wish())
    assert with_budget(hold, "approved", SETTINGS, NOW).why == "budget"
    fresh = take(opened(updated_at_ns=NOW - MINUTE), wish())
    assert with_budget(fresh, "approved", SETTINGS, NOW).says == "hold"
    assert with_budget(take(opened(), None), "approved", SETTINGS, NOW).says == "hold"
