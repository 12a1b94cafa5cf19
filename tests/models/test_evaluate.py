"""Figures of a contender are right on data whose answer is known, and a model without lift is said to have none."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from models.card import write_card
from models.censored import auc_at, brier_ipcw, reliability_curve
from models.early_warning import AlertRule
from models.evaluate import (
    bits_per_failure,
    evaluate_level,
    evaluate_warning,
    expected_and_observed,
    node_total,
    ratio_figure,
    threshold_for_share,
)
from models.fitting import Settings, fit_model
from models.periods import expand
from models.ranking import auroc
from models.survival import kaplan_meier
from models.trial import judge_recipe

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def test_brier_score_weighted_for_censoring(check):
    """Five units, two censored."""
    inputs = check("CV-35").inputs
    time, event = np.array(inputs["t"], dtype=float), np.array(inputs["event"], dtype=float)
    case = check("CV-35")
    case.expect("brier_7", brier_ipcw(time, event, np.array(inputs["S7"]), 7.0))
    censoring = kaplan_meier(time, 1 - event)
    case.expect("G_6_minus", censoring.at(6.0, left=True))
    case.expect("G_7", censoring.at(7.0))
    p = -np.expm1(-0.0065)
    case.expect("brier_of_base_rate_r6p5", p * (1 - p))


def survivors(n=30_000, rate=0.002, seed=0, followed=24.0):
    """Units at a known rate, a third of them censored half-way by something else."""
    rng = np.random.default_rng(seed)
    fail, leave = rng.exponential(1 / rate, n), np.where(rng.random(n) < 0.33, followed / 2, followed)
    failed = fail <= leave
    return pl.DataFrame(
        {
            "unit": [f"u{i}" for i in range(n)],
            "node": [f"n{i % 50}" for i in range(n)],
            "as_of": [T0] * n,
            "followed_h": np.minimum(fail, leave),
            "failed_as": pl.Series(np.where(failed, "m", None).tolist(), dtype=pl.String),
            "failure": pl.Series([i if f else None for i, f in enumerate(failed)], dtype=pl.Int64),
            "ended_by": np.where(failed, "failure", np.where(leave < followed, "removed", "cutoff")),
            "weight": np.ones(n),
        }
    )


def test_auc_without_censoring_is_the_plain_one():
    """Where everybody was followed, weighting changes nothing; where some left it still ranks a perfect score at one."""
    rows = survivors(3000, rate=0.02)
    score = 1 / rows["followed_h"].to_numpy()
    assert auc_at(rows, score, 6.0) == pytest.approx(1.0, abs=1e-3)
    followed = rows.filter(pl.col("ended_by") != "removed")
    noise = np.random.default_rng(3).random(len(followed))
    plain = auroc(noise, followed["failed_as"].is_not_null() & (followed["followed_h"] <= 20))
    assert auc_at(followed, noise, 20.0) == pytest.approx(plain, abs=1e-6)


def test_reliability_of_the_right_probability():
    """Two groups at .2 and .02 per day come out where they were predicted, although a third left half-way."""
    low, high = (
        survivors(20_000, rate=0.02 / 24, seed=1),
        survivors(20_000, rate=0.2 / 24, seed=2).with_columns(failure=pl.col("failure") + 50_000),
    )
    rows = pl.concat([low, high])
    p = np.repeat([1 - np.exp(-0.02), 1 - np.exp(-0.2)], 20_000)
    curve = reliability_curve(rows, p, 24.0, bins=2)
    assert [round(b.predicted, 4) for b in curve] == [0.0198, 0.1813]
    assert all(b.low < b.predicted < b.high for b in curve)


def test_expected_over_observed_is_not_biased_by_censoring():
    """The true rate gives one, though a third of the units left half-way."""
    rows = survivors()
    periods = expand(rows, (6.0, 24.0))
    expected, observed = expected_and_observed(np.full((len(rows), 2), 0.002), periods, 1)
    figure = ratio_figure(observed, expected, int(observed))
    assert figure.value == pytest.approx(1.0, abs=0.07)
    assert figure.low < 1 < figure.high


def test_overlapping_landmarks_do_not_narrow_the_interval():
    """Ten failures seen by forty landmarks each are ten failures."""
    wide, naive = ratio_figure(400, 400, 10), ratio_figure(400, 400, 400)
    assert (wide.low, wide.high) == (pytest.approx(0.4795, abs=1e-4), pytest.approx(1.839, abs=1e-3))
    assert naive.high < 1.2


def test_bits_per_failure_of_the_right_constant_is_zero():
    """A constant gains nothing over itself and loses when it is off."""
    rows = survivors()
    periods = expand(rows, (24.0,))
    rate = periods.failed.sum() / periods.exposure_h.sum()
    assert bits_per_failure(np.full((len(rows), 1), rate), periods, 0) == pytest.approx(0, abs=1e-12)
    assert bits_per_failure(np.full((len(rows), 1), 2 * rate), periods, 0) < -0.1


def test_both_conventions_for_removed_units_are_given():
    """Counting removed units as survivors changes the average precision, so both are printed."""
    rows = survivors(4000, rate=0.01)
    score = {"model": np.random.default_rng(1).random((len(rows), 1)) * 0.01}
    figures = evaluate_level("gpu", rows, score, (24.0,), seed=0)[0].horizons[0]
    assert figures.removed > 500
    assert figures.average_precision_removed_survive < figures.average_precision.value


def test_noise_captures_its_share():
    """A score that knows nothing has .05 within its interval of capture at 5 % and one half within that of AUROC."""
    rows = survivors(20_000, rate=0.004)
    score = {"model": np.random.default_rng(2).random((len(rows), 1))}
    figures = evaluate_level("gpu", rows, score, (24.0,), seed=0)[0].horizons[0]
    assert figures.capture_5.low < 0.05 < figures.capture_5.high
    assert figures.auroc.low < 0.5 < figures.auroc.high


def test_alerts_are_counted_per_thousand_node_days():
    """Two nodes watched for ten days, one alerted once ahead of its failure."""
    at = [T0 + timedelta(hours=6 * i) for i in range(40)]
    frame = {"as_of": at * 2, "node": ["a"] * 40 + ["b"] * 40, "unit": ["a"] * 40 + ["b"] * 40}
    rows = pl.DataFrame(frame).with_columns(
        followed_h=pl.when(pl.col("node") == "a").then(240.0 - 6 * pl.int_range(40).over("node")).otherwise(300.0),
        failed_as=pl.when(pl.col("node") == "a").then(pl.lit("m")),
        failure=pl.when(pl.col("node") == "a").then(pl.lit(1)),
    )
    score = np.zeros(80)
    score[38] = 0.5  # 12 h before the failure of a
    found = evaluate_warning(rows, score, AlertRule())
    assert found.alerts_per_1000_node_days == pytest.approx(50.0)
    assert (found.recall, found.precision_act, found.lead_median_h) == (1.0, 1.0, 12.0)
    assert found.recall_per_mode == {"m": (1, 1)}


def test_a_baseline_gets_no_more_time_under_alert_than_the_model():
    """The threshold keeps to the share, and a constant score has none that does."""
    score = np.array([0.1, 0.2, 0.2, 0.9])
    assert threshold_for_share(score, 0.5) == 0.9
    assert threshold_for_share(score, 0.75) == 0.2
    assert threshold_for_share(np.ones(4), 0.5) == np.inf


def test_hazards_of_parts_reach_their_node():
    """Parts add to the landmark of their own node and time; one without such a landmark is left out."""
    rows = pl.DataFrame({"node": ["a", "b"], "as_of": [T0, T0]})
    parts = pl.DataFrame({"node": ["b", "b", "a", "c"], "as_of": [T0] * 4})
    total = node_total(rows, np.array([[1.0], [2.0]]), parts, np.array([[10.0], [20.0], [30.0], [99.0]]))
    assert total.tolist() == [[31.0], [32.0]]


@pytest.fixture(scope="module")
def judged(known_fleet):
    settings = Settings(catalogue=known_fleet.catalogue)
    return judge_recipe(known_fleet.material, settings, cutoff=known_fleet.start + timedelta(days=42), now=known_fleet.end)


def test_the_model_beats_history_where_bursts_foretell_failures(judged):
    """On the known fleet the model has lift per GPU, the rules and the constant do not rank, and O/E holds one."""
    assert judged.has_lift("gpu")
    model = judged.at_main(judged.result("gpu", "model"))
    assert model.capture_5.value > 0.15
    assert model.observed_over_expected.low < 1 < model.observed_over_expected.high
    assert judged.at_main(judged.result("gpu", "constant")).capture_5.value == pytest.approx(0.05)


def test_the_node_is_judged_on_any_failure(judged):
    """At node level the failures are those of all its GPUs, and alerts are judged there."""
    node = judged.result("node", "model")
    assert judged.at_main(node).failures >= judged.at_main(judged.result("gpu", "model")).failures - 2
    assert node.warning.counts.failures > 20
    assert judged.result("gpu", "model").warning is None


def test_no_lift_is_said(draw):
    """Where nothing foretells failures the card says so, and the interval of capture at 5 % holds .05."""
    fleet = draw(nodes=30, days=50, base=5e-4, lift=1, seed=4)
    settings = Settings(catalogue=fleet.catalogue)
    settings = replace(settings, horizons_h=(6.0, 24.0, 72.0))
    judged = judge_recipe(fleet.material, settings, cutoff=fleet.start + timedelta(days=35), now=fleet.end)
    assert not judged.has_lift("gpu")
    capture = judged.at_main(judged.result("gpu", "model")).capture_5
    assert capture.low <= 0.05 <= capture.high
    model = fit_model(fleet.material, settings, until=fleet.end, name="h", label_origin="synthetic")
    assert "**no lift**" in write_card(model, judged, settings.rule)


def test_the_card_says_where_labels_come_from(known_fleet, judged):
    """Synthetic labels are named before any figure."""
    settings = Settings(catalogue=known_fleet.catalogue)
    model = fit_model(known_fleet.material, settings, until=known_fleet.end, name="h", label_origin="synthetic")
    card = write_card(model, judged, settings.rule)
    assert card.index("synthetic") < card.index("AUROC")
    assert "hbm_ue" in card
