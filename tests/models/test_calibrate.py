"""Calibration brings hazards to the observed level, never lets a longer horizon shrink, and says how sure it is."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from models.calibrate import (
    NO_CALIBRATION,
    Band,
    Calibrator,
    Curve,
    calibrate,
    intercept_shift,
    platt_slope,
    poisson_ratio_interval,
    undo_sampling,
)
from models.periods import Periods
from models.survival import failure_probability

HORIZONS = (6.0, 24.0)


def simulate(failures: int, seed: int = 0, slope: float = 1.0, factor: float = 1.0):
    """Draw landmarks with a tenfold spread of hazards; the model's log hazards are the true ones stretched and shifted."""
    rng = np.random.default_rng(seed)
    n = 40_000
    true = np.exp(rng.normal(0, 1.0, n))
    true *= failures / (true.sum() * 24)
    told = np.exp((np.log(true) - np.log(true).mean()) / slope + np.log(true).mean()) / factor
    at = rng.exponential(1 / true)
    has_failed = at <= 24
    days = rng.integers(0, 40, n)
    rows = pl.DataFrame(
        {
            "as_of": [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=int(d)) for d in days],
            "followed_h": np.where(has_failed, at, 24.0),
            "failure": np.arange(n),
        }
    )
    exposure = np.stack([np.minimum(at, 6), np.clip(at, 6, 24) - 6], axis=1)
    failed = np.stack([at <= 6, (at > 6) & has_failed], axis=1)
    landmark, in_bin = np.nonzero(exposure > 0)
    periods = Periods(landmark, in_bin, exposure[landmark, in_bin], failed[landmark, in_bin], np.ones(len(landmark)))
    return np.repeat(told[:, None, None], 2, axis=2), rows, periods, true


def test_intercept_shift_solves_for_the_positives(check):
    """Four probabilities that must add up to two."""
    check("CV-69").expect("delta", intercept_shift([0.1, 0.2, 0.3, 0.4], 2))


def test_prior_correction(check):
    """A probability learned on a fiftieth of the negatives comes back to the population."""
    check("CV-33").expect("p", undo_sampling([0.1, 0.5, 0.9], 0.02))
    check("CV-33").expect("logit_shift", np.log(0.02))


def test_interval_of_observed_over_expected(check):
    """At ten failures half or double the rate cannot be told from the right one."""
    check("CV-34").expect("interval", [poisson_ratio_interval(n, n) for n in (10, 50, 200)])
    assert poisson_ratio_interval(0, 3)[0] == 0.0


@pytest.mark.parametrize(("failures", "kind"), [(30, "shift"), (200, "platt"), (2000, "platt")])
def test_the_calibrator_fits_the_number_of_failures(failures, kind):
    """Below 50 a shift, from there a slope; where hazards are only scaled a curve pays nothing, however many failures there are."""
    hazard, rows, periods, _ = simulate(failures)
    assert calibrate(hazard, rows, periods, HORIZONS).kind == kind


def test_a_bent_curve_is_straightened():
    """Hazards squeezed at the top get a curve where there are failures enough, and the top comes back to its level."""
    hazard, rows, periods, true = simulate(3000)
    cap = np.quantile(hazard, 0.6)
    bent = np.where(hazard > cap, cap * (hazard / cap) ** 0.3, hazard)
    calibrator = calibrate(bent, rows, periods, HORIZONS)
    assert calibrator.kind == "isotonic"
    top = true > np.quantile(true, 0.8)
    assert calibrator.apply(bent)[top, 0, 1].sum() / true[top].sum() == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("failures", [30, 300, 2000])
def test_level_is_recovered(failures):
    """Hazards told three times too low come out at the true level, within the noise of the failures."""
    hazard, rows, periods, true = simulate(failures, factor=3.0)
    fixed = calibrate(hazard, rows, periods, HORIZONS).apply(hazard)[:, 0, 1]
    assert fixed.sum() / true.sum() == pytest.approx(1.0, abs=4 / failures**0.5)


def test_overconfident_slope_is_recovered():
    """Log hazards stretched twofold get a slope near one half."""
    hazard, _, periods, _ = simulate(400, slope=0.5)
    assert platt_slope(np.log(hazard[periods.landmark, 0, periods.bin]), periods) == pytest.approx(0.5, abs=0.1)


def test_modes_keep_their_shares():
    """Calibration moves the total; what share a mode has in it stays."""
    hazard, rows, periods, _ = simulate(200, factor=2.0)
    two = np.concatenate([hazard * 0.25, hazard * 0.75], axis=1)
    fixed = calibrate(two, rows, periods, HORIZONS).apply(two)
    np.testing.assert_allclose(fixed[:, 1] / fixed[:, 0], 3.0)


calibrators = st.one_of(
    st.builds(Calibrator, kind=st.just("platt"), slope=st.floats(0.1, 2), shifts=st.tuples(st.floats(-3, 3), st.floats(-3, 3))),
    st.just(Calibrator(kind="isotonic", shifts=(0.0, 0.0), curves=(Curve((-9.0, -2.0), (-12.0, -1.0)), Curve((-9.0, -4.0), (-6.0, -6.0))))),
)


@given(calibrators, arrays(float, (5, 3, 2), elements=st.floats(1e-8, 1.0)))
def test_longer_horizons_keep_the_larger_probability(calibrator, hazard):
    """Whatever the calibrator, F grows with the horizon."""
    p = failure_probability(calibrator.apply(hazard).sum(axis=1), HORIZONS)
    assert (np.diff(p, axis=1) >= 0).all()


@given(calibrators, st.floats(1e-7, 0.5), st.floats(1.0, 3.0))
def test_a_higher_hazard_stays_higher(calibrator, hazard, ratio):
    """Calibration keeps the order of units."""
    pair = np.array([hazard, hazard * ratio])[:, None, None] * np.ones((1, 1, 2))
    low, high = calibrator.apply(pair)[:, 0]
    assert (high >= low * (1 - 1e-12)).all()


@settings(max_examples=5)
@given(st.integers(0, 10_000))
def test_intervals_hold_the_truth(seed):
    """On fresh draws the top tenth's true hazard lies between the bounds given for it."""
    hazard, rows, periods, true = simulate(200, seed=seed, factor=1.5)
    calibrator = calibrate(hazard, rows, periods, HORIZONS)
    fixed = calibrator.apply(hazard)[:, 0]
    cumulative = fixed @ np.array([6.0, 18.0])
    low, high = calibrator.interval_factors(cumulative)
    top = cumulative >= np.quantile(cumulative, 0.9)
    truth = true[top].sum() * 24
    assert 0.75 * (cumulative * low)[top].sum() <= truth <= 1.3 * (cumulative * high)[top].sum()


def test_nothing_to_calibrate_on_is_said():
    """Without a failure there is no calibration and the interval is everything."""
    hazard, rows, periods, _ = simulate(100)
    never = Periods(periods.landmark, periods.bin, periods.exposure_h, np.zeros(len(periods.bin), dtype=bool), periods.weight)
    assert calibrate(hazard, rows, never, HORIZONS) == NO_CALIBRATION
    low, high = NO_CALIBRATION.interval_factors(np.array([0.1]))
    assert (low[0], high[0]) == (0.0, np.inf)


def test_bands_are_found_by_the_cumulative_hazard():
    """The first band whose limit is not below the log of the cumulative hazard applies."""
    calibrator = Calibrator(kind="shift", shifts=(0.0,), bands=(Band(np.log(0.1), 0.9, 1.1), Band(None, 0.5, 2.0)))
    low, high = calibrator.interval_factors(np.array([0.05, 0.2]))
    assert low.tolist() == [0.9, 0.5]
    assert high.tolist() == [1.1, 2.0]
