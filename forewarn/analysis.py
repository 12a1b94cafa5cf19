"""The recurring analysis of a running fleet: roll up what is closed, make features as of now, score."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

import structlog

from features.build import FeatureBuilder
from features.rollup import Rollup
from forewarn.settings import Config
from ingest.errors import ModelRefused
from ingest.lake import Lake
from models.score import Scoring, score
from models.store import Store

if TYPE_CHECKING:
    from models.model import Model

_log = structlog.get_logger()
MODEL_NAME = "hazard"


class Analysis:
    """One fleet's analysis; keeps what it has read from pass to pass, and the model where a newer one is refused."""

    def __init__(self, config: Config, lake: Lake) -> None:
        self.config = config
        self.lake = lake
        self.model: Model | None = None
        self.is_waiting = False
        self._open = ExitStack()
        self._rollup = self._open.enter_context(Rollup(lake))
        self._features = self._open.enter_context(FeatureBuilder(lake))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open.close()

    def catch_up(self, now: datetime) -> int:
        """Roll up, make features and score as of the time up to which the lake is complete; gives the number of scores written."""
        as_of = self._rollup.run(now).watermark
        self._features.build([as_of])
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
