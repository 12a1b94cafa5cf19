"""Bring hazards to the level that matured landmarks show: a factor per bin, a slope, or a monotone curve, by how much there is.

Calibration works on the log of a unit's total hazard per bin, never on probabilities per horizon, so a longer horizon keeps the larger
probability; the modes keep their shares. A landmark is mature for a bin when the bin's end plus the label delay lie in the past.
The intervals come from the same landmarks: among those scored alike, observed over expected failures is Poisson.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec
import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, minimize
from scipy.special import expit
from scipy.stats import chi2, gamma
from sklearn.isotonic import IsotonicRegression

from models.periods import Periods, count_failures_once, expand
from models.survival import Floats, bin_widths, logit

Kind = Literal["none", "shift", "platt", "isotonic"]
_STRATA = (0.9, 0.97, 0.99)  # quantiles of the hazard between which units count as scored alike
_PRIOR_FAILURES = 5.0  # a bin or stratum with fewer failures follows the whole
_FAILURES_PER_BLOCK = 30
_LEAST_SLOPE = 0.05
_FAR = 30.0  # log hazards do not reach so far beyond the curve


class Curve(msgspec.Struct, frozen=True):
    """A monotone step function of the log hazard, linear between its knots."""

    log_hazard: tuple[float, ...]
    calibrated: tuple[float, ...]


class Band(msgspec.Struct, frozen=True):
    """For log hazards up to `up_to`, the 90 % interval of observed over expected."""

    up_to: float | None  # None: no limit
    low: float
    high: float


class Calibrator(msgspec.Struct, frozen=True, kw_only=True):
    """log λ' = slope·log λ + shift of the bin, or a curve per bin; `bands` give the interval."""

    kind: Kind
    slope: float = 1.0
    shifts: tuple[float, ...] = ()
    curves: tuple[Curve, ...] = ()
    bands: tuple[Band, ...] = ()
    failures: int = 0

    def apply(self, hazard_per_h: Floats) -> Floats:
        """Calibrate hazards with axes (unit, mode, bin)."""
        total = hazard_per_h.sum(axis=1)
        if self.kind == "none" or hazard_per_h.shape[1] == 0:
            return hazard_per_h
        log_total = np.log(np.maximum(total, 1e-300))
        log_calibrated = self._log_calibrated(log_total)
        calibrated: Floats = hazard_per_h * np.exp(log_calibrated - log_total)[:, None, :]
        return calibrated

    def _log_calibrated(self, log_total: Floats) -> Floats:
        if self.curves:
            columns = [np.interp(log_total[:, k], curve.log_hazard, curve.calibrated) for k, curve in enumerate(self.curves)]
            return np.stack(columns, axis=1)
        shifted: Floats = self.slope * log_total + np.asarray(self.shifts)
        return shifted

    def interval_factors(self, cumulative: Floats) -> tuple[Floats, Floats]:
        """Give the factors on a unit's cumulative hazard to the last horizon that bound its 90 % interval."""
        if not self.bands:
            return np.zeros_like(cumulative), np.full_like(cumulative, np.inf)
        edges = np.array([band.up_to for band in self.bands[:-1]], dtype=float)
        index = np.searchsorted(edges, np.log(np.maximum(cumulative, 1e-300)), side="left")
        return np.array([band.low for band in self.bands])[index], np.array([band.high for band in self.bands])[index]


NO_CALIBRATION = Calibrator(kind="none")


def mature(rows: pl.DataFrame, horizons_h: Sequence[float], now: datetime, label_delay_h: float) -> Periods:
    """Expand landmarks and keep the bins that end, with the label delay, by `now`."""
    periods = count_failures_once(expand(rows, horizons_h), rows, horizons_h)
    age_h = (rows.select((pl.lit(now) - pl.col("as_of")).dt.total_microseconds() / 3.6e9).to_series()).to_numpy()
    is_mature = np.asarray(horizons_h)[periods.bin] + label_delay_h <= age_h[periods.landmark]
    return periods.take(is_mature, periods.weight)


def calibrate(hazard_per_h: Floats, rows: pl.DataFrame, periods: Periods, horizons_h: Sequence[float]) -> Calibrator:
    """Choose and fit the calibrator: below 50 failures a shift, from there Platt's slope too, above 500 a curve where it pays.

    `hazard_per_h` has axes (landmark, mode, bin); `periods` are mature rows of these landmarks. A curve pays when, fitted to the older
    half of the landmarks, it says more about the newer half than the slope does: a fleet that changes punishes what fits too closely.
    """
    failures = rows[np.unique(periods.landmark[periods.failed])]["failure"].n_unique() if periods.failed.any() else 0
    total = hazard_per_h.sum(axis=1)[periods.landmark, periods.bin]
    if failures == 0 or not (total > 0).all():
        return NO_CALIBRATION
    per_failure = max(1.0, float((periods.weight * periods.failed).sum()) / failures)
    bins, log_total = hazard_per_h.shape[2], np.log(total)
    fitted = _fit_kind("shift" if failures < 50 else "platt", log_total, periods, bins, per_failure)
    if failures > 500 and _curve_pays(log_total, periods, rows, bins, per_failure):
        fitted = _fit_kind("isotonic", log_total, periods, bins, per_failure)
    calibrated = fitted.apply(hazard_per_h)
    cumulative = (calibrated.sum(axis=1) * bin_widths(horizons_h)).sum(axis=1)
    bands = interval_bands(cumulative, calibrated, periods, per_failure)
    return msgspec.structs.replace(fitted, bands=bands, failures=failures)


def _fit_kind(kind: Kind, log_total: Floats, periods: Periods, bins: int, per_failure: float) -> Calibrator:
    slope = 1.0 if kind == "shift" else platt_slope(log_total, periods)
    curves = isotonic_curves(log_total, periods, bins) if kind == "isotonic" else ()
    return Calibrator(kind=kind, slope=slope, shifts=bin_shifts(slope * log_total, periods, bins, per_failure), curves=curves)


def _curve_pays(log_total: Floats, periods: Periods, rows: pl.DataFrame, bins: int, per_failure: float) -> bool:
    at = rows["as_of"].dt.epoch("us").to_numpy()[periods.landmark]
    is_older = at <= np.median(at)
    older, newer = (periods.take(half, periods.weight) for half in (is_older, ~is_older))
    if any(not half.failed[half.bin == k].any() for half in (older, newer) for k in range(bins)):
        return False
    loss: dict[Kind, float] = {}
    for kind in ("platt", "isotonic"):
        one_unit_per_row = np.zeros((len(newer.bin), 1, bins))
        one_unit_per_row[np.arange(len(newer.bin)), 0, newer.bin] = np.exp(log_total[~is_older])
        fitted = _fit_kind(kind, log_total[is_older], older, bins, per_failure).apply(one_unit_per_row)
        rate = fitted[np.arange(len(newer.bin)), 0, newer.bin]
        loss[kind] = float((newer.weight * (rate * newer.exposure_h - newer.failed * np.log(rate))).sum())
    return loss["isotonic"] < loss["platt"]


def bin_shifts(log_hazard: Floats, periods: Periods, bins: int, rows_per_failure: float) -> tuple[float, ...]:
    """Give per bin the log of observed over expected; a few failures are drawn to the ratio of all bins, and that to one."""
    expected = np.bincount(periods.bin, weights=np.exp(log_hazard) * periods.exposure_h * periods.weight, minlength=bins)
    observed = np.bincount(periods.bin, weights=periods.failed * periods.weight, minlength=bins)
    prior = _PRIOR_FAILURES * rows_per_failure
    overall = (observed.sum() + prior) / (expected.sum() + prior)
    ratio = (observed + prior) / (expected + prior / overall)
    return tuple(float(value) for value in np.log(ratio))


def platt_slope(log_hazard: Floats, periods: Periods) -> float:
    """Fit the slope a > 0 of log λ' = a·log λ + b by Poisson likelihood."""
    centre = float(np.average(log_hazard, weights=periods.exposure_h * periods.weight))
    x, w = log_hazard - centre, periods.weight

    def loss(theta: Floats) -> tuple[float, Floats]:
        mean = np.exp(theta[0] * x + theta[1]) * periods.exposure_h
        value = float((w * (mean - periods.failed * (theta[0] * x + theta[1]))).sum())
        residual = w * (mean - periods.failed)
        return value, np.array([(residual * x).sum(), residual.sum()])

    start = np.array([1.0, np.log((w * periods.failed).sum() / (w * periods.exposure_h).sum())])
    fitted = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0.05, 3.0), (None, None)])
    return float(fitted.x[0])


def isotonic_curves(log_hazard: Floats, periods: Periods, bins: int) -> tuple[Curve, ...]:
    """Fit per bin a monotone curve through blocks of like hazard, each with some thirty failures; beyond its ends it is a shift.

    The curve always rises a little, so that calibration makes no ties, and a block without failures is not taken for one without risk.
    """
    return tuple(_curve(log_hazard[periods.bin == k], periods, periods.bin == k) for k in range(bins))


def _curve(log_hazard: Floats, periods: Periods, is_bin: NDArray[np.bool_]) -> Curve:
    failed = periods.failed[is_bin]
    weight = periods.weight[is_bin]
    expected = np.exp(log_hazard) * periods.exposure_h[is_bin] * weight
    blocks = max(1, int(failed.sum() // _FAILURES_PER_BLOCK))
    edges = np.unique(np.quantile(log_hazard[failed], np.linspace(0, 1, blocks + 1)[1:-1])) if blocks > 1 else np.zeros(0)
    block = np.searchsorted(edges, log_hazard)
    of_block = np.bincount(block, weights=expected, minlength=len(edges) + 1)
    observed = np.bincount(block, weights=failed * weight, minlength=len(edges) + 1)
    middle = np.bincount(block, weights=expected * log_hazard, minlength=len(edges) + 1) / of_block
    overall = (observed.sum() + _PRIOR_FAILURES) / (of_block.sum() + _PRIOR_FAILURES)
    told = middle + np.log((observed + _PRIOR_FAILURES) / (of_block + _PRIOR_FAILURES / overall))
    rising = IsotonicRegression().fit_transform(middle, told, sample_weight=observed + _PRIOR_FAILURES)
    rising = np.maximum.accumulate(rising - _LEAST_SLOPE * middle) + _LEAST_SLOPE * middle
    x = np.concatenate([[middle[0] - _FAR], middle, [middle[-1] + _FAR]])
    y = np.concatenate([[rising[0] - _FAR], rising, [rising[-1] + _FAR]])
    return Curve(tuple(float(v) for v in x), tuple(float(v) for v in y))


def interval_bands(cumulative: Floats, calibrated: Floats, periods: Periods, rows_per_failure: float) -> tuple[Band, ...]:
    """Give per stratum of the cumulative hazard the 90 % interval of observed over expected, a weak prior holding it at 1."""
    log_cumulative = np.log(np.maximum(cumulative, 1e-300))
    edges = np.quantile(log_cumulative[np.unique(periods.landmark)], _STRATA)
    stratum = np.searchsorted(edges, log_cumulative, side="left")[periods.landmark]
    mean = calibrated.sum(axis=1)[periods.landmark, periods.bin] * periods.exposure_h * periods.weight
    expected = np.bincount(stratum, weights=mean, minlength=len(edges) + 1)
    observed = np.bincount(stratum, weights=periods.failed * periods.weight, minlength=len(edges) + 1)
    shape, rate = observed / rows_per_failure + 1, expected / rows_per_failure + 1
    low, high = gamma.ppf(0.05, shape, scale=1 / rate), gamma.ppf(0.95, shape, scale=1 / rate)
    ends = [*(float(edge) for edge in edges), None]
    return tuple(Band(end, float(min(lo, 1.0)), float(max(hi, 1.0))) for end, lo, hi in zip(ends, low, high, strict=True))


def intercept_shift(probability: ArrayLike, positives: float) -> float:
    """Solve sum of sigmoid(logit p + d) = positives for d."""
    z = logit(probability)
    return float(brentq(lambda d: expit(z + d).sum() - positives, -50, 50, xtol=1e-12))


def undo_sampling(probability: ArrayLike, share: float) -> Floats:
    """Bring a probability learned on all positives and a share of the negatives back to the population."""
    p = np.asarray(probability, dtype=float)
    corrected: Floats = share * p / (share * p + 1 - p)
    return corrected


def poisson_ratio_interval(observed: float, expected: float, confidence: float = 0.95) -> tuple[float, float]:
    """Give the exact interval of the true ratio of observed to expected failures."""
    tail = (1 - confidence) / 2
    low = chi2.ppf(tail, 2 * observed) / (2 * expected) if observed > 0 else 0.0
    return float(low), float(chi2.ppf(1 - tail, 2 * observed + 2) / (2 * expected))
