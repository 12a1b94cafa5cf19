"""The recurring analysis of a running fleet: roll up what is closed, make features as of now, score."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

import structlog

from features.build import build_features
from features.rollup import roll_up
from forewarn.settings import Config
from ingest.errors import ModelRefused
from ingest.lake import Lake
from models.score import Scoring, score
from models.store import Store

if TYPE_CHECKING:
    from models.model import Model

_log = structlog.get_logger()
MODEL_NAME = "hazard"


@dataclass
class Analysis:
    """One fleet's analysis; keeps the model it last read and goes on with it where a newer one is refused."""

    config: Config
    lake: Lake
    model: Model | None = field(default=None)
    is_waiting: bool = field(default=False)

    def catch_up(self, now: datetime) -> int:
        """Roll up, make features and score as of the time up to which the lake is complete; gives the number of scores written."""
        as_of = roll_up(self.lake, now).watermark
        build_features(self.lake, [as_of])
        return self.score(as_of, now)

    def score(self, as_of: datetime, now: datetime) -> int:
        """Score as of a landmark with the model in use; without one, say so once and write nothing."""
        try:
            self.model = Store(self.config.fleet.state_dir / "models", MODEL_NAME).refresh(self.model)
        except ModelRefused as error:
            if not self.is_waiting:
                _log.warning("no_model", why=str(error), mend="run forewarn train")
            self.is_waiting = True
            return 0
        scoring = Scoring(stale_after_s=self.config.score.stale_after_s)
        rows: int = score(self.lake, self.model, as_of=as_of, now=now, scoring=scoring).num_rows
        return rows
