"""Score the fleet as of a time: newest features in, probabilities per unit and horizon out, with reasons or why there is no number.

A GPU's probability is for GPU modes; a node's adds the hazards of its GPUs to its own modes. A node whose telemetry is stale or gone
is not judged by a model that reads telemetry: the telemetry is what has failed there, and that is not evidence against the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import polars as pl
import pyarrow as pa

from ingest.lake import AppTransaction, Lake, table_rows
from models.evaluate import main_horizon
from models.explain import as_json, explain
from models.fleet import Fleet, read_fleet
from models.metrics import MODEL_INFO, NODE_PROBABILITY, SCORE_SECONDS
from models.metrics import SCORES as SCORED
from models.model import Model, ScopeModel
from models.schema import SCORES
from models.score_rows import Bools, Scored, to_arrow
from models.survival import Floats, add_parts, bin_widths


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """What a scoring pass may be told."""

    stale_after_s: float = 900.0  # telemetry older than this is no ground for a probability
    oldest_landmark_h: float = 1.0  # units without features this new are not scored
    explain_from: float = 2.0  # times the base rate from which a node gets reasons
    explain_most: int = 16  # nodes that get reasons, the worst first


@SCORE_SECONDS.time()
def score(
    lake: Lake,
    model: Model,
    *,
    as_of: datetime,
    now: datetime,
    nodes: Sequence[str] | None = None,
    scoring: Scoring | None = None,
    append: bool = True,
    transaction: AppTransaction | None = None,
) -> pa.Table:
    """Score every unit with features as of `as_of` and append the rows to `scores`, under `transaction` where given; gives the rows."""
    scoring = scoring or Scoring()
    fleet = read_fleet(lake, as_of, nodes, oldest_h=scoring.oldest_landmark_h)
    rows = score_fleet(model, fleet, as_of=as_of, now=now, scoring=scoring)
    if append and rows.num_rows:
        lake.append(SCORES, rows, transaction)
        _publish(rows, model)
    return rows


def _publish(rows: pa.Table, model: Model) -> None:
    """Show the newest pass on the metrics page."""
    for row in rows.select(["scope", "node", "horizon_h", "p_fail"]).to_pylist():
        if row["scope"] == "node" and row["p_fail"] is not None:
            NODE_PROBABILITY.labels(row["node"], f"{row['horizon_h']:g}h").set(row["p_fail"])
        if row["horizon_h"] == model.horizons_h[0]:
            SCORED.labels(row["scope"], "abstained" if row["p_fail"] is None else "scored").inc()
    MODEL_INFO.clear()
    MODEL_INFO.labels(model.name, model.version).set(1)


def score_fleet(model: Model, fleet: Fleet, *, as_of: datetime, now: datetime, scoring: Scoring) -> pa.Table:
    """Score a fleet that has been read; pure."""
    gpus = _score_gpus(model.scopes.get("gpu"), fleet, model.horizons_h)
    nodes = _score_nodes(model, fleet, gpus)
    is_blind = _is_blind(fleet, scoring.stale_after_s) if model.uses_telemetry else np.zeros(len(fleet.nodes), dtype=bool)
    reasons = _explain(model, fleet, gpus=gpus, nodes=nodes, is_blind=is_blind, scoring=scoring)
    tables = [
        to_arrow(scored, model=model, fleet=fleet, gpus=gpus, is_blind=is_blind, reasons=of_scope, as_of=as_of, now=now)
        for scored, of_scope in ((gpus, reasons["gpu"]), (nodes, reasons["node"]))
        if len(scored.units)
    ]
    return pa.concat_tables(tables) if tables else table_rows(SCORES, {})


def _score_gpus(trained: ScopeModel | None, fleet: Fleet, horizons_h: Sequence[float]) -> Scored:
    rows = fleet.gpu_rows
    owner = fleet.owner_of(rows)
    if trained is None or rows.is_empty():
        none = np.zeros((len(rows), 0, len(horizons_h)))
        return Scored("gpu", rows["unit"].to_list(), owner, none, (), np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows)))
    hazard = trained.hazards_of(rows)
    low, high = trained.interval(hazard)
    base: Floats = np.full(len(rows), trained.base_rate_per_h, dtype=np.float64)
    return Scored("gpu", rows["unit"].to_list(), owner, hazard, trained.hazard.modes, low, high, base)


def _score_nodes(model: Model, fleet: Fleet, gpus: Scored) -> Scored:
    """Add up each node's GPUs and its own modes; the interval adds up the ends, as if all erred together."""
    count, widths = len(fleet.nodes), bin_widths(model.horizons_h)
    own, own_low, own_high, modes = _own_hazard(model, fleet)
    from_gpus = add_parts(gpus.hazard, gpus.owner, count)
    hazard = np.concatenate([from_gpus, own], axis=1)
    gpu_total, own_total = ((h.sum(axis=1) * widths).sum(axis=1) for h in (gpus.hazard, own))
    total = (hazard.sum(axis=1) * widths).sum(axis=1)

    def factor(of_gpu: Floats, of_own: Floats) -> Floats:
        of_gpus = np.multiply(gpu_total, of_gpu, out=np.zeros(len(of_gpu)), where=gpu_total > 0)
        weighted = np.bincount(gpus.owner, weights=of_gpus, minlength=count) + np.where(own_total > 0, own_total * of_own, 0.0)
        mean: Floats = np.divide(weighted, total, out=np.ones(count), where=total > 0)
        return mean

    trained = model.scopes.get("node")
    own_base = trained.base_rate_per_h if trained else 0.0
    base: Floats = np.bincount(gpus.owner, weights=gpus.base_rate_per_h, minlength=count) + np.full(count, own_base)
    low, high = factor(gpus.low, own_low), factor(gpus.high, own_high)
    return Scored("node", list(fleet.nodes), np.arange(count), hazard, (*gpus.modes, *modes), low, high, base)


def _own_hazard(model: Model, fleet: Fleet) -> tuple[Floats, Floats, Floats, tuple[str, ...]]:
    """Give the hazards of the nodes' own modes; zero for a node without a feature row of its own."""
    trained, count = model.scopes.get("node"), len(fleet.nodes)
    if trained is None or not trained.hazard.modes or fleet.node_rows.is_empty():
        return np.zeros((count, 0, len(model.horizons_h))), np.ones(count), np.ones(count), ()
    hazard = trained.hazards_of(fleet.node_rows)
    low, high = trained.interval(hazard)
    owner = fleet.owner_of(fleet.node_rows)
    full, full_low, full_high = np.zeros((count, *hazard.shape[1:])), np.ones(count), np.ones(count)
    full[owner], full_low[owner], full_high[owner] = hazard, low, high
    return full, full_low, full_high, trained.hazard.modes


def _is_blind(fleet: Fleet, stale_after_s: float) -> Bools:
    age = fleet.telemetry_age_s
    return ~(age <= stale_after_s)  # an unknown age (NaN) is blind


def _explain(model: Model, fleet: Fleet, *, gpus: Scored, nodes: Scored, is_blind: Bools, scoring: Scoring) -> dict[str, dict[int, str]]:
    """Explain the worst nodes by their leading unit: the worst GPU, or the node where its own modes weigh more."""
    reasons: dict[str, dict[int, str]] = {"gpu": {}, "node": {}}
    widths = bin_widths(model.horizons_h) * (np.asarray(model.horizons_h) <= main_horizon(model.horizons_h))
    risk = (nodes.hazard.sum(axis=1) * widths).sum(axis=1)
    base = nodes.base_rate_per_h * widths.sum()
    worst = [int(i) for i in np.argsort(-risk) if risk[i] >= scoring.explain_from * base[i] and not is_blind[i]][: scoring.explain_most]
    worst_gpu = gpus.worst_per_owner(len(nodes.units), widths)[:, -1]
    gpu_risk = (gpus.hazard.sum(axis=1) * widths).sum(axis=1)
    own_risk = (nodes.hazard[:, len(gpus.modes) :].sum(axis=1) * widths).sum(axis=1)
    by_gpu = [i for i in worst if worst_gpu[i] >= 0 and gpu_risk[worst_gpu[i]] >= own_risk[i]]
    for i, text in zip(by_gpu, _texts(model, "gpu", fleet.gpu_rows, gpus.hazard, [int(worst_gpu[i]) for i in by_gpu]), strict=True):
        reasons["gpu"][int(worst_gpu[i])] = reasons["node"][i] = text
    row_of = {int(owner): row for row, owner in enumerate(fleet.owner_of(fleet.node_rows))}
    by_own = [i for i in worst if i not in by_gpu and i in row_of]
    own = nodes.hazard[:, len(gpus.modes) :][list(row_of)] if row_of else nodes.hazard[:0]
    for i, text in zip(by_own, _texts(model, "node", fleet.node_rows, own, [row_of[i] for i in by_own]), strict=True):
        reasons["node"][i] = text
    return reasons


def _texts(model: Model, scope: str, rows: pl.DataFrame, hazard: Floats, picked: Sequence[int]) -> list[str]:
    if not picked:
        return []
    trained = model.scopes[scope]
    chosen = rows[list(picked)]
    features = {feature.name: feature for feature in model.features if feature.scope == scope}
    given = explain(trained, features, trained.hazard.matrix(chosen), hazard[list(picked)], chosen["unit"].to_list())
    return [as_json(reasons) for reasons in given]
