"""A hazard derived from probabilities gives them back, and its integrals obey their laws."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerting.hazard import Hazard

BINS = Hazard((1.0, 6.0, 24.0, 168.0), (2e-3, 1.2e-3, 6e-4, 3e-4))
probabilities = st.lists(st.floats(0, 0.99), min_size=4, max_size=4).map(sorted)


def test_bins() -> None:
    """Four bins give the cumulative hazards and probabilities of CV-29."""
    assert [BINS.cumulative(hours) for hours in (1, 6, 24, 168)] == pytest.approx([0.002, 0.008, 0.0188, 0.062], abs=1e-12)
    assert [BINS.p_fail(hours) for hours in (1, 6, 24, 168)] == pytest.approx([0.001998, 0.007968, 0.018624, 0.060117], abs=5e-7)


def test_beyond_the_last_horizon() -> None:
    """The last rate goes on."""
    assert BINS.cumulative(268) == pytest.approx(0.062 + 100 * 3e-4)


@given(probabilities)
def test_round_trip(points: list[float]) -> None:
    """Probabilities per horizon come back."""
    horizons = (1.0, 6.0, 24.0, 168.0)
    hazard = Hazard.from_probabilities(zip(horizons, points, strict=True))
    assert [hazard.p_fail(hours) for hours in horizons] == pytest.approx(points, abs=1e-9)


def test_falling_probability_is_no_rate() -> None:
    """A probability that falls with the horizon gives a bin without failures, never a negative rate."""
    assert Hazard.from_probabilities([(1.0, 0.2), (6.0, 0.1)]).rates_per_h[1] == 0.0


@given(st.floats(1e-5, 0.5), st.floats(1e-4, 2.0), st.floats(0.01, 100))
def test_failure_before_boundary(rate: float, boundary: float, until_h: float) -> None:
    """With constant rates the failure wins with λ/(λ+θ) of all that happens before the deadline."""
    expected = rate / (rate + boundary) * (1 - math.exp(-(rate + boundary) * until_h))
    assert Hazard.constant(rate, 7.0).p_before_boundary(boundary, until_h) == pytest.approx(expected, rel=1e-9)


def test_time_of() -> None:
    """A share of the failures within the last horizon has come by its quantile."""
    at_h = BINS.time_of(0.1)
    assert BINS.p_fail(at_h) == pytest.approx(0.1 * 0.060117, abs=1e-7)
    assert Hazard.constant(0.0, 24.0).time_of(0.1) == 24.0


@given(probabilities, st.floats(0, 1))
def test_time_of_grows_with_the_share(points: list[float], share: float) -> None:
    """A larger share never comes earlier, and none comes after the last horizon."""
    hazard = Hazard.from_probabilities(zip((1.0, 6.0, 24.0, 168.0), points, strict=True))
    assert 0 <= hazard.time_of(share * 0.9) <= hazard.time_of(share) + 1e-9 <= 168.0 + 1e-6


def test_away_from_base() -> None:
    """The excess doubles; what lies below the base moves further down, to zero at most."""
    base = Hazard((1.0, 2.0), (0.1, 0.1))
    assert Hazard((1.0, 2.0), (0.3, 0.04)).away_from(base, 2.0).rates_per_h == pytest.approx((0.5, 0.0))
