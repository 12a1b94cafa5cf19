"""Learn which repair works for which failure mode, and choose repairs by it; pure.

Success of a repair: the node does not fail again within a week. s ~ Beta(alpha, beta) per rung and mode, from pooled priors, every result
weighing gamma^age. A repair is tried in the order of cost per success; one that did not hold lets the next start a rung higher.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from scipy.special import betaincinv

from alerting.costs import ladder_order
from alerting.schema import Followup

DAY_NS = 86_400_000_000_000
RECURS_WITHIN_D = 7.0
# What an outcome says was done. Costs in node-hours; the last rung always works.
RUNG_OF_OUTCOME: Mapping[str, Followup] = {"reset_fixed": "reset_component", "reboot_fixed": "reboot", "part_replaced": "replace"}
RUNGS: tuple[Followup, ...] = ("reset_component", "reboot", "diagnose", "replace")
RUNG_COSTS: Mapping[Followup, float] = {"reset_component": 0.1, "reboot": 0.3, "diagnose": 4.0, "replace": 72.0}


@dataclass(frozen=True)
class Success:
    """Belief about the success of one rung: Beta(alpha, beta)."""

    alpha: float
    beta: float

    @property
    def mean(self) -> float:
        """Expected probability of success."""
        return self.alpha / (self.alpha + self.beta)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Give the central credible interval."""
        tail = (1 - level) / 2
        return float(betaincinv(self.alpha, self.beta, tail)), float(betaincinv(self.alpha, self.beta, 1 - tail))


# Pooled: reset half, reboot 0.6, reseat 0.7, replacement all but certain; a GPU off the bus is not reset, a worn contact not rebooted.
PRIORS: Mapping[Followup, Success] = {
    "reset_component": Success(2, 2),
    "reboot": Success(2.4, 1.6),
    "diagnose": Success(2.8, 1.2),
    "replace": Success(99, 1),
}
MODE_PRIORS: Mapping[tuple[str, Followup], Success] = {
    ("fell_off_bus", "reset_component"): Success(0.2, 3.8),
    ("gsp", "reset_component"): Success(0.4, 3.6),
    ("thermal", "reset_component"): Success(0.1, 9.9),
    ("thermal", "reboot"): Success(0.1, 9.9),
    ("psu_vr", "reset_component"): Success(0.1, 9.9),
    ("psu_vr", "reboot"): Success(0.1, 9.9),
}


@dataclass(frozen=True, kw_only=True)
class Repair:
    """One repair as told, and when its node failed next (None: not yet)."""

    rung: Followup
    mode: str
    node: str
    at_ns: int
    failed_again_ns: int | None = None


def prior(mode: str, rung: Followup) -> Success:
    """Give the belief before any result."""
    return MODE_PRIORS.get((mode, rung), PRIORS[rung])


def learned(mode: str, rung: Followup, repairs: Iterable[Repair], now_ns: int, discount_per_day: float = 0.99) -> Success:
    """Update the prior by every repair whose week is over or that failed within it; older results weigh less."""
    belief = prior(mode, rung)
    alpha, beta = belief.alpha, belief.beta
    for repair in repairs:
        if (repair.mode, repair.rung) != (mode, rung) or (held := _held(repair, now_ns)) is None:
            continue
        weight = discount_per_day ** max(0.0, (now_ns - repair.at_ns) / DAY_NS)
        alpha, beta = alpha + weight * held, beta + weight * (not held)
    return Success(alpha, beta)


def _held(repair: Repair, now_ns: int) -> bool | None:
    """Say whether a repair held for its week; None while the week is not over."""
    end_ns = repair.at_ns + int(RECURS_WITHIN_D * DAY_NS)
    if repair.failed_again_ns is not None and repair.failed_again_ns <= end_ns:
        return False
    return True if now_ns >= end_ns else None


def repair_order(mode: str, repairs: Sequence[Repair], now_ns: int) -> tuple[Followup, ...]:
    """Order the rungs for a mode: cheapest per success first."""
    success = [learned(mode, rung, repairs, now_ns).mean for rung in RUNGS]
    return tuple(RUNGS[index] for index in ladder_order([RUNG_COSTS[rung] for rung in RUNGS], success))


def tried_on(node: str, repairs: Iterable[Repair], now_ns: int) -> frozenset[Followup]:
    """Name the rungs that were tried on a node within the week."""
    recent_ns = now_ns - int(RECURS_WITHIN_D * DAY_NS)
    return frozenset(repair.rung for repair in repairs if repair.node == node and repair.at_ns >= recent_ns)


def next_rung(order: Sequence[Followup], tried: Collection[Followup]) -> Followup:
    """Choose the repair to try: the first of the order that stands above every rung that was tried and did not hold."""
    highest = max((RUNGS.index(rung) for rung in tried), default=-1)
    return next((rung for rung in order if RUNGS.index(rung) > highest), "contact_vendor")


def repairs_of(told: Iterable[tuple[str, str, str, int]], failures: Mapping[str, Sequence[int]]) -> list[Repair]:
    """Turn outcomes (node, kind, mode, when) into repairs, each with the node's next failure after it."""
    return [
        Repair(
            rung=RUNG_OF_OUTCOME[kind],
            mode=mode,
            node=node,
            at_ns=at_ns,
            failed_again_ns=min((failed_ns for failed_ns in failures.get(node, ()) if failed_ns > at_ns), default=None),
        )
        for node, kind, mode, at_ns in told
        if kind in RUNG_OF_OUTCOME
    ]


def propensities(
    success: Mapping[str, Success], costs: Mapping[str, float], loss: float, *, floor: float, draws: int, rng: random.Random
) -> dict[str, float]:
    """Give the probability with which Thompson sampling picks each action: cost + loss x (1 - drawn success) at its least.

    `floor` is the least probability of a cheap, reversible action; 0 for one that must never be tried for the sake of learning.
    """
    wins = dict.fromkeys(success, 0)
    for _ in range(draws):
        drawn = {action: costs[action] + loss * (1 - rng.betavariate(belief.alpha, belief.beta)) for action, belief in success.items()}
        wins[min(drawn, key=lambda action: drawn[action])] += 1
    share = 1.0 - floor * len(success)
    return {action: floor + share * count / draws for action, count in wins.items()}
