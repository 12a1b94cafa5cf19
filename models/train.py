"""Train from the lake and store: the recipe is judged on later time first, then moved forward to now and kept as a new version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import msgspec
import structlog

from features.schema import EPISODES, GPU_FEATURES, NODE_FEATURES
from ingest.lake import Lake
from models.card import Evaluation, write_card
from models.fitting import Material, Settings, fit_model, read_material
from models.metrics import TRAIN_SECONDS
from models.model import LabelOrigin, Model
from models.schema import HORIZONS_H
from models.store import Store
from models.trial import judge_recipe, rule_for

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class TrainReport:
    """What a training run made."""

    model: Model
    evaluation: Evaluation
    card: str
    path: Path


@TRAIN_SECONDS.time()
def train(
    lake: Lake,
    directory: str | Path,
    *,
    cutoff: datetime,
    now: datetime,
    label_origin: LabelOrigin,
    horizons_h: Sequence[float] = HORIZONS_H,
    seed: int = 0,
    name: str = "hazard",
    settings: Settings | None = None,
    promote: bool = True,
    progress: Callable[[float], None] = lambda _: None,
) -> TrainReport:
    """Train from the lake, judge on [cutoff, now], store the model trained until `now` under `directory/name` and promote it.

    `progress` is called with the share done. Raises NothingToTrain without landmarks at risk before the cutoff.
    """
    settings = settings or Settings()
    settings = replace(settings, horizons_h=tuple(horizons_h), recipe=replace(settings.recipe, seed=seed))
    material = read_material(lake, now)
    progress(0.05)
    evaluation = judge_recipe(material, settings, cutoff=cutoff, now=now)
    progress(0.65)
    model = fit_model(material, settings, until=now, name=name, label_origin=label_origin)
    progress(1.0)
    card = write_card(model, evaluation, rule_for(settings.rule, settings.horizons_h))
    documents = {
        "metrics.json": msgspec.json.format(msgspec.json.encode(evaluation), indent=1).decode(),
        "data.json": _describe(lake, material, now),
        "card.md": card,
    }
    store = Store(directory, name, settings.catalogue)
    model = store.save(model, documents, now)
    if promote:
        store.promote(model.version)
    _log.info("model_trained", name=name, version=model.version, until=now.isoformat(), labels=label_origin)
    return TrainReport(model=model, evaluation=evaluation, card=card, path=store.path / model.version)


def _describe(lake: Lake, material: Material, now: datetime) -> str:
    """Say which data a model was made of: table versions, landmarks and when the labels were made."""
    labelled = material.episodes["labelled_at"].max() if len(material.episodes) else None
    described = {
        "tables": {table.name: lake.version(table) for table in (GPU_FEATURES, NODE_FEATURES, EPISODES)},
        "landmarks": {scope: len(rows) for scope, rows in material.landmarks.items()},
        "labelled_at": labelled,
        "read_at": now,
    }
    return msgspec.json.format(msgspec.json.encode(described), indent=1).decode()
