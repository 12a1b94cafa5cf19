"""What a quiet time, a sequential test, a burn-in and a passed diagnostic prove, by the published check values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerting.admission import InfantMortality, SequentialTest, may_return, p_bad_after_pass, quiet_days

TEST = SequentialTest(healthy_per_day=0.0065, lemon_per_day=0.065)


@pytest.mark.parametrize(("rate", "days"), [(0.0065, 460.88), (0.00234, 1280.23)])
def test_quiet_days(rate: float, days: float) -> None:
    """Zero failures prove a rate only after hundreds of node-days (CV-48)."""
    assert quiet_days(rate) == pytest.approx(days, abs=5e-3)


def test_sequential_bounds() -> None:
    """The test accepts and rejects on the days of CV-49."""
    assert (TEST.rejects_at, TEST.accepts_at) == (pytest.approx(2.89, abs=5e-4), pytest.approx(-2.251, abs=5e-4))
    assert [TEST.boundary_days(count, "accept") for count in (0, 1)] == pytest.approx([38.484, 77.844], abs=5e-4)
    assert [TEST.boundary_days(count, "reject") for count in (2, 3)] == pytest.approx([29.313, 68.673], abs=5e-4)


@pytest.mark.parametrize(
    ("failures", "days", "verdict"), [(0, 30, "probation"), (0, 39, "accept"), (2, 29, "reject"), (2, 30, "probation"), (1, 78, "accept")]
)
def test_verdicts(failures: int, days: float, verdict: str) -> None:
    """Two failures within 29 days are a lemon; ten quiet minutes, or days, are not enough to accept."""
    assert TEST.judge(failures, days) == verdict


@given(st.integers(0, 5), st.floats(0, 500))
def test_one_more_failure_never_helps(failures: int, days: float) -> None:
    """More failures in the same time never make a node better."""
    order = {"accept": 0, "probation": 1, "reject": 2}
    assert order[TEST.judge(failures, days)] <= order[TEST.judge(failures + 1, days)]


@pytest.mark.parametrize(
    ("shape", "scale", "first_day", "to_target", "best", "cost"),
    [(0.5, 197.2, 0.0356, 13.33, 2.47, 44.97), (0.7, 186.2, 0.0180, 7.77, 0.40, 48.62)],
)
def test_burn_in(*, shape: float, scale: float, first_day: float, to_target: float, best: float, cost: float) -> None:
    """Infant mortality through 6.5 per 1000 on day 30 has the burn-ins and costs of CV-50."""
    infant = InfantMortality.through(shape, 30, 0.0065)
    assert infant.scale_d == pytest.approx(scale, abs=0.05)
    assert infant.rate_per_day(1) == pytest.approx(first_day, abs=5e-5)
    assert infant.burn_in_days(1.5 * 0.0065) == pytest.approx(to_target, abs=5e-3)
    days = infant.cheapest_burn_in_days(180, 1, 50)
    assert days == pytest.approx(best, abs=5e-3)
    assert infant.burn_in_cost(days, 180, 1, 50) == pytest.approx(cost, abs=5e-3)


@pytest.mark.parametrize(("p_bad", "after"), [(0.02, 0.006085), (0.1, 0.032258), (0.3, 0.113924)])
def test_a_passed_test_is_weak(p_bad: float, after: float) -> None:
    """A diagnostic that finds 70 % leaves the doubt of CV-51."""
    assert p_bad_after_pass(p_bad, 0.7) == pytest.approx(after, abs=5e-7)


def test_return_depends_on_the_job() -> None:
    """A repaired node may take a small job where a large gang would still be refused, under a stricter bar than running nodes."""
    assert may_return(0.03, job_loss=24.75, holding_cost=2.0)
    assert not may_return(0.03, job_loss=120.0, holding_cost=2.0)
    assert not may_return(0.05, job_loss=24.75, holding_cost=2.0)
