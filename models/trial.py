"""Try a recipe before it is used: fit on what was known at a cutoff, compare with the baselines on what came later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np
import polars as pl

from models.baseline import Contender, fit_logistic, fit_rules
from models.calibrate import NO_CALIBRATION
from models.card import Evaluation
from models.early_warning import AlertRule
from models.evaluate import Result, evaluate_level, main_horizon, node_total
from models.fitting import Material, Settings, fit_model
from models.hazard import Design, cross_fit, fit, informative_features
from models.model import ScopeModel, is_history
from models.periods import with_part_failures
from models.survival import Floats

BASELINES = ("constant", "rules", "logistic", "history")


def judge_recipe(material: Material, settings: Settings, *, cutoff: datetime, now: datetime) -> Evaluation:
    """Fit model and baselines on what was known at the cutoff and judge them on the landmarks from it to `now`."""
    since = None if settings.window is None else cutoff - settings.window
    past = {scope: material.at_risk(scope, cutoff, since) for scope in material.landmarks}
    later = {scope: material.at_risk(scope, now, cutoff) for scope in material.landmarks}
    model = fit_model(material, settings, until=cutoff, name="judged", label_origin="real")
    fitted = {scope: _baselines(scope, rows, settings) for scope, rows in past.items()}
    contenders: dict[str, Mapping[str, Contender]] = {"model": model.scopes}
    contenders |= {name: {scope: of_scope[name] for scope, of_scope in fitted.items()} for name in BASELINES}
    starts = [rows["as_of"].min() for rows in past.values()]
    return Evaluation(
        trained_from=min(at for at in starts if isinstance(at, datetime)),
        cutoff=cutoff,
        evaluated_until=now,
        main_horizon_h=main_horizon(settings.horizons_h),
        failures_trained={scope: _failures_per_mode(rows) for scope, rows in past.items()},
        results=tuple(_judge(later, material.episodes, contenders, settings, now)),
    )


def _baselines(scope: str, rows: pl.DataFrame, settings: Settings) -> dict[str, Contender]:
    horizons, recipe = settings.horizons_h, settings.recipe
    history = [feature.name for feature in settings.catalogue if feature.scope == scope and is_history(feature)]
    design = Design(rows, features=history, horizons_h=horizons, recipe=replace(recipe, pooled=True))
    rounds = cross_fit(design, np.zeros(len(rows), dtype=bool)).rounds
    used = informative_features(rows, settings.names(scope))
    return {
        "constant": fit_rules(rows, (), horizons),
        "rules": fit_rules(rows, settings.rules, horizons),
        "logistic": fit_logistic(rows, used, horizons, share=recipe.negative_share, seed=recipe.seed),
        "history": ScopeModel(hazard=fit(design, scope, rounds), calibrator=NO_CALIBRATION, base_rate_per_h=0.0, medians={}),
    }


def _failures_per_mode(rows: pl.DataFrame) -> dict[str, int]:
    failed = rows.filter(pl.col("failed_as").is_not_null()).unique("failure")
    return dict(sorted(failed["failed_as"].value_counts().iter_rows()))


def _judge(
    later: Mapping[str, pl.DataFrame],
    episodes: pl.DataFrame,
    contenders: Mapping[str, Mapping[str, Contender]],
    settings: Settings,
    now: datetime,
) -> list[Result]:
    hazards = {scope: _totals(scope, rows, contenders) for scope, rows in later.items()}
    horizons, seed = settings.horizons_h, settings.recipe.seed
    rule = rule_for(settings.rule, horizons)
    results: list[Result] = []
    if "gpu" in later:
        results += evaluate_level("gpu", later["gpu"], hazards["gpu"], horizons, seed=seed, rule=None if "node" in later else rule)
    if "node" in later:
        rows = with_part_failures(later["node"], episodes, now)
        totals = hazards["node"]
        if "gpu" in later:
            totals = {name: node_total(rows, own, later["gpu"], hazards["gpu"][name]) for name, own in totals.items()}
        results += evaluate_level("node", rows, totals, horizons, seed=seed, rule=rule)
    return results


def rule_for(rule: AlertRule, horizons_h: Sequence[float]) -> AlertRule:
    """Give the alert rule for these horizons; where its own is not among them, alerts speak of the main one."""
    if rule.score_horizon_h in horizons_h:
        return rule
    main = main_horizon(horizons_h)
    return replace(rule, score_horizon_h=main, horizon_h=main, cooldown_h=main)


def _totals(scope: str, rows: pl.DataFrame, contenders: Mapping[str, Mapping[str, Contender]]) -> dict[str, Floats]:
    """Give each contender's hazard over all modes; axes (landmark, bin)."""
    bins_of = {name: by_scope[scope].hazards_of(rows) for name, by_scope in contenders.items()}
    return {name: hazard.sum(axis=1) for name, hazard in bins_of.items()}
