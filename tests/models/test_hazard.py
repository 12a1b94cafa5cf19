"""The hazard recovers rates that are known, finds only what is there, and is the same model every time."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import polars as pl
import pytest

from models.hazard import Design, Recipe, cross_fit, fit
from models.periods import expand
from models.trees import Grove, Growth, Target, Trees

HORIZONS = (1.0, 6.0, 24.0, 168.0)
FEATURES = ("ce_6h", "drift_c", "noise", "past_failures", "empty")


def test_exposure_offset_returns_the_maximum_likelihood_rates():
    """On 200,000 rows with exposures between .1 and 10 h each group gets its failures over its exposure."""
    rng = np.random.default_rng(1)
    n = 200_000
    x = rng.integers(0, 2, n)
    exposure = rng.uniform(0.1, 10, n)
    failed = rng.random(n) < 1 - np.exp(-np.where(x == 1, 4e-3, 1e-3) * exposure)
    base = failed.sum() / exposure.sum()
    growth = Growth(rounds=300, learning_rate=0.3, leaves=2, min_rows_in_leaf=50, features_per_tree=1.0)
    grove = Grove(x[:, None].astype(np.float32), ("x",), np.ones(n), exposure, growth)
    ratio = Trees(grove.grow(Target(failed, base, 0.0), 300)).log_ratio(np.array([[0], [1]], dtype=np.float32))
    expected = [failed[x == g].sum() / exposure[x == g].sum() for g in (0, 1)]
    np.testing.assert_allclose(np.exp(ratio) * base, expected, rtol=1e-5)
    np.testing.assert_allclose(expected, [0.00102637, 0.00387048], rtol=1e-5)  # numpy's generator gives these data


def test_sampled_negatives_give_the_rates_of_all():
    """A twentieth of the negatives at weight twenty: without the weight the rates would be more than ten times too high."""
    rng = np.random.default_rng(2)
    n = 100_000
    x, exposure = rng.integers(0, 2, n), np.full(n, 5.0)
    failed = rng.random(n) < np.where(x == 1, 4e-3, 1e-3) * 5
    kept = failed | (rng.random(n) < 0.05)
    weight = np.where(failed, 1.0, 20.0)[kept]
    growth = Growth(rounds=200, learning_rate=0.3, leaves=2, min_rows_in_leaf=20, features_per_tree=1.0)
    grove = Grove(x[kept, None].astype(np.float32), ("x",), weight, exposure[kept], growth)
    base = failed.sum() / exposure.sum()
    rates = np.exp(Trees(grove.grow(Target(failed[kept], base, 0.0), 200)).log_ratio(np.array([[0], [1]], dtype=np.float32))) * base
    np.testing.assert_allclose(rates, [failed[x == g].sum() / exposure[x == g].sum() for g in (0, 1)], rtol=0.05)


@pytest.fixture(scope="module")
def rows(known_fleet):
    return known_fleet.material.at_risk("gpu", known_fleet.end)


def test_known_hazards_come_back(known_fleet, rows):
    """Trees that did not see a node give its bursts the raised hazard and its quiet times the low one, by bin."""
    design = Design(rows, features=FEATURES, horizons_h=HORIZONS, recipe=Recipe())
    hazard = cross_fit(design, np.ones(len(rows), dtype=bool)).hazard.sum(axis=1)
    in_burst = rows["ce_6h"].to_numpy() > 0
    true_burst, true_quiet = 31 * known_fleet.base, 2 * known_fleet.base
    assert hazard[in_burst, 1].mean() == pytest.approx(true_burst, rel=0.35)
    assert hazard[~in_burst, 1].mean() == pytest.approx(true_quiet, rel=0.45)
    periods = expand(rows, HORIZONS)
    expected = (hazard[periods.landmark, periods.bin] * periods.exposure_h).sum()
    assert periods.failed.sum() / expected == pytest.approx(1.0, abs=0.2)


def test_a_mode_without_signal_stays_a_constant(rows):
    """No feature foretells `thermal` here: cross-fitting finds zero rounds for it and more for `hbm_ue`."""
    design = Design(rows, features=FEATURES, horizons_h=HORIZONS, recipe=Recipe())
    rounds = cross_fit(design, np.zeros(len(rows), dtype=bool)).rounds
    hazard = fit(design, "gpu", rounds)
    by_mode = {part.modes[0]: part for part in hazard.parts}
    assert by_mode["thermal"].text is None
    assert by_mode["hbm_ue"].text is not None


def test_pure_noise_gives_constant_hazards(draw):
    """Without any lift the left-out hazards vary by less than a factor of two."""
    fleet = draw(nodes=25, days=40, base=6e-4, lift=1, seed=9)
    rows = fleet.material.at_risk("gpu", fleet.end)
    design = Design(rows, features=("drift_c", "noise"), horizons_h=HORIZONS, recipe=Recipe())
    hazard = cross_fit(design, np.ones(len(rows), dtype=bool)).hazard.sum(axis=1)
    assert hazard[:, 2].max() / hazard[:, 2].min() < 2


def test_same_rows_give_the_same_model(rows):
    """Fitting twice gives the same text and the same hazards."""
    texts = []
    for _ in range(2):
        design = Design(rows, features=FEATURES, horizons_h=HORIZONS, recipe=Recipe(growth=Growth(rounds=20)))
        texts.append([part.text for part in fit(design, "gpu").parts])
    assert texts[0] == texts[1]
    other = Design(rows, features=FEATURES, horizons_h=HORIZONS, recipe=Recipe(growth=Growth(rounds=20), seed=1))
    assert [part.text for part in fit(other, "gpu").parts] != texts[0]


def test_features_without_information_are_left_out(rows):
    """A constant and an empty column are no features."""
    design = Design(rows, features=FEATURES, horizons_h=HORIZONS, recipe=Recipe())
    assert design.features == ("ce_6h", "drift_c", "noise")


def test_rare_modes_share_one_model(rows):
    """Below the limit modes are pooled and split the hazard by their counts."""
    design = Design(rows, features=FEATURES, horizons_h=HORIZONS, recipe=Recipe(min_failures=1000))
    hazard = fit(design, "gpu")
    (part,) = hazard.parts
    assert part.modes == ("hbm_ue", "thermal")
    assert sum(part.shares) == pytest.approx(1)
    assert part.shares[0] > part.shares[1]
    given = hazard.hazards(hazard.matrix(rows[:3]))
    np.testing.assert_allclose(given[:, 0] / given[:, 1], part.shares[0] / part.shares[1])


def test_missing_is_not_zero(rows):
    """A null reaches the trees as missing."""
    design = Design(rows, features=FEATURES, horizons_h=HORIZONS, recipe=Recipe(growth=Growth(rounds=5)))
    hazard = fit(design, "gpu")
    assert np.isnan(hazard.matrix(rows[:1].with_columns(ce_6h=pl.lit(None, dtype=pl.Float64)))).sum() == 1


def test_another_mode_is_censoring(rows):
    """The base rates of the modes add up to the rate of any failure."""
    design = Design(rows, features=FEATURES, horizons_h=HORIZONS, recipe=Recipe())
    parts = [design.part(modes, counts) for modes, counts in design.groups]
    pooled = Design(rows, features=FEATURES, horizons_h=HORIZONS, recipe=replace(Recipe(), pooled=True))
    (whole,) = [pooled.part(modes, counts) for modes, counts in pooled.groups]
    assert sum(part.base_rate_per_h for part in parts) == pytest.approx(whole.base_rate_per_h)


def test_training_before_a_cutoff_does_not_see_later_failures(known_fleet):
    """Rates from a month with its failures after the cutoff removed are the same."""
    cutoff = known_fleet.start + timedelta(days=30)
    cut = known_fleet.material.episodes.filter(pl.col("started_at") < cutoff)
    seen = known_fleet.material.at_risk("gpu", cutoff)
    blind = type(known_fleet.material)(known_fleet.material.landmarks, cut).at_risk("gpu", cutoff)
    a, b = (Design(r, features=FEATURES, horizons_h=HORIZONS, recipe=Recipe(growth=Growth(rounds=5))) for r in (seen, blind))
    assert [p.text for p in fit(a, "gpu").parts] == [p.text for p in fit(b, "gpu").parts]
