"""Turn hazards into rows of the scores table, whole columns at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingest.lake import table_rows
from models.fleet import Fleet
from models.model import Model
from models.schema import SCORES
from models.survival import Floats, bin_widths, cumulative_incidence

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Scored:
    """Calibrated hazards of the units of one scope; `owner` is each unit's node, `low` and `high` factors on its hazard."""

    scope: str
    units: Sequence[str]
    owner: NDArray[np.int64]
    hazard: Floats  # axes (unit, mode, bin)
    modes: tuple[str, ...]
    low: Floats
    high: Floats
    base_rate_per_h: Floats

    def worst_per_owner(self, owners: int, widths: Floats) -> NDArray[np.int64]:
        """Give the unit with the largest cumulative hazard per owner and bin; -1 where an owner has none."""
        cumulative = np.cumsum(self.hazard.sum(axis=1) * widths, axis=1)
        worst = np.full((owners, cumulative.shape[1]), -1)
        for k in range(cumulative.shape[1]):
            order = np.lexsort((cumulative[:, k], self.owner))
            worst[self.owner[order], k] = order  # the last assignment of an owner is its largest
        return worst


def to_arrow(
    scored: Scored, *, model: Model, fleet: Fleet, gpus: Scored, is_blind: Bools, reasons: Mapping[int, str], as_of: datetime, now: datetime
) -> pa.Table:
    """Make the rows of one scope, unit by unit and horizon by horizon."""
    widths = bin_widths(model.horizons_h)
    units, bins = len(scored.units), len(widths)
    cumulative = np.cumsum(scored.hazard.sum(axis=1) * widths, axis=1)
    blind = np.repeat(is_blind[scored.owner], bins)
    age = np.repeat(fleet.telemetry_age_s[scored.owner], bins)
    nodes = [fleet.nodes[i] for i in scored.owner]
    columns = {
        "as_of": [as_of] * (units * bins),
        "scored_at": [now] * (units * bins),
        "scope": [scored.scope] * (units * bins),
        "unit": _repeat(scored.units, bins),
        "node": _repeat(nodes, bins),
        "horizon_h": np.tile(np.asarray(model.horizons_h), units),
        "p_fail": pa.array(_probability(cumulative), mask=blind),
        "p_low": pa.array(_probability(cumulative * scored.low[:, None]), mask=blind),
        "p_high": pa.array(_probability(cumulative * scored.high[:, None]), mask=blind),
        "p_base": _probability(scored.base_rate_per_h[:, None] * np.cumsum(widths)),
        "cif": _incidence(scored, model, blind),
        "worst_unit": _worst_units(scored, gpus, widths),
        "reasons": _repeat([reasons.get(i) for i in range(units)], bins),
        "abstained_because": _repeat([_why(fleet, int(i)) if is_blind[i] else None for i in scored.owner], bins),
        "telemetry_age_s": pa.array(age, mask=~np.isfinite(age)),
        "missing_sources": _repeat([list(fleet.missing_sources[i]) for i in scored.owner], bins),
        "model": [model.name] * (units * bins),
        "model_version": [model.version] * (units * bins),
    }
    return table_rows(SCORES, columns)


def _probability(cumulative: Floats) -> Floats:
    flat: Floats = -np.expm1(-cumulative).ravel()
    return flat


def _repeat(values: Sequence[object], times: int) -> list[object]:
    return [value for value in values for _ in range(times)]


def _why(fleet: Fleet, node: int) -> str:
    return "stale_telemetry" if np.isfinite(fleet.telemetry_age_s[node]) else "no_telemetry"


def _worst_units(scored: Scored, gpus: Scored, widths: Floats) -> list[str | None]:
    if scored.scope != "node":
        return [None] * (len(scored.units) * len(widths))
    worst = gpus.worst_per_owner(len(scored.units), widths)
    return [gpus.units[i] if i >= 0 else None for i in worst.ravel().tolist()]


def _incidence(scored: Scored, model: Model, blind: Bools) -> pa.Array:
    """Give the cumulative incidence per mode as a map; a mode of both scopes is added up."""
    names = sorted(set(scored.modes))
    hazard = np.stack([scored.hazard[:, [m == name for m in scored.modes]].sum(axis=1) for name in names], axis=1) if names else None
    if hazard is None:
        return pa.nulls(len(blind), pa.map_(pa.string(), pa.float64()))
    incidence = cumulative_incidence(hazard, model.horizons_h).transpose(0, 2, 1)
    told = incidence.reshape(len(blind), len(names))[~blind]
    ends = np.concatenate([[0], np.cumsum(np.where(blind, 0, len(names)))]).astype(np.int32)
    keys = pa.DictionaryArray.from_arrays(np.tile(np.arange(len(names), dtype=np.int32), len(told)), pa.array(names)).dictionary_decode()
    return pa.MapArray.from_arrays(pa.array(ends, mask=np.append(blind, False)), keys, pa.array(told.ravel()))
