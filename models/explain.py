"""Say why a unit's hazard is high: the features that raised its leading failure mode, with value, usual value, unit and window.

Contributions are additive on the log of the hazard (SHAP values of the trees), taken in the bin that carries most of the leading
mode's hazard. They cost milliseconds a row, so only units that are reported get them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from features.schema import Feature
from models.model import ScopeModel
from models.survival import Floats, bin_widths
from models.trees import Matrix

MOST_REASONS = 5
_BARE = ("", "count", "0..1", "ratio", "log2")  # units that say nothing beside the meaning
_LEAST_CONTRIBUTION = 0.05  # a factor of 1.05 on the hazard is not worth a line


class Reason(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One reason of a score, in the words of the recommendation's schema."""

    code: str
    summary: str
    feature: str
    value: float | None
    baseline: float | None
    unit: str
    window: str
    contribution: float
    component: str | None = None


def explain(
    model: ScopeModel, features: Mapping[str, Feature], matrix: Matrix, hazard: Floats, units: Sequence[str]
) -> list[tuple[Reason, ...]]:
    """Give for each row its strongest reasons first; `hazard` has axes (row, mode, bin), `features` is by name."""
    reasons: list[tuple[Reason, ...]] = [()] * len(matrix)
    leading = _leading(model, hazard)
    for part_index, in_bin in sorted(set(leading)):
        rows = [i for i, lead in enumerate(leading) if lead == (part_index, in_bin)]
        part = model.hazard.parts[part_index]
        contributions = model.hazard.contributions(matrix[rows], part, in_bin)
        for i, given in zip(rows, contributions, strict=True):
            reasons[i] = _reasons(model, features, matrix[i], given, units[i])
    return reasons


def _leading(model: ScopeModel, hazard: Floats) -> list[tuple[int, int]]:
    """Give for each row the part with the largest hazard over all bins, and the bin where most of it lies."""
    widths = bin_widths(model.hazard.horizons_h)
    owner = np.repeat(np.arange(len(model.hazard.parts)), [len(part.modes) for part in model.hazard.parts])
    per_part = np.stack([(hazard[:, owner == p] * widths).sum(axis=1) for p in range(len(model.hazard.parts))], axis=1)
    part = per_part.sum(axis=2).argmax(axis=1)
    return [(int(p), int(per_part[i, p].argmax())) for i, p in enumerate(part)]


def _reasons(model: ScopeModel, features: Mapping[str, Feature], row: Matrix, given: Floats, unit: str) -> tuple[Reason, ...]:
    order = np.argsort(-given)[:MOST_REASONS]
    strong = [j for j in order if given[j] >= _LEAST_CONTRIBUTION]
    return tuple(_reason(features[model.hazard.features[j]], float(row[j]), model.medians, float(given[j]), unit) for j in strong)


def _reason(feature: Feature, raw: float, medians: Mapping[str, float | None], contribution: float, unit: str) -> Reason:
    value = raw if np.isfinite(raw) else None
    baseline = medians.get(feature.name)
    return Reason(
        code=f"{feature.family}.{feature.name}".lower(),
        summary=summarise(feature, value, baseline, unit),
        feature=feature.name,
        value=value,
        baseline=baseline,
        unit=feature.unit,
        window=feature.window,
        contribution=round(contribution, 3),
        component=unit if feature.scope == "gpu" else None,
    )


def summarise(feature: Feature, value: float | None, baseline: float | None, unit: str) -> str:
    """Say one reason in words, at most 300 characters."""
    shown = "not reported" if value is None else _quantity(value, feature.unit)
    usual = "" if baseline is None else f" (usual in the fleet: {_quantity(baseline, feature.unit)})"
    return f"{unit}: {feature.meaning}{_span(feature.window)}: {shown}{usual}"[:300]


def _quantity(value: float, unit: str) -> str:
    if unit == "0 or 1":
        return "yes" if value >= 0.5 else "no"
    return f"{value:.4g}" if unit in _BARE else f"{value:.4g} {unit}"


def _span(window: str) -> str:
    """Say an ISO 8601 duration in words."""
    found = re.fullmatch(r"P(?:(\d+)D)?(?:T(\d+)H)?", window)
    days, hours = found.groups() if found else (None, None)
    return f", last {days} d" if days else f", last {hours} h" if hours else ""


def as_json(reasons: Sequence[Reason]) -> str:
    """Encode reasons as the scores table carries them."""
    return msgspec.json.encode(list(reasons)).decode()
