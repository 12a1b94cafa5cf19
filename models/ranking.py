"""How well a score ranks: share of failures captured at the top, average precision, AUROC, with intervals over nodes.

Higher is better for each. Ties count by their expectation over random order, so a constant score captures exactly its share, has
average precision equal to the prevalence and AUROC one half. Intervals resample whole nodes: landmarks of a node are not independent.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.survival import Floats


class Figure(msgspec.Struct, frozen=True):
    """A figure with its 95 % interval; NaN never stands here, None says that there is none."""

    value: float | None
    low: float | None = None
    high: float | None = None


class Ranking:
    """Scores sorted once; figures for any weights of the rows (a bootstrap draws weights, never rows)."""

    def __init__(self, score: ArrayLike, failed: ArrayLike) -> None:
        scores = np.asarray(score, dtype=float)
        self._order = np.argsort(-scores, kind="stable")
        ordered = scores[self._order]
        self._starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(ordered) else np.zeros(0, dtype=int)
        self._failed = np.asarray(failed, dtype=float)[self._order]

    def figures(self, shares: tuple[float, ...], weight: Floats | None = None) -> Floats:
        """Give [captured at each share..., average precision, AUROC]; NaN where there is no failure or nothing else."""
        if not len(self._order):
            return np.full(len(shares) + 2, np.nan)
        w = np.ones(len(self._order)) if weight is None else weight[self._order]
        size = np.add.reduceat(w, self._starts)
        hits = np.add.reduceat(w * self._failed, self._starts)
        total, positives = size.sum(), hits.sum()
        if positives in (0, total):
            return np.full(len(shares) + 2, np.nan)
        above, hits_above = np.cumsum(size), np.cumsum(hits)
        captured = [_captured(above, hits_above, share * total) / positives for share in shares]
        precision = np.divide(hits_above, above, out=np.zeros_like(above), where=above > 0)
        misses = size - hits
        auroc = (misses * (hits_above - hits / 2)).sum() / positives / (total - positives)
        return np.array([*captured, (hits * precision).sum() / positives, auroc])


def _captured(above: Floats, hits_above: Floats, wanted: float) -> float:
    return float(np.interp(wanted, np.concatenate([[0.0], above]), np.concatenate([[0.0], hits_above])))


def capture(score: ArrayLike, failed: ArrayLike, top: int) -> float:
    """Give the share of failures among the `top` highest scores."""
    return float(Ranking(score, failed).figures((top / len(np.asarray(score)),))[0])


def average_precision(score: ArrayLike, failed: ArrayLike) -> float:
    """Give the average precision."""
    return float(Ranking(score, failed).figures(())[0])


def auroc(score: ArrayLike, failed: ArrayLike) -> float:
    """Give the area under the ROC curve."""
    return float(Ranking(score, failed).figures(())[1])


def resampled_weights(node: ArrayLike, draws: int, seed: int) -> NDArray[np.float64]:
    """Draw bootstrap weights over nodes: row i of draw b counts as often as its node was drawn; shape (draws, rows)."""
    _, index = np.unique(np.asarray(node), return_inverse=True)
    nodes = index.max() + 1 if len(index) else 0
    counts = np.random.default_rng(seed).multinomial(nodes, np.full(nodes, 1 / nodes), size=draws) if nodes else np.zeros((draws, 0))
    weights: Floats = counts[:, index].astype(float)
    return weights


def interval(draws: Floats, value: float) -> Figure:
    """Make a figure from its bootstrap draws."""
    finite = draws[np.isfinite(draws)]
    if not np.isfinite(value):
        return Figure(None)
    if len(finite) < 20:  # too few draws with a failure in them to say how sure the figure is
        return Figure(float(value))
    low, high = np.quantile(finite, [0.025, 0.975])
    return Figure(float(value), float(low), float(high))
