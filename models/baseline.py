"""What the model must beat: a constant rate, rules over XIDs and ECC, a logistic regression, and history without telemetry.

Each gives hazards with axes (unit, mode, bin) like the model itself, so every figure is computed by the same code. The rules score a
unit with the failure rate that units under the same first matching rule showed in training.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from models.periods import expand, outcomes
from models.survival import Floats, bin_widths


class Contender(Protocol):
    """Anything that gives hazards for landmarks of one scope."""

    def hazards_of(self, rows: pl.DataFrame) -> Floats:
        """Give hazards per hour, axes (landmark, mode, bin)."""


@dataclass(frozen=True)
class Rule:
    """A unit is under the rule when the feature reaches the value."""

    name: str
    feature: str
    at_least: float


# What operators do without a model: watch XIDs and ECC counters. The most telling rule comes first.
RULES = (
    Rule("a row remap has failed", "remap_failure", 1),
    Rule("uncorrected ECC error today", "ecc_ue_24h", 1),
    Rule("precursor XID today", "precursor_xids_1d", 1),
    Rule("row remap pending", "remap_pending", 1),
    Rule("more than 100 corrected ECC errors today", "ecc_ce_24h", 100),
    Rule("precursor XID this week", "precursor_xids_7d", 1),
    Rule("corrected ECC errors today", "ecc_ce_24h", 1),
    Rule("uncorrected ECC error this month", "ecc_ue_30d", 1),
)


@dataclass(frozen=True)
class RuleRates:
    """Rates per bin for each rule's stratum; the last row is for units under no rule. Without rules: the constant rate."""

    rules: tuple[Rule, ...]
    rates: Floats

    def hazards_of(self, rows: pl.DataFrame) -> Floats:
        """Give every unit the rates of its stratum."""
        return self.rates[strata(rows, self.rules)][:, None, :]


def fit_rules(rows: pl.DataFrame, rules: Sequence[Rule], horizons_h: Sequence[float]) -> RuleRates:
    """Learn the rate of each rule's stratum per bin; a stratum with few failures is drawn to the rate of all."""
    known = tuple(rule for rule in rules if rule.feature in rows.columns)
    periods = expand(rows, horizons_h)
    stratum, bins = strata(rows, known)[periods.landmark], len(horizons_h)
    cell = stratum * bins + periods.bin
    size = (len(known) + 1) * bins
    exposure = np.bincount(cell, weights=periods.exposure_h * periods.weight, minlength=size).reshape(-1, bins)
    failed = np.bincount(cell, weights=periods.failed * periods.weight, minlength=size).reshape(-1, bins)
    base = (failed.sum() + 0.5) / max(exposure.sum(), 1e-9)
    failures = max(1, rows.filter(pl.col("failed_as").is_not_null())["failure"].n_unique())
    prior = max(1.0, failed.sum() / failures)  # one failure's worth of rows
    of_stratum = (failed.sum(axis=1, keepdims=True) + prior) / (exposure.sum(axis=1, keepdims=True) + prior / base)
    return RuleRates(known, (failed + prior * of_stratum / base) / (exposure + prior / base))


def strata(rows: pl.DataFrame, rules: Sequence[Rule]) -> NDArray[np.int64]:
    """Give the number of the first rule that each unit is under, len(rules) where there is none."""
    first = np.full(len(rows), len(rules))
    for index in reversed(range(len(rules))):
        rule = rules[index]
        first[(rows[rule.feature] >= rule.at_least).fill_null(value=False).to_numpy()] = index
    return first


@dataclass(frozen=True)
class Logistic:
    """One logistic regression per horizon on standardised features; missing values get the median and an indicator."""

    horizons_h: tuple[float, ...]
    features: tuple[str, ...]
    fitted: Mapping[float, Pipeline]
    prevalence: Mapping[float, float]

    def hazards_of(self, rows: pl.DataFrame) -> Floats:
        """Turn the probabilities per horizon into hazards per bin, a longer horizon never below a shorter one."""
        matrix = _matrix(rows, self.features)
        probability = np.stack([self._probability(h, matrix) for h in self.horizons_h], axis=1)
        cumulative = np.maximum.accumulate(-np.log1p(-np.clip(probability, 0, 1 - 1e-9)), axis=1)
        hazard: Floats = np.diff(cumulative, axis=1, prepend=0.0) / bin_widths(self.horizons_h)
        return hazard[:, None, :]

    def _probability(self, horizon_h: float, matrix: Floats) -> Floats:
        if horizon_h not in self.fitted:
            return np.full(len(matrix), self.prevalence[horizon_h])
        positive: Floats = self.fitted[horizon_h].predict_proba(matrix)[:, 1]
        return positive


def fit_logistic(rows: pl.DataFrame, features: Sequence[str], horizons_h: Sequence[float], *, share: float, seed: int) -> Logistic:
    """Fit on the landmarks whose outcome is known, with a weighted share of the negatives."""
    rng = np.random.default_rng(seed)
    fitted: dict[float, Pipeline] = {}
    prevalence: dict[float, float] = {}
    for horizon in horizons_h:
        known = outcomes(rows, horizon)
        prevalence[horizon] = float(known.failed[known.is_known].mean()) if known.is_known.any() else 0.0
        kept = np.flatnonzero(known.is_known & (known.failed | (rng.random(len(rows)) < share)))
        failed = known.failed[kept]
        if features and failed.any() and not failed.all():
            weight = np.where(failed, 1.0, 1 / share)
            fitted[horizon] = _fit_one(_matrix(rows[kept], features), failed, weight)
    return Logistic(tuple(horizons_h), tuple(features), fitted, prevalence)


def _matrix(rows: pl.DataFrame, features: Sequence[str]) -> Floats:
    """Take features, counts and rates on a signed log scale so that bursts do not rule the fit."""
    raw = rows.select(pl.col(name).cast(pl.Float64).fill_null(float("nan")) for name in features).to_numpy()
    squeezed: Floats = np.sign(raw) * np.log1p(np.abs(raw))
    return squeezed


def _fit_one(matrix: Floats, failed: NDArray[np.bool_], weight: Floats) -> Pipeline:
    model = make_pipeline(
        SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True),
        StandardScaler(),
        LogisticRegression(C=0.1, max_iter=200),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a baseline that has not quite converged still ranks
        return model.fit(matrix, failed, logisticregression__sample_weight=weight)
