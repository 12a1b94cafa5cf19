"""Evaluate contenders on landmarks later than anything they were fitted on, at each horizon, beside each other.

Ranking and Brier use landmarks whose outcome is known; observed over expected uses every landmark for the time it was followed, so
censoring does not bias it. Landmarks overlap: intervals over counts use the number of failures, never of landmarks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np
import polars as pl

from models.calibrate import poisson_ratio_interval
from models.censored import ReliabilityBin, auc_at, brier_skill, reliability_curve
from models.early_warning import AlertRule, EarlyWarning, judge
from models.periods import Periods, expand, outcomes, spacing_h
from models.ranking import Figure, Ranking, interval, resampled_weights
from models.survival import Floats, failure_probability

SHARES = (0.01, 0.05)
DRAWS = 200


class HorizonFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How one contender did at one horizon."""

    horizon_h: float
    landmarks: int
    failures: int
    prevalence: float | None
    capture_1: Figure
    capture_5: Figure
    average_precision: Figure
    auroc: Figure
    average_precision_removed_survive: float | None  # units removed before the horizon counted as survivors instead of dropped
    removed: int
    expected: float
    observed: float
    observed_over_expected: Figure
    brier_skill: float | None
    auc_censored: float | None  # AUC with those that left before the horizon weighted for
    bits_per_failure: float | None
    reliability: tuple[ReliabilityBin, ...] = ()  # of the model only


class WarningFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Alerts of one contender, judged as events at node level."""

    threshold: float | None  # None: no threshold keeps to the model's time under alert
    counts: EarlyWarning
    recall: float | None
    precision_act: float | None
    precision_low: float | None
    precision_high: float | None
    alerts_per_1000_node_days: float
    share_of_time_alerted: float
    lead_median_h: float | None
    lead_p10_h: float | None
    recall_per_mode: dict[str, tuple[int, int]]  # caught of failures


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One contender at one level: gpu (GPU modes) or node (any failure of the node)."""

    level: str
    contender: str
    horizons: tuple[HorizonFigures, ...]
    lift: Figure | None = None  # capture at 5 % of the model minus this contender's, at the main horizon
    warning: WarningFigures | None = None


def evaluate_level(
    level: str, rows: pl.DataFrame, hazards: Mapping[str, Floats], horizons_h: Sequence[float], *, seed: int, rule: AlertRule | None = None
) -> list[Result]:
    """Evaluate contenders (total hazard per landmark and bin) on the same landmarks; the first one is the model."""
    weights = resampled_weights(rows["node"].to_numpy(), DRAWS, seed)
    periods = expand(rows, horizons_h)
    model = next(iter(hazards))
    results = []
    for name, hazard in hazards.items():
        draws = weights if name == model else None
        figures = tuple(
            _at_horizon(rows, hazard=hazard, periods=periods, horizons_h=horizons_h, k=k, weights=draws) for k in range(len(horizons_h))
        )
        lift = None if name == model else _lift(rows, hazards[model], hazard, horizons_h, weights)
        warning = _warn(rows, hazards, name, horizons_h, rule) if rule else None
        results.append(Result(level=level, contender=name, horizons=figures, lift=lift, warning=warning))
    return results


def _at_horizon(
    rows: pl.DataFrame, *, hazard: Floats, periods: Periods, horizons_h: Sequence[float], k: int, weights: Floats | None
) -> HorizonFigures:
    horizon = horizons_h[k]
    known = outcomes(rows, horizon)
    probability = failure_probability(hazard, horizons_h)[:, k]
    is_known = known.is_known
    ranking = Ranking(probability[is_known], known.failed[is_known])
    values = ranking.figures(SHARES)
    draws = np.array([ranking.figures(SHARES, w[is_known]) for w in weights]) if weights is not None else np.empty((0, len(values)))
    figures = [interval(draws[:, i], value) for i, value in enumerate(values)]
    survive = is_known | known.is_removed
    failures = rows.filter(pl.Series(known.failed))["failure"].n_unique() if known.failed.any() else 0
    expected, observed = expected_and_observed(hazard, periods, k)
    return HorizonFigures(
        horizon_h=horizon,
        landmarks=int(is_known.sum()),
        failures=failures,
        prevalence=float(known.failed[is_known].mean()) if is_known.any() else None,
        capture_1=figures[0],
        capture_5=figures[1],
        average_precision=figures[2],
        auroc=figures[3],
        average_precision_removed_survive=_finite(Ranking(probability[survive], known.failed[survive]).figures(())[0]),
        removed=int(known.is_removed.sum()),
        expected=expected,
        observed=observed,
        observed_over_expected=ratio_figure(observed, expected, failures),
        brier_skill=brier_skill(rows, probability, horizon),
        auc_censored=auc_at(rows, probability, horizon),
        reliability=reliability_curve(rows, probability, horizon) if weights is not None else (),
        bits_per_failure=bits_per_failure(hazard, periods, k),
    )


def main_horizon(horizons_h: Sequence[float]) -> float:
    """Give the horizon that headlines speak of: a day, or the first where that is not one."""
    return 24.0 if 24.0 in horizons_h else horizons_h[0]


def _lift(rows: pl.DataFrame, model: Floats, other: Floats, horizons_h: Sequence[float], weights: Floats) -> Figure:
    """Give how much more of the failures the model's top 5 % hold than another's, at the main horizon."""
    k = list(horizons_h).index(main_horizon(horizons_h))
    known = outcomes(rows, horizons_h[k])
    kept = known.is_known
    ours, theirs = (Ranking(failure_probability(h, horizons_h)[kept, k], known.failed[kept]) for h in (model, other))
    gain = float(ours.figures((0.05,))[0] - theirs.figures((0.05,))[0])
    return interval(np.array([ours.figures((0.05,), w[kept])[0] - theirs.figures((0.05,), w[kept])[0] for w in weights]), gain)


def expected_and_observed(hazard: Floats, periods: Periods, last_bin: int) -> tuple[float, float]:
    """Give expected and observed failures over the time that landmarks were followed, to the end of a bin."""
    within = periods.bin <= last_bin
    mean = hazard[periods.landmark, periods.bin] * periods.exposure_h * periods.weight
    return float(mean[within].sum()), float((periods.failed * periods.weight)[within].sum())


def ratio_figure(observed: float, expected: float, failures: int) -> Figure:
    """Give observed over expected with its exact 95 % interval from the number of failures behind the landmarks."""
    if expected <= 0:
        return Figure(None)
    per_failure = max(1.0, observed / failures) if failures else 1.0
    low, high = poisson_ratio_interval(failures, expected / per_failure)
    return Figure(observed / expected, low, high)


def bits_per_failure(hazard: Floats, periods: Periods, last_bin: int) -> float | None:
    """Give the log-likelihood gained over the right constant rate, in bits per failure."""
    within = periods.bin <= last_bin
    landmark, in_bin = periods.landmark[within], periods.bin[within]
    exposure, failed, weight = periods.exposure_h[within], periods.failed[within], periods.weight[within]
    count = float((failed * weight).sum())
    if count == 0:
        return None
    rate = hazard[landmark, in_bin]
    constant = count / float((exposure * weight).sum())
    if (rate[failed] <= 0).any():
        return None
    gain = (weight[failed] * np.log(rate[failed] / constant)).sum() - (weight * (rate - constant) * exposure).sum()
    return float(gain / count / np.log(2))


def _warn(rows: pl.DataFrame, hazards: Mapping[str, Floats], name: str, horizons_h: Sequence[float], rule: AlertRule) -> WarningFigures:
    """Judge a contender's alerts: the model's at the rule's threshold, a baseline's at the model's time under alert."""
    k = list(horizons_h).index(rule.score_horizon_h)
    scores = {n: failure_probability(hazards[n], horizons_h)[:, k] for n in (next(iter(hazards)), name)}
    model = next(iter(scores))
    if name != model:
        share = float((scores[model] >= rule.threshold).mean())
        rule = replace(rule, threshold=threshold_for_share(scores[name], share))
    return evaluate_warning(rows, scores[name], rule)


def threshold_for_share(score: Floats, share: float) -> float:
    """Give the lowest threshold that at most a share of the scores reaches; infinite where even the top score is too common."""
    distinct, counts = np.unique(score, return_counts=True)
    reaching = np.cumsum(counts[::-1])[::-1]
    allowed = distinct[reaching <= share * len(score)]
    return float(allowed[0]) if len(allowed) else float("inf")


def evaluate_warning(rows: pl.DataFrame, score: Floats, rule: AlertRule) -> WarningFigures:
    """Judge the alerts that a threshold on a score would have raised, node by node."""
    hours = rows["as_of"].dt.epoch("us").to_numpy() / 3.6e9
    nodes = rows["node"].to_list()
    crossing = np.flatnonzero(score >= rule.threshold)
    failed = rows.with_columns(at=pl.Series(hours) + pl.col("followed_h")).filter(pl.col("failed_as").is_not_null()).unique("failure")
    failures = list(zip(failed["node"], failed["at"], strict=True))
    until = rows.with_columns(end=pl.Series(hours) + pl.col("followed_h")).group_by("node").agg(pl.col("end").max())
    alerts = [(nodes[i], float(hours[i])) for i in crossing]
    counts = judge(alerts, failures, rule, dict(zip(until["node"], until["end"], strict=True)))
    per_mode = {}
    for mode in sorted(failed["failed_as"].unique()):
        ours = [(n, at) for n, at, m in zip(failed["node"], failed["at"], failed["failed_as"], strict=True) if m == mode]
        per_mode[mode] = (judge(alerts, ours, rule).caught, len(ours))
    node_days = len(rows) * spacing_h(rows) / 24
    low, high = counts.precision_bounds
    return WarningFigures(
        threshold=rule.threshold if np.isfinite(rule.threshold) else None,
        counts=counts,
        recall=counts.recall,
        precision_act=counts.precision_act,
        precision_low=low,
        precision_high=high,
        alerts_per_1000_node_days=1000 * counts.alerts / node_days if node_days else 0.0,
        share_of_time_alerted=float((score >= rule.threshold).mean()) if len(score) else 0.0,
        lead_median_h=counts.lead_quantile(0.5),
        lead_p10_h=counts.lead_quantile(0.1),
        recall_per_mode=per_mode,
    )


def node_total(rows: pl.DataFrame, own: Floats, part_rows: pl.DataFrame, parts: Floats) -> Floats:
    """Add to the nodes' own hazards those of their parts at the same landmark; axes (landmark, bin)."""
    keys = rows.select("node", "as_of").with_row_index("owner")
    owner = part_rows.select("node", "as_of").join(keys, on=["node", "as_of"], how="left", maintain_order="left")["owner"]
    has_owner = owner.is_not_null().to_numpy()
    total = own.copy()
    np.add.at(total, owner.drop_nulls().to_numpy().astype(np.int64), parts[has_owner])
    return total


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
