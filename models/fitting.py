"""Fit and calibrate the hazards of every scope on what was known at a time.

Trees fitted without a third of the nodes, three times over, tell how many rounds serve nodes that were not seen, and how far their
hazards are off on the newest mature landmarks; the model in use is then fitted to all nodes with those rounds and that calibrator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np
import polars as pl
from numpy.typing import NDArray

from features.schema import FEATURES, Feature
from ingest.errors import ForewarnError
from ingest.lake import Lake
from models.baseline import RULES, Rule
from models.calibrate import calibrate, mature
from models.early_warning import AlertRule
from models.hazard import Design, Recipe, cross_fit, fit
from models.model import LabelOrigin, Model, ScopeModel, medians_of
from models.periods import Scope, at_risk, read_episodes, read_landmarks
from models.schema import HORIZONS_H

SCOPES: tuple[Scope, ...] = ("gpu", "node")


class NothingToTrain(ForewarnError):
    """The lake holds no landmarks or no failures to learn from."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that shapes a training run besides its data."""

    horizons_h: tuple[float, ...] = HORIZONS_H
    recipe: Recipe = field(default_factory=Recipe)
    rule: AlertRule = field(default_factory=AlertRule)
    rules: Sequence[Rule] = RULES
    catalogue: Sequence[Feature] = FEATURES
    window: timedelta | None = None  # how far back landmarks are used; None: all
    calibration_share: float = 0.3  # newest part of the time whose mature landmarks calibrate
    label_delay_h: float = 0.0

    def names(self, scope: str) -> list[str]:
        """Name the features of a scope."""
        return [feature.name for feature in self.catalogue if feature.scope == scope]


@dataclass(frozen=True)
class Material:
    """Landmarks per scope and the episodes, as read from the lake."""

    landmarks: Mapping[str, pl.DataFrame]
    episodes: pl.DataFrame

    def at_risk(self, scope: str, until: datetime, since: datetime | None = None) -> pl.DataFrame:
        """Give a scope's landmarks from `since` with their follow-up as known at `until`."""
        rows = self.landmarks[scope]
        rows = rows if since is None else rows.filter(pl.col("as_of") >= since)
        return at_risk(rows, self.episodes.filter(pl.col("scope") == scope), until)


def read_material(lake: Lake, now: datetime) -> Material:
    """Read all landmarks and the newest labels as of `now`; scopes without landmarks are left out."""
    landmarks = {scope: read_landmarks(lake, scope, until=now) for scope in SCOPES}
    if all(rows.is_empty() for rows in landmarks.values()):
        raise NothingToTrain(f"no features before {now:%Y-%m-%d %H:%M} in {lake.root}; build them first")
    return Material({scope: rows for scope, rows in landmarks.items() if len(rows)}, read_episodes(lake, now))


def fit_model(material: Material, settings: Settings, *, until: datetime, name: str, label_origin: LabelOrigin) -> Model:
    """Fit and calibrate every scope on what was known at `until`."""
    scopes = {scope: fit_scope(material, scope, settings, until) for scope in material.landmarks}
    used = {(scope, feature) for scope, trained in scopes.items() for feature in trained.hazard.features}
    return Model(
        name=name,
        version="",
        horizons_h=settings.horizons_h,
        scopes=scopes,
        features=tuple(feature for feature in settings.catalogue if (feature.scope, feature.name) in used),
        trained_until=until,
        label_origin=label_origin,
    )


def fit_scope(material: Material, scope: str, settings: Settings, until: datetime) -> ScopeModel:
    """Fit one scope on its landmarks before `until`, calibrated on the newest mature ones by trees that did not see their node."""
    since = None if settings.window is None else until - settings.window
    rows = material.at_risk(scope, until, since)
    if rows.is_empty():
        raise NothingToTrain(f"no {scope} landmark before {until:%Y-%m-%d %H:%M} lies in an episode; build features and labels first")
    design = Design(rows, features=settings.names(scope), horizons_h=settings.horizons_h, recipe=settings.recipe)
    newest = _newest(rows, settings, until)
    crossed = cross_fit(design, newest)
    periods = mature(rows.filter(newest), settings.horizons_h, until, settings.label_delay_h)
    calibrator = calibrate(crossed.hazard, rows.filter(newest), periods, settings.horizons_h)
    hazard = fit(design, scope, crossed.rounds)
    return ScopeModel(hazard=hazard, calibrator=calibrator, base_rate_per_h=base_rate(rows), medians=medians_of(rows, hazard.features))


def _newest(rows: pl.DataFrame, settings: Settings, until: datetime) -> NDArray[np.bool_]:
    """Tell which landmarks calibrate: those of the newest share of the time, counted back from the first mature ones."""
    first = rows["as_of"].min()
    assert isinstance(first, datetime)
    wanted = timedelta(hours=settings.horizons_h[-1]) + settings.calibration_share * (until - first)
    return (rows["as_of"] >= until - wanted).to_numpy()


def base_rate(rows: pl.DataFrame) -> float:
    """Give the fleet's failure rate per unit and hour over landmarks at risk, from the time to each unit's next landmark."""
    failures = rows.filter(pl.col("failed_as").is_not_null())["failure"].n_unique()
    hours = rows.select(
        pl.min_horizontal((pl.col("as_of").shift(-1) - pl.col("as_of")).over("unit").dt.total_microseconds() / 3.6e9, "followed_h").sum()
    ).item()
    return failures / hours if hours else 0.0
