"""The recurring analysis of a running fleet: roll up what is closed, make features as of a landmark, score.

Landmarks are the multiples of `score.every_s` in fleet time. One is due when the lake is complete up to it, so that what is scored does
not depend on how fast the machine is or when a pass began; a machine that is behind goes on with the newest.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self

import structlog
from prometheus_client import Counter

from features.build import FeatureBuilder
from features.rollup import FINE, Rollup
from forewarn.settings import Config
from ingest.clock import Clock, datetime_of
from ingest.errors import ForewarnError, ModelRefused
from ingest.lake import AppTransaction, Lake
from models.schema import SCORES
from models.score import Scoring, score
from models.store import Store

if TYPE_CHECKING:
    from models.model import Model

_log = structlog.get_logger()
ANALYSIS_FAILURES = Counter("forewarn_analysis_failures", "Analysis passes that failed and were tried again", ["error"])
MODEL_NAME = "hazard"
_APP = "score"
_LOOKS_PER_LANDMARK = 20  # how often it is asked whether the lake is complete up to the next landmark
_SHORTEST_PAUSE_S = 0.3  # wall time between two such looks under a fast clock: each reads the lake
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def scored_until(lake: Lake) -> datetime | None:
    """Tell the newest landmark of which the recurring analysis has written scores."""
    committed = lake.committed(SCORES, _APP)
    return None if committed is None else datetime.fromtimestamp(committed, UTC)


class Analysis:
    """One fleet's analysis; keeps what it has read from pass to pass, and the model where a newer one is refused."""

    def __init__(self, config: Config, lake: Lake) -> None:
        self.config = config
        self.lake = lake
        self.model: Model | None = None
        self.is_waiting = False
        self._every = timedelta(seconds=config.score.every_s)
        self._done_until = scored_until(lake) or _EPOCH
        self._open = ExitStack()
        self._rollup = self._open.enter_context(Rollup(lake))
        self._features = self._open.enter_context(FeatureBuilder(lake))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open.close()

    def run(self, clock: Clock, stop: threading.Event) -> None:
        """Keep up until `stop` is set; a pass that fails is counted and the next one tries."""
        pause_s = max(_SHORTEST_PAUSE_S, self._every.total_seconds() / _LOOKS_PER_LANDMARK / clock.scale)
        while not stop.is_set():
            try:
                self.keep_up(datetime_of(clock.now_ns()))
            except Exception as error:  # noqa: BLE001  # one pass that fails must not end the process
                ANALYSIS_FAILURES.labels(type(error).__name__).inc()
                is_told = isinstance(error, ForewarnError)  # its text names the thing and the mend: the way there says nothing more
                _log.error("analysis_failed", error=type(error).__name__, reason=str(error), exc_info=not is_told)
            stop.wait(pause_s)

    def keep_up(self, now: datetime) -> int:
        """Analyse as of the newest landmark that is due and not done; gives the number of scores written."""
        landmark = _floor(_floor(self._rollup.complete_until(now), self._every), FINE)
        if landmark <= self._done_until:
            return 0
        self._rollup.run(now)
        written = self._score(landmark, now, AppTransaction(_APP, int(landmark.timestamp())))
        self._done_until = landmark
        return written

    def catch_up(self, now: datetime) -> int:
        """Analyse once, as of the time up to which the lake is complete; gives the number of scores written."""
        return self._score(self._rollup.run(now).watermark, now)

    def _score(self, as_of: datetime, now: datetime, transaction: AppTransaction | None = None) -> int:
        """Score as of a landmark with the model in use; without one, say so once and write nothing."""
        self._features.build([as_of])
        try:
            self.model = Store(self.config.fleet.state_dir / "models", MODEL_NAME).refresh(self.model)
        except ModelRefused as error:
            if not self.is_waiting:
                _log.warning("no_model", why=str(error), mend="run forewarn train")
            self.is_waiting = True
            return 0
        scoring = Scoring(stale_after_s=self.config.score.stale_after_s)
        rows: int = score(self.lake, self.model, as_of=as_of, now=now, scoring=scoring, transaction=transaction).num_rows
        return rows


def _floor(at: datetime, width: timedelta) -> datetime:
    return at - (at - _EPOCH) % width
