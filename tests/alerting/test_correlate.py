"""Domains are told from nodes by the published check values, and only by an excess that heterogeneity does not explain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerting.correlate import (
    CorrelationSettings,
    frailty_variance,
    negative_binomial_tail,
    p_factor_above,
    poisson_tail,
    posterior_factor,
    rejected,
    suspects,
)
from alerting.topology import DomainId, topology_of

RACKS = topology_of((f"n{index:03d}", "rack", f"r{index // 16:02d}") for index in range(320))
WEEK = dict.fromkeys(RACKS.nodes, 0.0065 * 7)


@pytest.mark.parametrize(("observed", "tail"), [(0, 1.0), (2, 0.165594), (3, 0.037636), (4, 0.006585), (5, 0.000934)])
def test_poisson_excess(observed: int, tail: float) -> None:
    """16 nodes over a week at 6.5 per 1000 node-days (CV-41)."""
    assert poisson_tail(observed, 0.728) == pytest.approx(tail, abs=5e-7)


def test_heterogeneity_makes_excess_less_surprising() -> None:
    """With frailty of shape 8 the same four failures are half again as likely (CV-41)."""
    assert negative_binomial_tail(4, 0.728, 8) == pytest.approx(0.009895, abs=5e-7)


@given(st.integers(0, 30), st.floats(0.01, 20))
def test_equal_domains_are_poisson(observed: int, expected: float) -> None:
    """Without heterogeneity the two tails agree."""
    assert negative_binomial_tail(observed, expected, 1e7) == pytest.approx(poisson_tail(observed, expected), rel=1e-3, abs=1e-9)


@pytest.mark.parametrize(("shape", "mean", "above"), [(7.98, 1.376, 0.0702), (2.78, 1.933, 0.4141), (4.87, 1.584, 0.2026)])
def test_posterior(shape: float, mean: float, above: float) -> None:
    """Four failures where 0.728 were expected (CV-42)."""
    assert posterior_factor(4, 0.728, shape) == pytest.approx(mean, abs=6e-4)
    assert p_factor_above(2.0, 4, 0.728, shape) == pytest.approx(above, abs=6e-4)


def test_frailty_by_moments() -> None:
    """The moment estimate is that of CV-60, and never negative."""
    assert frailty_variance([0, 1, 4, 1, 0], [1, 1, 1.5, 1, 0.8]) == pytest.approx(0.439728, abs=5e-7)
    assert frailty_variance([1, 1, 1], [1, 1, 1]) == 0.0


def test_many_racks_are_corrected_for() -> None:
    """Of five small p-values among 200 racks one is rejected at 10 % (CV-57)."""
    assert rejected([0.0002, 0.004, 0.0068, 0.02, 0.3], 0.1, tests=200) == {0}
    assert rejected([0.3, 0.0002], 0.1) == {1}


def test_a_sick_rack_is_suspected() -> None:
    """Six of sixteen nodes of one rack within a week, and one in each of five others: the rack, and it alone."""
    failed = frozenset([*(f"n{index:03d}" for index in range(32, 38)), "n000", "n020", "n060", "n100", "n200"])
    (suspect,) = suspects(failed, WEEK, RACKS, CorrelationSettings())
    assert (suspect.domain, suspect.observed) == (DomainId("rack", "r02"), 6)
    assert (suspect.expected, suspect.p_value < 1e-3) == (pytest.approx(0.728), True)


def test_chance_is_not_suspected() -> None:
    """Two failures in one rack, and a fleet that fails as expected, are nobody's fault."""
    assert suspects(frozenset(["n000", "n001"]), WEEK, RACKS, CorrelationSettings()) == []
    assert suspects(frozenset(f"n{index * 16:03d}" for index in range(15)), WEEK, RACKS, CorrelationSettings()) == []


def test_domains_that_differ_explain_more() -> None:
    """Where racks differ much by nature, the same six failures are no incident."""
    spread = {0: 4, 3: 5, 5: 4, 9: 6, 11: 5, 14: 4}
    failed = frozenset(f"n{rack * 16 + index:03d}" for rack, count in {**spread, 2: 6}.items() for index in range(count))
    assert suspects(failed, WEEK, RACKS, CorrelationSettings(certainty=1.0)) == []
