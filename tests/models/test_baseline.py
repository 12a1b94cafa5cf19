"""Baselines are honest: each gives the rates that training showed, and costs nothing to beat only where it knows nothing."""

import numpy as np
import polars as pl
import pytest

from models.baseline import Rule, fit_logistic, fit_rules, strata
from models.periods import outcomes

HORIZONS = (6.0, 24.0)


def panel(n=4000, seed=0):
    """Units with an XID fail ten times as often; a fifth of them have one."""
    rng = np.random.default_rng(seed)
    xid = (rng.random(n) < 0.2).astype(float)
    at = rng.exponential(1 / np.where(xid > 0, 0.01, 0.001))
    failed = at <= 24
    return pl.DataFrame(
        {
            "x": xid,
            "ecc": rng.exponential(1, n),
            "followed_h": np.minimum(at, 24.0),
            "failed_as": pl.Series(np.where(failed, "m", None).tolist(), dtype=pl.String),
            "failure": np.arange(n),
            "ended_by": np.where(failed, "failure", "cutoff"),
            "weight": np.ones(n),
        }
    )


def test_rules_take_the_first_that_holds_and_missing_holds_none():
    """A unit under two rules belongs to the first; a value that is missing reaches no threshold."""
    rows = pl.DataFrame({"x": [1.0, 0.0, 1.0, None], "ecc": [9.0, 9.0, 0.0, None]})
    assert strata(rows, (Rule("xid", "x", 1), Rule("ecc", "ecc", 5))).tolist() == [0, 1, 0, 2]


def test_rule_scores_are_the_observed_rates_of_their_stratum():
    """Under the rule .01 per hour, under none .001."""
    rows = panel()
    rates = fit_rules(rows, (Rule("xid", "x", 1),), HORIZONS)
    hazard = rates.hazards_of(pl.DataFrame({"x": [1.0, 0.0]}))
    assert hazard.shape == (2, 1, 2)
    assert hazard[0].mean() == pytest.approx(0.01, rel=0.2)
    assert hazard[1].mean() == pytest.approx(0.001, rel=0.35)


def test_without_rules_it_is_the_constant_rate():
    """Every unit gets failures over exposure."""
    rows = panel()
    hazard = fit_rules(rows, (), HORIZONS).hazards_of(rows)
    rate = rows["failed_as"].is_not_null().sum() / rows["followed_h"].sum()
    assert hazard.mean() == pytest.approx(rate, rel=0.1)
    assert (hazard == hazard[0]).all()


def test_a_rule_on_a_feature_that_is_not_there_is_left_out():
    """Event-only data have no ECC counter: the rule falls away instead of failing."""
    assert fit_rules(panel(), (Rule("link", "no_such", 1),), HORIZONS).rules == ()


def test_logistic_regression_learns_the_ratio_and_keeps_horizons_in_order():
    """Tenfold hazards come out far apart, and a day is never safer than six hours."""
    rows = panel(20_000)
    model = fit_logistic(rows, ("x", "ecc"), HORIZONS, share=0.5, seed=1)
    hazard = model.hazards_of(pl.DataFrame({"x": [1.0, 0.0, None], "ecc": [1.0, 1.0, None]}))[:, 0]
    assert (hazard >= 0).all()
    day = 1 - np.exp(-(hazard @ np.array([6.0, 18.0])))
    known = outcomes(rows, 24.0)
    for value, p in zip((1.0, 0.0), day, strict=False):
        of_group = known.failed[rows["x"].to_numpy() == value].mean()
        assert p == pytest.approx(of_group, rel=0.35)
    assert np.isfinite(day[2])


def test_logistic_regression_without_failures_gives_the_prevalence():
    """Nothing to learn is zero risk here, not an error."""
    rows = panel(100).with_columns(failed_as=pl.lit(None, dtype=pl.String), ended_by=pl.lit("cutoff"), followed_h=pl.lit(24.0))
    assert fit_logistic(rows, ("x",), HORIZONS, share=1.0, seed=0).hazards_of(rows).max() == 0.0
