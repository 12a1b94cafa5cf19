"""Laws of survival with a piecewise constant hazard: bins, competing failure modes, sums over parts, shared frailty.

A hazard is a rate per hour, constant within a horizon bin; the last axis of every array of hazards is the bin. Probabilities to
the ends of the bins come from sums of hazards, so a longer horizon never has a smaller probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def bin_widths(horizons_h: Sequence[float]) -> Floats:
    """Give the widths in hours of the bins (0, h1], (h1, h2], ... that end at the horizons."""
    edges = np.concatenate([[0.0], np.asarray(horizons_h, dtype=float)])
    widths = np.diff(edges)
    if len(widths) == 0 or (widths <= 0).any():
        raise AssertionError(f"BUG: horizons must be positive and grow, got {tuple(horizons_h)}")
    return widths


def cumulative_hazard(hazard_per_h: ArrayLike, horizons_h: Sequence[float]) -> Floats:
    """Sum the hazard up to each horizon."""
    total: Floats = np.cumsum(np.asarray(hazard_per_h, dtype=float) * bin_widths(horizons_h), axis=-1)
    return total


def survival(hazard_per_h: ArrayLike, horizons_h: Sequence[float]) -> Floats:
    """Give the probability of surviving to each horizon."""
    return np.exp(-cumulative_hazard(hazard_per_h, horizons_h))


def failure_probability(hazard_per_h: ArrayLike, horizons_h: Sequence[float]) -> Floats:
    """Give the probability of failing within each horizon."""
    return -np.expm1(-cumulative_hazard(hazard_per_h, horizons_h))


def cumulative_incidence(hazard_per_h: ArrayLike, horizons_h: Sequence[float]) -> Floats:
    """Give per mode the probability that it is the one that fails first, to each horizon; axes (..., mode, bin).

    Over the modes it adds up to the failure probability; 1 - S of one mode alone would overstate it.
    """
    hazard = np.asarray(hazard_per_h, dtype=float)
    widths = bin_widths(horizons_h)
    total = hazard.sum(axis=-2, keepdims=True)
    before = np.exp(-(np.cumsum(total * widths, axis=-1) - total * widths))
    share = np.divide(hazard, total, out=np.zeros_like(hazard), where=total > 0)
    incidence: Floats = np.cumsum(before * share * -np.expm1(-total * widths), axis=-1)
    return incidence


def add_parts(part_hazard: Floats, owner: NDArray[np.int64], owners: int) -> Floats:
    """Sum hazards of parts into their owners; axis 0 of `part_hazard` is the part, `owner` says whose it is.

    A node fails at the first failure of any part, so hazards add where parts are independent given their features.
    """
    total = np.zeros((owners, *part_hazard.shape[1:]))
    np.add.at(total, owner, part_hazard)
    return total


def frailty_survival(cumulative: ArrayLike, shape: float) -> Floats:
    """Give the survival under a shared relative hazard ~ Gamma(shape, shape): (1 + H/a)^-a."""
    survived: Floats = (1 + np.asarray(cumulative, dtype=float) / shape) ** (-shape)
    return survived


def frailty_mttf_factor(shape: float) -> float:
    """Tell by how much shared frailty lengthens the mean time to the first failure: a/(a - 1), infinite for a <= 1."""
    return shape / (shape - 1) if shape > 1 else float("inf")


def logit(probability: ArrayLike) -> Floats:
    """Give log(p/(1 - p))."""
    p = np.asarray(probability, dtype=float)
    odds: Floats = np.log(p) - np.log1p(-p)
    return odds


def cloglog(probability: ArrayLike) -> Floats:
    """Give log(-log(1 - p)), the link under which bins compose: p over a bin of width w is 1 - exp(-exp(eta + log w))."""
    eta: Floats = np.log(-np.log1p(-np.asarray(probability, dtype=float)))
    return eta


class CloglogStep(NamedTuple):
    """Derivatives of the negative log likelihood of a whole-bin 0/1 row with respect to eta."""

    gradient: Floats
    hessian: Floats
    fisher: Floats  # expectation of the hessian: always positive, the one to boost with


def cloglog_step(eta: ArrayLike, failed: ArrayLike) -> CloglogStep:
    """Give the boosting step of the complementary log-log likelihood."""
    mean = np.exp(np.asarray(eta, dtype=float))
    y = np.asarray(failed, dtype=float)
    p = -np.expm1(-mean)
    gradient = mean * (1 - y / p)
    return CloglogStep(gradient, gradient + y * mean**2 * (1 - p) / p**2, mean**2 * (1 - p) / p)


class KaplanMeier(NamedTuple):
    """Product-limit estimate at the distinct times."""

    time: Floats
    hazard: Floats
    survival: Floats

    def at(self, time: ArrayLike, *, left: bool = False) -> Floats:
        """Give the survival at `time`, or just before it with `left`."""
        index = np.searchsorted(self.time, np.asarray(time, dtype=float), side="left" if left else "right")
        steps: Floats = np.concatenate([[1.0], self.survival])[index]
        return steps


def kaplan_meier(time: ArrayLike, event: ArrayLike) -> KaplanMeier:
    """Estimate survival from times that end in an event (1) or in censoring (0); at a tie the event comes first."""
    times = np.asarray(time, dtype=float)
    distinct, index = np.unique(times, return_inverse=True)
    events = np.bincount(index, weights=np.asarray(event, dtype=float), minlength=len(distinct))
    leaving = np.bincount(index, minlength=len(distinct))
    at_risk = len(times) - np.concatenate([[0], np.cumsum(leaving)[:-1]])
    hazard = events / at_risk
    return KaplanMeier(distinct, hazard, np.cumprod(1 - hazard))
