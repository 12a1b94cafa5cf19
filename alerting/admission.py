"""May a new or repaired node come back: what a quiet time, a burn-in and a passed diagnostic prove; pure formulas.

A quiet time proves little (461 node-days for a rate of 6.5 per 1000), so admission is sequential: in doubt a node serves on probation,
in small jobs, under a threshold stricter than that of running nodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Admission = Literal["accept", "reject", "probation"]


def quiet_days(rate_per_day: float, confidence: float = 0.95) -> float:
    """Give the failure-free node-days after which a rate above the given one is excluded with that confidence."""
    return -math.log(1 - confidence) / rate_per_day


@dataclass(frozen=True, kw_only=True)
class SequentialTest:
    """Wald's test of a healthy rate against a lemon's, per node-day."""

    healthy_per_day: float
    lemon_per_day: float
    false_reject: float = 0.05
    false_accept: float = 0.1

    @property
    def accepts_at(self) -> float:
        """Log-likelihood ratio at or below which the node is healthy."""
        return math.log(self.false_accept / (1 - self.false_reject))

    @property
    def rejects_at(self) -> float:
        """Log-likelihood ratio at or above which the node is a lemon."""
        return math.log((1 - self.false_accept) / self.false_reject)

    def ratio(self, failures: int, days: float) -> float:
        """Give the log-likelihood ratio of lemon against healthy."""
        return failures * math.log(self.lemon_per_day / self.healthy_per_day) - (self.lemon_per_day - self.healthy_per_day) * days

    def judge(self, failures: int, days: float) -> Admission:
        """Decide on a node after so many failures in so many days in service; between the bounds it stays on probation."""
        ratio = self.ratio(failures, days)
        if ratio >= self.rejects_at:
            return "reject"
        return "accept" if ratio <= self.accepts_at else "probation"

    def boundary_days(self, failures: int, verdict: Literal["accept", "reject"]) -> float:
        """Give the day from which so many failures accept, or before which they reject."""
        bound = self.accepts_at if verdict == "accept" else self.rejects_at
        spread = self.lemon_per_day - self.healthy_per_day
        return (failures * math.log(self.lemon_per_day / self.healthy_per_day) - bound) / spread


@dataclass(frozen=True, kw_only=True)
class InfantMortality:
    """Weibull hazard of new parts: shape below 1, scale in days."""

    shape: float
    scale_d: float

    @classmethod
    def through(cls, shape: float, day: float, rate_per_day: float) -> InfantMortality:
        """Give the hazard of that shape which has a known rate on a known day."""
        return cls(shape=shape, scale_d=(shape * day ** (shape - 1) / rate_per_day) ** (1 / shape))

    def rate_per_day(self, day: float) -> float:
        """Give the hazard on a day of life."""
        return self.shape / self.scale_d * math.pow(day / self.scale_d, self.shape - 1)

    def cumulative(self, day: float) -> float:
        """Integrate the hazard from birth to a day of life."""
        return math.pow(day / self.scale_d, self.shape)

    def burn_in_days(self, target_per_day: float) -> float:
        """Give the burn-in after which the hazard has fallen to a target."""
        return self.scale_d * math.pow(target_per_day * self.scale_d / self.shape, 1 / (self.shape - 1))

    def burn_in_cost(self, days: float, mission_d: float, cost_per_day: float, failure_cost: float) -> float:
        """Give the cost of burning in and of the failures expected over the mission after it."""
        return cost_per_day * days + failure_cost * (self.cumulative(days + mission_d) - self.cumulative(days))

    def cheapest_burn_in_days(self, mission_d: float, cost_per_day: float, failure_cost: float) -> float:
        """Give the burn-in of least cost: where another day saves in failures just what it costs (bisection)."""

        def saves_more(days: float) -> bool:
            return failure_cost * (self.rate_per_day(days) - self.rate_per_day(days + mission_d)) > cost_per_day

        low, high = 1e-9, mission_d
        if not saves_more(low):
            return 0.0
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if saves_more(middle) else (low, middle)
        return low


def p_bad_after_pass(p_bad: float, sensitivity: float) -> float:
    """Give the probability that a node is bad though a diagnostic passed; a test without false alarms that finds `sensitivity`."""
    missed = p_bad * (1 - sensitivity)
    return missed / (missed + 1 - p_bad)


def may_return(p_fail: float, job_loss: float, holding_cost: float, strictness: float = 2.0) -> bool:
    """Claim that a repaired node may run a job of that loss: its expected loss, `strictness` times, is below the cost of holding it."""
    return strictness * p_fail * job_loss < holding_cost
