"""Formulas of fleet and job reliability: series law, checkpoint interval, time lost to failures (ETTR), storage rows.

Pure arithmetic on rates. Times carry their unit in the name; where a function takes any unit of time, all its times share it.
Rates are failures per unit of time of the whole job unless they say per node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, expm1, inf, log, prod, sqrt
from typing import NamedTuple

from scipy.special import lambertw
from scipy.stats import nbinom

# --- availability of many parts -----------------------------------------------------------------------------------------------


def p_all(n: int, p: float) -> float:
    """Give the probability that n independent parts are all available."""
    return p**n


def p_all_of(probabilities: Iterable[float]) -> float:
    """Give the probability that unequal independent parts are all available."""
    return prod(probabilities)


def parts_for_half(p: float) -> float:
    """Tell at how many parts the chance that all are available falls to one half."""
    return log(0.5) / log(p)


def p_loss(probabilities: Sequence[float], tolerated: int) -> float:
    """Give the probability that more than `tolerated` of unequal independent nodes fail (Poisson binomial)."""
    counts = [1.0]
    for p in probabilities:
        counts = [(counts[k] * (1 - p) if k < len(counts) else 0.0) + (counts[k - 1] * p if k else 0.0) for k in range(len(counts) + 1)]
    return sum(counts[tolerated + 1 :])


def demand_over_supply(demand: float, healthy: float, drained: float = 0.0) -> float:
    """Give demand over what is left after our own drains; above 1 is an alarm."""
    left = healthy - drained
    return demand / left if left > 0 else inf


# --- series law ---------------------------------------------------------------------------------------------------------------


def mttf_series(parts: float, rate_per_part: float) -> float:
    """Give the mean time to the first failure of equal independent parts."""
    return 1 / (parts * rate_per_part)


def total_rate(rates: Iterable[float]) -> float:
    """Add the failure rates of the parts of a job: any failure stops it."""
    return sum(rates)


def implied_rate_per_node(mttf: float, nodes: float) -> float:
    """Give the rate per node that a measured MTTF of a job implies."""
    return 1 / (mttf * nodes)


def placement_risk(expected_losses: float, at_least: int, frailty_shape: float) -> float:
    """Give the probability that one domain loses at least that many nodes: negative binomial tail of a shared gamma frailty."""
    tail = nbinom.sf(at_least - 1, frailty_shape, frailty_shape / (frailty_shape + expected_losses))
    return float(tail)


# --- checkpoint interval ------------------------------------------------------------------------------------------------------


def young_interval(mttf: float, write: float) -> float:
    """Give the interval that minimises C/T + T/(2M), to first order."""
    return sqrt(2 * mttf * write)


def young_waste(mttf: float, write: float) -> float:
    """Give the share of time lost at Young's interval."""
    return sqrt(2 * write / mttf)


def daly_interval(mttf: float, write: float) -> float:
    """Give Daly's higher-order interval (time between the end of one write and the start of the next)."""
    if write >= 2 * mttf:
        return mttf
    x = write / (2 * mttf)
    return sqrt(2 * write * mttf) * (1 + sqrt(x) / 3 + x / 9) - write


def exact_interval(mttf: float, write: float) -> float:
    """Give the exact optimum for exponential failures: M(1 + W0(-exp(-C/M - 1)))."""
    return mttf * (1 + float(lambertw(-exp(-write / mttf - 1)).real))


def lost_share(rate_times_interval: float) -> float:
    """Give the expected lost work per failure in units of the interval: 1/x - 1/(e^x - 1); one half for small x."""
    return 1 / rate_times_interval - 1 / expm1(rate_times_interval)


def wall_over_solve(interval: float, write: float, mttf: float, restart: float) -> float:
    """Give wall time per unit of useful time, with failures also during writes and restarts."""
    return mttf * exp(restart / mttf) * expm1((interval + write) / mttf) / interval


# --- effective training time ratio --------------------------------------------------------------------------------------------


def ettr(rate: float, interval: float, write: float, unavailable: float, *, queue: float = 0.0, productive_run: float = inf) -> float:
    """Give the expected share of productive time, small losses added: `unavailable` is detection plus restart per failure.

    `rate` is that of the whole job; holds while rate x (unavailable + interval/2) stays below about a quarter.
    """
    lost = 1 - rate * (unavailable + interval / 2)
    return lost / ((1 + write / interval) * (1 + rate * queue) + (unavailable + queue) / productive_run)


def ettr_interval(rate: float, write: float) -> float:
    """Give the checkpoint interval that is best to first order for a job's failure rate."""
    return sqrt(2 * write / rate)


def largest_write(rate: float, unavailable: float, target: float) -> float:
    """Give the longest blocking write with which 1 - rate(u + T/2) - w/T still reaches the target at its optimum."""
    slack = 1 - target - rate * unavailable
    return slack**2 / (2 * rate) if slack > 0 else 0.0


class Predictor(NamedTuple):
    """What a failure predictor does for a job: recall and precision of its alerts, and the time a planned swap costs."""

    recall: float
    precision: float
    swap: float


def ettr_with_prediction(rate: float, write: float, unavailable: float, predictor: Predictor, interval: float | None = None) -> float:
    """Give the expected share of productive time with planned swaps; at the best interval unless one is given."""
    missed = rate * (1 - predictor.recall)
    step = ettr_interval(missed, write) if interval is None else interval
    swaps = rate * predictor.recall / predictor.precision * predictor.swap
    return (1 - missed * (unavailable + step / 2) - swaps) / (1 + write / step)


def break_even_precision(swap: float, unavailable: float, interval: float) -> float:
    """Give the precision above which planned swaps pay at a fixed interval; recall does not matter."""
    return swap / (unavailable + interval / 2)


# --- storage rows of the MLPerf kind ------------------------------------------------------------------------------------------


class CheckpointRow(NamedTuple):
    """What a number of accelerators asks of its checkpoint storage when the interval is a share of the MTTF."""

    failures_per_day: float
    mttf_min: float
    interval_min: float
    checkpoints_per_day: float
    petabytes_per_day: float
    terabytes_per_s: float
    optimal_write_s: float  # the write time for which this interval is the optimum; total waste is then the share itself


def checkpoint_row(
    accelerators: int, *, mttf_accelerator_h: float = 50_000, share: float = 0.05, size_tb: float = 15.0, write_share: float = 0.05
) -> CheckpointRow:
    """Work out one row: interval = share x MTTF, written within `write_share` of it."""
    mttf_min = 60 * mttf_accelerator_h / accelerators
    interval_min = share * mttf_min
    per_day = 24 * 60 / interval_min
    return CheckpointRow(
        failures_per_day=24 * accelerators / mttf_accelerator_h,
        mttf_min=mttf_min,
        interval_min=interval_min,
        checkpoints_per_day=per_day,
        petabytes_per_day=per_day * size_tb / 1000,
        terabytes_per_s=size_tb / (write_share * interval_min * 60),
        optimal_write_s=share**2 * mttf_min * 60 / 2,
    )
