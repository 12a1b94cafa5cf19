"""A trained model: calibrated hazards for each scope, and what a reader must know to use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import numpy as np
import polars as pl

from features.schema import Feature
from models.calibrate import Calibrator
from models.hazard import ScopeHazard
from models.survival import Floats, bin_widths
from models.trees import Matrix

LabelOrigin = Literal["synthetic", "real"]


@dataclass(frozen=True, kw_only=True)
class ScopeModel:
    """Hazards of one kind of unit with their calibrator, the fleet's base rate and the fleet's usual value of each feature."""

    hazard: ScopeHazard
    calibrator: Calibrator
    base_rate_per_h: float
    medians: Mapping[str, float | None]

    def hazards_of(self, rows: pl.DataFrame) -> Floats:
        """Give calibrated hazards per hour, axes (landmark, mode, bin)."""
        return self.hazards(self.hazard.matrix(rows))

    def hazards(self, matrix: Matrix) -> Floats:
        """Give calibrated hazards for rows of the feature matrix."""
        return self.calibrator.apply(self.hazard.hazards(matrix))

    def interval(self, hazard: Floats) -> tuple[Floats, Floats]:
        """Give the factors on each unit's total hazard that bound its 90 % interval."""
        cumulative = (hazard.sum(axis=1) * bin_widths(self.hazard.horizons_h)).sum(axis=1)
        return self.calibrator.interval_factors(cumulative)


@dataclass(frozen=True, kw_only=True)
class Model:
    """Everything that scoring needs; `features` are the definitions that the model was trained with."""

    name: str
    version: str
    horizons_h: tuple[float, ...]
    scopes: Mapping[str, ScopeModel]
    features: tuple[Feature, ...]
    trained_until: datetime
    label_origin: LabelOrigin

    @property
    def uses_telemetry(self) -> bool:
        """Tell whether any feature reads live telemetry; a model of history alone never abstains for want of it."""
        return any(feature.family not in EVENT_FAMILIES for feature in self.features)


EVENT_FAMILIES = frozenset({"history", "domain"})


def is_history(feature: Feature) -> bool:
    """Tell whether a feature speaks of past failures, age and place only: no telemetry and no warning sign."""
    return feature.family in EVENT_FAMILIES and "xids" not in feature.name


def medians_of(rows: pl.DataFrame, features: tuple[str, ...]) -> dict[str, float | None]:
    """Give the fleet's usual value of each feature; None where it is never there."""
    return {name: _median(rows[name]) for name in features}


def _median(values: pl.Series) -> float | None:
    middle = values.drop_nulls().median()
    return float(middle) if isinstance(middle, float | int) and np.isfinite(middle) else None
