"""Costs and thresholds reproduce the published check values (CV-nn) and the laws behind them."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerting.costs import (
    checkpoint_interval_h,
    checkpoint_threshold,
    deferral_hazard,
    drain_now_cost,
    drain_threshold,
    expected_cost,
    expected_lost_h,
    failure_loss,
    ladder_cost,
    ladder_order,
)

WRITE_H, RESTART_H, RECOVERY_H, DRAINED_H, FAILED_H = 20 / 3600, 5 / 60, 0.25, 2.0, 24.0


@pytest.mark.parametrize(
    ("nodes", "drain_now", "at_boundary", "short_interval"),
    [
        (1, 0.0844, 0.08081, 0.0858),
        (8, 0.0904, 0.06667, 0.1017),
        (128, 0.1115, 0.01667, 0.2007),
        (512, 0.1164, 0.0049, 0.2441),
        (2048, 0.118, 0.00128, 0.2604),
        (10**9, 0.11852, 0.0, 0.26667),
    ],
)
def test_drain_thresholds(nodes: int, drain_now: float, at_boundary: float, short_interval: float) -> None:
    """Drain thresholds per job size are those of CV-25, with their limits for a very large job."""
    cost = drain_now_cost(nodes, WRITE_H, RESTART_H, DRAINED_H)
    loss = failure_loss(nodes, 0.5, RECOVERY_H, FAILED_H)
    short = failure_loss(nodes, 1 / 12, RECOVERY_H, FAILED_H)
    assert drain_threshold(cost, loss) == pytest.approx(drain_now, abs=5e-5)
    assert drain_threshold(DRAINED_H, loss) == pytest.approx(at_boundary, abs=5e-6)
    assert drain_threshold(cost, short) == pytest.approx(short_interval, abs=5e-5)


def test_base_rate_shifts_the_threshold() -> None:
    """A replacement that fails too is worth less: p* = p0 + K/L."""
    assert drain_threshold(2.0, 20.0, base=0.16) == pytest.approx(0.26)


def test_checkpoint_threshold() -> None:
    """A checkpoint now pays above C/a, whatever the size of the job (CV-55)."""
    assert checkpoint_threshold(20 / 3600, 0.5) == pytest.approx(0.011111, abs=5e-7)


def test_deferral_hazard() -> None:
    """Waiting for a free boundary pays below the hazard of CV-56."""
    cost = drain_now_cost(128, WRITE_H, RESTART_H, DRAINED_H)
    assert cost == pytest.approx(13.3778, abs=5e-5)
    assert deferral_hazard(1 / 24, cost, 2.0, 120.0) == pytest.approx(0.0044463, abs=5e-8)


@pytest.mark.parametrize(
    ("failure_cost", "best", "cost", "saving"),
    [(5, 0.6, 108.9333, 0.274), (50, 0.5, 653.5667, 0.564), (500, 0.5, 6053.5667, 0.596)],
)
def test_released_predictions(failure_cost: float, best: float, cost: float, saving: float) -> None:
    """On the released predictions of UEPREDICT the rule p > K/L takes exactly the steps that lower the cost (CV-30 to CV-32)."""
    thresholds = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    mitigations = [8390, 3748, 2707, 2241, 1908, 1607, 1318, 975, 564, 172, 0]
    predicted = [18, 18, 18, 18, 18, 18, 17, 13, 10, 6, 0]
    costs = [count / 30 + (30 - hits) * failure_cost for count, hits in zip(mitigations, predicted, strict=True)]
    cheapest = min(range(len(costs)), key=costs.__getitem__)
    assert (thresholds[cheapest], costs[cheapest]) == (best, pytest.approx(cost, abs=5e-5))
    assert 1 - costs[cheapest] / (30 * failure_cost) == pytest.approx(saving, abs=5e-4)
    for step in range(5, 10):  # below 0.5 no step predicts another failure
        gained = (predicted[step] - predicted[step + 1]) / (mitigations[step] - mitigations[step + 1])
        assert (gained > drain_threshold(1 / 30, failure_cost)) == (costs[step] < costs[step + 1])


def test_choosing_among_actions() -> None:
    """The example with two modes ends at the free boundary (CV-70)."""
    incidence = {"hbm": 0.08, "link": 0.04}
    costs = {
        "nothing": expected_cost(cost=0, loss=120, incidence=incidence, success={}),
        "link_retrain": expected_cost(cost=0.5, loss=120, incidence=incidence, success={"link": 0.7}),
        "drain_boundary": expected_cost(
            cost=2, loss=120, incidence=incidence, success={"hbm": 1, "link": 1}, wait_h=8, rate_per_h=0.005326390479578537
        ),
        "drain_now": expected_cost(cost=13.377777777777776, loss=120, incidence=incidence, success={"hbm": 1, "link": 1}),
    }
    expected = {"nothing": 14.4, "link_retrain": 11.54, "drain_boundary": 7.1133, "drain_now": 13.3778}
    assert costs == {action: pytest.approx(cost, abs=5e-5) for action, cost in expected.items()}


def test_repair_ladder() -> None:
    """Reset, reboot, diagnose, replace cost what CV-37 says, in the order of cost per success."""
    costs, success = [0.1, 0.3, 4.0, 72.0], [0.5, 0.6, 0.7, 1.0]
    assert ladder_cost(costs, success) == pytest.approx(5.37, abs=5e-3)
    assert ladder_cost(costs[1:], success[1:]) == pytest.approx(10.54, abs=5e-3)
    assert ladder_cost(costs[3:], success[3:]) == 72.0
    assert ladder_order(costs[::-1], success[::-1]) == [3, 2, 1, 0]


@given(st.lists(st.tuples(st.floats(0.1, 50), st.floats(0.05, 0.95)), min_size=1, max_size=4))
def test_ladder_order_is_cheapest(rungs: list[tuple[float, float]]) -> None:
    """No other order of independent repairs is cheaper before a last rung that always works."""

    def cost(order: tuple[int, ...]) -> float:
        return ladder_cost([*(rungs[index][0] for index in order), 100.0], [*(rungs[index][1] for index in order), 1.0])

    chosen = tuple(ladder_order([rung[0] for rung in rungs], [rung[1] for rung in rungs]))
    assert cost(chosen) <= min(map(cost, permutations(range(len(rungs))))) * (1 + 1e-9)


@pytest.mark.parametrize(("exponent", "share"), [(0.01, 0.499167), (0.1, 0.491668), (0.5, 0.458506), (1.0, 0.418023)])
def test_lost_work(exponent: float, share: float) -> None:
    """The work lost per failure is exact, not T/2 (CV-44)."""
    assert expected_lost_h(exponent / 2, 2.0) / 2 == pytest.approx(share, abs=5e-7)


def test_hazard_aware_interval() -> None:
    """One hot node in 128 halves the checkpoint interval of its job (CV-46)."""
    base = 0.0065 / 24
    assert 60 * checkpoint_interval_h(20 / 3600, 128 * base) == pytest.approx(33.968, abs=5e-4)
    assert 60 * checkpoint_interval_h(20 / 3600, 127 * base + 0.1) == pytest.approx(17.252, abs=5e-4)
