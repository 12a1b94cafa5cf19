"""Alerts are judged as events: caught in time, late, missed, false or not yet resolved."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.early_warning import AlertRule, judge, merge

RULE = AlertRule(lead_h=0.25, horizon_h=24, cooldown_h=0)


def _case(check, cv, cooldown):
    inputs = check("CV-36").inputs
    alerts = [(str(n), t) for n, t in inputs["alerts_node_time_h"]]
    failures = [(str(n), t) for n, t in inputs["failures_node_time_h"]]
    found = judge(alerts, failures, replace(RULE, cooldown_h=cooldown))
    case = check(cv)
    for output, value in {
        "caught": found.caught,
        "late_failures": found.late_failures,
        "missed": found.missed,
        "recall": found.recall,
        "alerts_tp": found.alerts_hit,
        "alerts_late": found.alerts_late,
        "alerts_fp": found.alerts_false,
        "precision_act": found.precision_act,
        "precision_true": found.precision_true,
    }.items():
        case.expect(output, value)
    return found


def test_worked_example(check):
    """One failure caught two hours ahead, one announced too late, two missed."""
    assert _case(check, "CV-36", 0).leads_h == (2.0,)


def test_worked_example_with_cool_down(check):
    """Two late alerts within the cool-down are one."""
    _case(check, "CV-66", 1.0)


def test_unresolved_alerts_bound_the_precision():
    """An alert whose node was taken out before the horizon is neither hit nor false."""
    found = judge([("a", 0.0), ("b", 0.0)], [("a", 5.0)], RULE, {"a": 100.0, "b": 10.0})
    assert (found.alerts_hit, found.alerts_unresolved, found.alerts_false) == (1, 1, 0)
    assert found.precision_bounds == (0.5, 1.0)
    assert found.precision_true == 1.0


def test_an_episode_lasts_until_the_score_was_low_for_the_cool_down():
    """Crossings 2 h apart are one episode under a cool-down of 3 h, however long it lasts."""
    assert merge([0, 2, 4, 6, 20], 3) == [0, 20]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 100)), max_size=12),
    st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 100)), max_size=6),
)
def test_every_failure_and_alert_is_counted_once(alerts, failures):
    """Outcomes partition failures and alerts."""
    found = judge(alerts, failures, RULE, 100.0)
    assert found.caught + found.late_failures + found.missed == len(failures)
    opened = sum(len(merge(sorted(t for n, t in alerts if n == node), 0)) for node in "abc")
    assert found.alerts == opened
    assert len(found.leads_h) == found.caught
    assert all(0.25 <= lead <= 24 for lead in found.leads_h)


def test_no_alert_is_no_precision():
    """A rate without a denominator is None."""
    found = judge([], [("a", 1.0)], RULE)
    assert found.precision_act is None
    assert found.recall == pytest.approx(0.0)
