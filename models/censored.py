"""Figures that weigh for censoring: Brier score and skill, AUC at a horizon, the reliability curve.

A unit that left before the horizon is no survivor and no failure. Inverse weights (IPCW) let those that stayed speak for it; within a
bin of the reliability curve the Kaplan-Meier estimate does the same.
"""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import chi2

from models.ranking import Ranking
from models.survival import Floats, kaplan_meier


class ReliabilityBin(msgspec.Struct, frozen=True, kw_only=True):
    """Landmarks with like predictions: what was predicted and what came of them, with the 95 % interval of the latter."""

    landmarks: int
    failures: int
    predicted: float
    observed: float
    low: float
    high: float


def ipcw_weights(time: Floats, event: Floats, horizon: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Give each unit's weight at a horizon, 0 where it was censored before, and which units failed by then."""
    censoring = kaplan_meier(time, 1 - event)
    failed = (time <= horizon) & (event > 0)
    alive = time > horizon
    weight = np.zeros(len(time))
    weight[failed] = 1 / np.maximum(censoring.at(time[failed], left=True), 1e-9)
    weight[alive] = 1 / np.maximum(censoring.at(np.array([horizon])), 1e-9)
    return weight, failed


def brier_ipcw(time: Floats, event: Floats, survival_at: Floats, horizon: float) -> float:
    """Give the Brier score of survival predictions at a horizon; lower is better."""
    weight, failed = ipcw_weights(time, event, horizon)
    return float((weight * np.where(failed, survival_at**2, (1 - survival_at) ** 2)).mean())


def brier_skill(rows: pl.DataFrame, probability: Floats, horizon_h: float) -> float | None:
    """Give 1 - Brier/Brier of the right constant probability; 0 is no better than the base rate."""
    time, event = _times(rows)
    if not (event * (time <= horizon_h)).any():
        return None
    constant = float(kaplan_meier(time, event).at(np.array([horizon_h]))[0])
    reference = brier_ipcw(time, event, np.full(len(time), constant), horizon_h)
    return 1 - brier_ipcw(time, event, 1 - probability, horizon_h) / reference if reference > 0 else None


def auc_at(rows: pl.DataFrame, probability: Floats, horizon_h: float) -> float | None:
    """Give the cumulative/dynamic AUC: those that failed by the horizon against those alive after it, weighted for censoring."""
    weight, failed = ipcw_weights(*_times(rows), horizon_h)
    value = Ranking(probability, failed).figures((), weight)[1]
    return float(value) if np.isfinite(value) else None


def reliability_curve(rows: pl.DataFrame, probability: Floats, horizon_h: float, bins: int = 10) -> tuple[ReliabilityBin, ...]:
    """Compare predicted with observed in bins of like predictions; a failure seen by many landmarks counts once for the interval."""
    time, event = _times(rows)
    edges = np.unique(np.quantile(probability, np.linspace(0, 1, bins + 1)[1:-1])) if len(probability) else np.zeros(0)
    bin_of = np.searchsorted(edges, probability, side="left")
    failure = rows["failure"].fill_null(-1).to_numpy()
    curve = []
    for b in range(len(edges) + 1):
        inside = bin_of == b
        if inside.any():
            failed = inside & (event > 0) & (time <= horizon_h)
            observed = 1 - float(kaplan_meier(time[inside], event[inside]).at(np.array([horizon_h]))[0])
            curve.append(_bin(inside, failed, failure, float(probability[inside].mean()), observed))
    return tuple(curve)


def _bin(
    inside: NDArray[np.bool_], failed: NDArray[np.bool_], failure: NDArray[np.int64], predicted: float, observed: float
) -> ReliabilityBin:
    count = len(np.unique(failure[failed]))
    per_failure = observed / count if count else 1 / int(inside.sum())  # without a failure: as if landmarks did not overlap
    low = float(chi2.ppf(0.025, 2 * count) / 2 * per_failure) if count else 0.0
    high = float(chi2.ppf(0.975, 2 * count + 2) / 2 * per_failure)
    return ReliabilityBin(landmarks=int(inside.sum()), failures=count, predicted=predicted, observed=observed, low=low, high=min(1.0, high))


def _times(rows: pl.DataFrame) -> tuple[Floats, Floats]:
    return rows["followed_h"].to_numpy(), rows["failed_as"].is_not_null().to_numpy().astype(float)
