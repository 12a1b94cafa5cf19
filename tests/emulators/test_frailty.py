"""How unequal the nodes are (acceptance 2 of the parameter sheet; check value CV-61)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from emulators import draws
from emulators.frailty import GAMMA_SHAPES, Hazards, draw_hazards
from emulators.layout import NodeInfo, WorldSpec, lay_out

NODES = 24_000


def large_fleet(seed: int, **changes: object) -> tuple[tuple[NodeInfo, ...], Hazards]:
    spec = WorldSpec(seed=seed, nodes=NODES, days=1, nodes_per_rack=32, nodes_per_row=96, **changes)  # type: ignore[arg-type]
    nodes = lay_out(spec)
    return nodes, draw_hazards(spec, nodes)


def top_share(hazard: np.ndarray, fraction: float = 0.05) -> float:
    ranked = np.sort(hazard)[::-1]
    return float(ranked[: int(len(ranked) * fraction)].sum() / ranked.sum())


@pytest.mark.parametrize(("sigma", "share"), [(1.4173, 0.41), (2.0033, 0.64)])
def test_a_lognormal_frailty_carries_the_published_share(sigma: float, share: float) -> None:
    """σ = 1.4173 puts 41 % of the hazard on the top 5 % of nodes (Titan), 2.0033 puts 64 % (CV-61)."""
    frailty = np.exp(sigma * draws.normal(draws.key_of(1, "cv-61"), np.arange(400_000)))
    assert top_share(frailty) == pytest.approx(share, abs=0.02)


def test_the_top_nodes_carry_what_fleets_have_shown() -> None:
    """With all factors on, the top 5 % carry between 41 % and 64 % of the true hazard (median of five fleets)."""
    shares = [top_share(large_fleet(seed)[1].of_node) for seed in range(1, 6)]
    assert 0.41 < float(np.median(shares)) < 0.64


def test_a_defective_lot_carries_more() -> None:
    """A lot that wears out ten times faster raises the hazard of its nodes over the others."""
    nodes, hazards = large_fleet(1, defective_lot=True)
    is_bad = np.array([node.lot == "lot-a" for node in nodes])
    today = hazards.over_days.mean(axis=1)
    assert today[is_bad].mean() > 1.5 * today[~is_bad].mean()


def test_every_factor_keeps_the_fleet_mean_at_one() -> None:
    """Multipliers have mean 1 over the nodes, per mode as well, and over time when weighted with them."""
    _, hazards = large_fleet(3)
    assert hazards.of_node.mean() == pytest.approx(1.0)
    assert hazards.of("switch_cable").mean() == pytest.approx(1.0)
    assert np.average(hazards.over_days.mean(axis=1), weights=hazards.of_node) == pytest.approx(1.0)


def test_heterogeneity_off_makes_all_nodes_alike() -> None:
    """Without heterogeneity every factor is 1."""
    _, hazards = large_fleet(3, heterogeneity=False)
    assert (hazards.of_node == 1.0).all()
    assert (hazards.over_days == 1.0).all()


def test_a_cap_bounds_the_worst_node() -> None:
    """No node exceeds the cap, and the mean stays 1."""
    spec = WorldSpec.show()
    hazards = draw_hazards(spec, lay_out(spec))
    assert hazards.of_node.max() <= 3.0 * 1.001
    assert hazards.of_node.mean() == pytest.approx(1.0)


@pytest.mark.parametrize("kind", list(GAMMA_SHAPES))
def test_domain_factors_come_back_from_failure_counts(kind: str) -> None:
    """The moment estimate of 1/a from counts per domain covers the input with its 99 % bootstrap interval."""
    nodes, hazards = large_fleet(11)
    others = np.prod([factor for name, factor in hazards.factors.items() if name != kind], axis=0)
    expected = 3.0 * others / others.mean()
    rng = np.random.default_rng(5)
    observed = rng.poisson(expected * hazards.factors[kind])
    domains = np.unique([getattr(node, kind) for node in nodes], return_inverse=True)[1]
    counts, mu = np.bincount(domains, observed), np.bincount(domains, expected)
    picks = rng.integers(len(mu), size=(2000, len(mu)))
    estimates = (((counts - mu) ** 2 - mu)[picks].sum(axis=1)) / (mu**2)[picks].sum(axis=1)
    low, high = np.quantile(estimates, [0.005, 0.995])
    assert low < 1.0 / GAMMA_SHAPES[kind] < high


def test_domain_factors_are_gamma() -> None:
    """Chassis factors pass a Kolmogorov-Smirnov test against Gamma(5, 5)."""
    nodes, hazards = large_fleet(4)
    first = np.unique([node.chassis for node in nodes], return_index=True)[1]
    assert stats.kstest(hazards.factors["chassis"][first], stats.gamma(5.0, scale=0.2).cdf).pvalue > 0.001
