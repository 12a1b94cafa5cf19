"""Repairs are believed in by their results, and chosen by cost per success."""

from __future__ import annotations

import random

import pytest

from alerting.learn import PRIORS, Repair, Success, learned, next_rung, propensities, repair_order, repairs_of, tried_on

DAY = 86_400_000_000_000
NOW = 1000 * DAY


def repair(age_d: float, rung: str = "reset_component", failed_after_d: float | None = None, node: str = "n") -> Repair:
    at_ns = NOW - int(age_d * DAY)
    again = None if failed_after_d is None else at_ns + int(failed_after_d * DAY)
    return Repair(rung=rung, mode="hbm_ue", node=node, at_ns=at_ns, failed_again_ns=again)  # type: ignore[arg-type]


def test_posterior() -> None:
    """Beta(2, 2) and seven successes of ten give Beta(9, 5) with the interval of CV-38."""
    repairs = [*[repair(8)] * 7, *[repair(8, failed_after_d=1)] * 3]
    belief = learned("hbm_ue", "reset_component", repairs, NOW, discount_per_day=1.0)
    assert (belief.alpha, belief.beta) == (9, 5)
    assert belief.mean == pytest.approx(0.642857, abs=5e-7)
    assert belief.interval() == (pytest.approx(0.385738, abs=5e-7), pytest.approx(0.861421, abs=5e-7))


def test_results_wait_for_their_week() -> None:
    """A repair of yesterday proves nothing yet, unless it has failed already."""
    assert learned("hbm_ue", "reset_component", [repair(1)], NOW) == PRIORS["reset_component"]
    assert learned("hbm_ue", "reset_component", [repair(1, failed_after_d=0.5)], NOW).beta > 2.9


def test_old_results_fade() -> None:
    """A result loses one per cent of its weight per day."""
    assert learned("hbm_ue", "reset_component", [repair(100)], NOW).alpha == pytest.approx(2 + 0.99**100)


def test_cheapest_rung_first() -> None:
    """A reset is tried first where it may work; a GPU off the bus starts with a reboot, a bad power supply with a diagnosis."""
    first = [repair_order(mode, [], NOW)[0] for mode in ("hbm_ue", "nvlink", "fell_off_bus", "gsp", "psu_vr")]
    assert first == ["reset_component", "reset_component", "reboot", "reboot", "diagnose"]


def test_recurrence_starts_higher() -> None:
    """A node that comes back within the week starts a rung above what was tried there; other nodes do not."""
    order, repairs = repair_order("hbm_ue", [], NOW), [repair(2, failed_after_d=1.5), repair(9, "reboot")]
    assert [next_rung(order, tried_on(node, repairs, NOW)) for node in ("n", "other")] == ["reboot", "reset_component"]
    assert next_rung(order, {"replace"}) == "contact_vendor"


def test_repairs_from_outcomes() -> None:
    """An outcome that says what was done is a repair; the node's next failure after it is held against it."""
    told = [("n", "reset_fixed", "hbm_ue", 10), ("n", "no_fault_found", "hbm_ue", 20), ("m", "part_replaced", "nvlink", 30)]
    first, second = repairs_of(told, {"n": [5, 12, 40]})
    assert (first.rung, first.failed_again_ns) == ("reset_component", 12)
    assert (second.rung, second.failed_again_ns) == ("replace", None)


def test_results_change_the_order() -> None:
    """Resets that never hold are no longer tried first."""
    assert repair_order("hbm_ue", [repair(8, failed_after_d=1)] * 60, NOW)[0] == "reboot"


def test_propensities() -> None:
    """They add up to one, respect the floor, and prefer what is believed to work."""
    success = {"reset": Success(9, 1), "reboot": Success(1, 9)}
    shares = propensities(success, {"reset": 0.1, "reboot": 0.3}, loss=24, floor=0.02, draws=2000, rng=random.Random(7))
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["reboot"] == pytest.approx(0.02, abs=0.005)
