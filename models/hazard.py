"""Piecewise-exponential hazard, one boosted Poisson model per failure mode: fit, cross-fit, predict.

Modes with too few failures of their own share one model and split its hazard by their counts; where even that is too little, or where
trees predict left-out nodes no better than a constant does, the rate is a constant per bin. A failure of another mode is censoring.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from models.periods import Periods, count_failures_once, expand, node_folds, sample_negatives
from models.survival import Floats, bin_widths
from models.trees import Grove, Growth, Matrix, Target, Trees

BIN_FEATURE = "log_bin_middle_h"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How hazards are fitted; the defaults suit some hundreds of failures."""

    growth: Growth = field(default_factory=Growth)
    shrinkage_failures: float = 3.0  # in every leaf so many failures speak for the base rate
    negative_share: float = 0.1
    min_failures: int = 20  # failures that a mode needs for a model of its own
    pooled: bool = False  # one model for all modes together
    folds: int = 3
    workers: int = 2  # trees that grow at the same time
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Part:
    """The model of one mode, or of several rare ones that share it; `text` is LightGBM's, None for a constant rate per bin."""

    modes: tuple[str, ...]
    shares: tuple[float, ...]
    failures: int
    base_rate_per_h: float
    rate_per_bin: tuple[float, ...]
    text: str | None = None

    @cached_property
    def trees(self) -> Trees | None:
        """Read the text once; raises ModelRefused where LightGBM cannot."""
        return Trees(self.text) if self.text else None

    def hazard(self, stacked: Matrix, rows: int) -> Floats:
        """Give the part's hazard for rows stacked bin after bin; axes (row, bin)."""
        rates = np.asarray(self.rate_per_bin)
        if self.trees is None:
            return np.broadcast_to(rates, (rows, len(rates))).copy()
        return np.exp(self.trees.log_ratio(stacked)).reshape(len(rates), rows).T * self.base_rate_per_h


@dataclass(frozen=True, kw_only=True)
class ScopeHazard:
    """Hazards of one kind of unit for all its modes."""

    scope: str
    horizons_h: tuple[float, ...]
    features: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def modes(self) -> tuple[str, ...]:
        """Name the modes in the order of the hazards."""
        return tuple(mode for part in self.parts for mode in part.modes)

    def matrix(self, rows: pl.DataFrame) -> Matrix:
        """Take this model's features from landmarks; a feature that is null is NaN."""
        return feature_matrix(rows, self.features)

    def hazards(self, matrix: Matrix) -> Floats:
        """Give the hazard per hour of each row, mode and bin."""
        stacked = stack_bins(matrix, self.horizons_h)
        return share_out(self.parts, [part.hazard(stacked, len(matrix)) for part in self.parts], len(matrix), len(self.horizons_h))

    def contributions(self, matrix: Matrix, part: Part, in_bin: int) -> Floats:
        """Give per row and feature the contribution to the log hazard of a part in one bin."""
        if part.trees is None:
            return np.zeros((len(matrix), len(self.features)))
        middle = np.full((len(matrix), 1), log_middles(self.horizons_h)[in_bin], dtype=np.float32)
        return part.trees.contributions(np.hstack([matrix, middle]))[:, :-1]


def share_out(parts: Sequence[Part], hazards: Sequence[Floats], rows: int, bins: int) -> Floats:
    """Split the parts' hazards over their modes; axes (row, mode, bin)."""
    shared = [hazard[:, None, :] * np.asarray(part.shares)[None, :, None] for part, hazard in zip(parts, hazards, strict=True)]
    return np.concatenate(shared, axis=1) if shared else np.zeros((rows, 0, bins))


def feature_matrix(rows: pl.DataFrame, features: Sequence[str]) -> Matrix:
    """Take features as a dense matrix; null becomes NaN, which the trees know as missing."""
    if not features:
        return np.empty((len(rows), 0), dtype=np.float32)
    return rows.select(pl.col(name).cast(pl.Float32).fill_null(float("nan")) for name in features).to_numpy(order="c")


def stack_bins(matrix: Matrix, horizons_h: Sequence[float]) -> Matrix:
    """Repeat the rows once per bin, bin after bin, with the log of the bin's middle as the last column."""
    middles = log_middles(horizons_h)
    stacked = np.empty((len(matrix) * len(middles), matrix.shape[1] + 1), dtype=np.float32)
    for k, middle in enumerate(middles):
        block = stacked[k * len(matrix) : (k + 1) * len(matrix)]
        block[:, :-1] = matrix
        block[:, -1] = middle
    return stacked


def log_middles(horizons_h: Sequence[float]) -> Floats:
    """Give the log of the middle of each bin, the feature by which trees tell bins apart."""
    middles: Floats = np.log(np.asarray(horizons_h, dtype=float) - bin_widths(horizons_h) / 2)
    return middles


def informative_features(rows: pl.DataFrame, names: Sequence[str]) -> tuple[str, ...]:
    """Name the features that have at least two different values, null not counted."""
    if not names:
        return ()
    distinct = rows.select(pl.col(name).drop_nulls().n_unique() for name in names).row(0)
    return tuple(name for name, count in zip(names, distinct, strict=True) if count > 1)


class Design:
    """Landmarks at risk made ready for fitting: person-period rows, the sampled ones binned, and the groups of modes."""

    def __init__(self, rows: pl.DataFrame, *, features: Sequence[str], horizons_h: Sequence[float], recipe: Recipe) -> None:
        self.rows, self.horizons_h, self.recipe = rows, tuple(horizons_h), recipe
        self.features = informative_features(rows, features)
        self.periods = count_failures_once(expand(rows, horizons_h), rows, horizons_h)
        self.sampled = sample_negatives(self.periods, recipe.negative_share, np.random.default_rng(recipe.seed))
        self.groups = _group_modes(rows, recipe)
        self._mode = rows["failed_as"].fill_null("").to_numpy()
        middles = log_middles(horizons_h).astype(np.float32)
        self.matrix = feature_matrix(rows, self.features)
        self.grove = Grove(
            np.hstack([self.matrix[self.sampled.landmark], middles[self.sampled.bin][:, None]]),
            (*self.features, BIN_FEATURE),
            self.sampled.weight,
            self.sampled.exposure_h,
            recipe.growth,
        )

    def failed_as(self, modes: Sequence[str], periods: Periods) -> NDArray[np.bool_]:
        """Tell which person-period rows ended in one of these modes."""
        return periods.failed & np.isin(self._mode, list(modes))[periods.landmark]

    def part(self, modes: tuple[str, ...], counts: Sequence[int]) -> Part:
        """Give the part of a group of modes with constant rates, which trees may then refine."""
        base, per_bin = _rates(self.periods, self.failed_as(modes, self.periods), len(self.horizons_h))
        total = sum(counts)
        return Part(
            modes=modes,
            shares=tuple(count / total for count in counts),
            failures=total,
            base_rate_per_h=base,
            rate_per_bin=per_bin,
        )

    def target(self, part: Part) -> Target:
        """Say what a part's trees are to learn; one failure ends many landmarks, so it speaks with as many rows."""
        failed = self.failed_as(part.modes, self.sampled)
        rows_per_failure = float(self.sampled.weight[failed].sum()) / part.failures
        return Target(failed, part.base_rate_per_h, self.recipe.shrinkage_failures * rows_per_failure)

    def can_learn(self, part: Part) -> bool:
        """Tell whether a part has failures and features enough for trees."""
        return part.failures >= self.recipe.min_failures and bool(self.features)


@dataclass(frozen=True)
class CrossFit:
    """Hazards of landmarks by trees that did not see their node, axes (landmark, mode, bin), and the rounds that served best."""

    hazard: Floats
    rounds: tuple[int, ...]


def cross_fit(design: Design, wanted: NDArray[np.bool_]) -> CrossFit:
    """Fit without each fold of nodes in turn; gives the left-out hazards of the wanted landmarks."""
    fold = node_folds(design.rows["node"], design.recipe.folds, design.recipe.seed)
    parts = [design.part(modes, counts) for modes, counts in design.groups]
    with ThreadPoolExecutor(design.recipe.workers) as pool:
        grown = [[pool.submit(_grow_without, design, part, fold, f) for f in range(design.recipe.folds)] for part in parts]
        found = [_left_out(design, part, fold, wanted, [tree.result() for tree in trees]) for part, trees in zip(parts, grown, strict=True)]
    hazards = [hazard for _, hazard in found]
    return CrossFit(share_out(parts, hazards, int(wanted.sum()), len(design.horizons_h)), tuple(rounds for rounds, _ in found))


def _grow_without(design: Design, part: Part, fold: NDArray[np.int64], left_out: int) -> tuple[str, Floats] | None:
    if not design.can_learn(part):
        return None
    in_fold = fold[design.sampled.landmark] == left_out
    return design.grove.grow_and_watch(design.target(part), np.flatnonzero(~in_fold), np.flatnonzero(in_fold))


def _left_out(
    design: Design, part: Part, fold: NDArray[np.int64], wanted: NDArray[np.bool_], grown: Sequence[tuple[str, Floats] | None]
) -> tuple[int, Floats]:
    """Find the rounds with the least loss over all left-out nodes, 0 where constants do as well, and predict with them."""
    known = [tree for tree in grown if tree is not None]
    shortest = min((len(curve) for _, curve in known), default=1)
    best = int(np.argmin(sum(curve[:shortest] for _, curve in known))) if known else 0
    hazard = np.broadcast_to(np.asarray(part.rate_per_bin), (len(fold), len(design.horizons_h))).copy()
    for f, (text, _) in enumerate(known if best else []):
        rows = np.flatnonzero(wanted & (fold == f))
        ratio = Trees(text).log_ratio(stack_bins(design.matrix[rows], design.horizons_h), best)
        hazard[rows] = np.exp(ratio).reshape(len(design.horizons_h), len(rows)).T * part.base_rate_per_h
    return best, hazard[wanted]


def fit(design: Design, scope: str, rounds: Sequence[int] | None = None) -> ScopeHazard:
    """Fit to all landmarks, with the rounds found by cross-fitting where given; 0 rounds leave constant rates."""
    parts = [design.part(modes, counts) for modes, counts in design.groups]
    wanted = rounds or [design.recipe.growth.rounds] * len(parts)
    with ThreadPoolExecutor(design.recipe.workers) as pool:
        texts = list(pool.map(lambda part, count: _grow(design, part, count), parts, wanted))
    fitted = tuple(replace(part, text=text) for part, text in zip(parts, texts, strict=True))
    return ScopeHazard(scope=scope, horizons_h=design.horizons_h, features=design.features, parts=fitted)


def _grow(design: Design, part: Part, rounds: int) -> str | None:
    return design.grove.grow(design.target(part), rounds) if rounds and design.can_learn(part) else None


def _group_modes(rows: pl.DataFrame, recipe: Recipe) -> list[tuple[tuple[str, ...], list[int]]]:
    """Give each mode with enough failures a group of its own and the others one together."""
    failures = rows.filter(pl.col("failed_as").is_not_null()).unique("failure")
    counts = Counter(failures["failed_as"].to_list())
    own = sorted(mode for mode, count in counts.items() if count >= recipe.min_failures and not recipe.pooled)
    rare = sorted(set(counts) - set(own))
    groups: list[tuple[tuple[str, ...], list[int]]] = [((mode,), [counts[mode]]) for mode in own]
    if rare:
        groups.append((tuple(rare), [counts[mode] for mode in rare]))
    return groups


def _rates(periods: Periods, failed: NDArray[np.bool_], bins: int) -> tuple[float, tuple[float, ...]]:
    """Give the rate over all bins and per bin, each bin drawn to the whole as if by half a failure."""
    exposure = np.bincount(periods.bin, weights=periods.exposure_h * periods.weight, minlength=bins)
    events = np.bincount(periods.bin, weights=failed * periods.weight, minlength=bins)
    base = float(events.sum() / exposure.sum())
    per_bin = (events + 0.5) / (exposure + 0.5 / base)
    return base, tuple(float(rate) for rate in per_bin)
