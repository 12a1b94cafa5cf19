"""Boosted trees for Poisson rates with exposure; the one door to LightGBM.

A person-period row with exposure e and 0/1 end y has Poisson mean λe. LightGBM starts from init_score = log e + log(base rate) and
learns log(λ / base rate); `predict(raw_score=True)` leaves the init_score out, so log λ per hour = raw + log(base rate). The base rate
belongs into the offset: trees that must walk there from zero are still far off after twenty rounds. Same rows and settings give the
same trees, bit by bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from ingest.errors import ModelRefused
from models.survival import Floats

Matrix = NDArray[np.float32]
Rows = NDArray[np.int64]
_WORTH_THREADS = 20_000  # rows; below that waiting for each other costs more than it saves


@dataclass(frozen=True, kw_only=True)
class Growth:
    """How trees are grown."""

    rounds: int = 200
    learning_rate: float = 0.06
    leaves: int = 15
    min_rows_in_leaf: int = 100
    features_per_tree: float = 0.7
    threads: int = 2
    seed: int = 0

    def parameters(self, shrinkage: float) -> dict[str, object]:
        """Give LightGBM's parameters; in every leaf `shrinkage` expected events speak for the base rate."""
        return {
            "objective": "poisson",
            "learning_rate": self.learning_rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": self.min_rows_in_leaf,
            "lambda_l2": shrinkage,
            "feature_fraction": self.features_per_tree,
            "seed": self.seed,
            "num_threads": self.threads,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }


class Grove:
    """Rows binned once, for any number of targets on them."""

    def __init__(self, matrix: Matrix, names: Sequence[str], weight: Floats, exposure_h: Floats, growth: Growth) -> None:
        self._growth = growth
        self._weight, self._log_exposure = weight, np.log(exposure_h)
        self._data = lgb.Dataset(
            matrix,
            label=np.zeros(len(matrix), dtype=np.float32),
            weight=weight.astype(np.float32),
            init_score=self._log_exposure,
            feature_name=list(names),
            params=growth.parameters(0.0),
            free_raw_data=False,
        ).construct()

    def aim(self, failed: NDArray[np.bool_], base_rate_per_h: float) -> None:
        """Set what the next trees are to learn."""
        self._data.set_label(failed.astype(np.float32))
        self._data.set_init_score(self._log_exposure + np.log(base_rate_per_h))

    def grow(self, rounds: int, shrinkage: float) -> str:
        """Grow on all rows; gives LightGBM's text."""
        booster = lgb.train(self._growth.parameters(shrinkage), self._data, num_boost_round=rounds)
        return str(booster.model_to_string())

    def grow_and_watch(self, train: Rows, watch: Rows, shrinkage: float) -> tuple[str, Floats]:
        """Grow on some rows; gives the text and the summed Poisson loss of the others after 0, 1, 2, ... rounds."""
        curve: dict[str, dict[str, list[float]]] = {}
        watched = self._data.subset(watch.tolist())
        booster = lgb.train(
            self._growth.parameters(shrinkage) | {"metric": "poisson"},
            self._data.subset(train.tolist()),
            num_boost_round=self._growth.rounds,
            valid_sets=[watched],
            valid_names=["watch"],
            callbacks=[lgb.record_evaluation(curve)],
        )
        mean_loss = np.asarray(curve["watch"]["poisson"]) if curve else np.zeros(0)
        weight = self._weight[watch]
        score = np.asarray(self._data.get_init_score())[watch]
        label = np.asarray(self._data.get_label())[watch]
        start = (weight * (np.exp(score) - label * score)).sum()
        return str(booster.model_to_string()), np.concatenate([[start], mean_loss * weight.sum()])


class Trees:
    """Grown trees; gives the log of the rate over the base rate."""

    def __init__(self, text: str, threads: int) -> None:
        try:
            self._booster = lgb.Booster(model_str=text)
        except lgb.basic.LightGBMError as error:
            raise ModelRefused(f"LightGBM {lgb.__version__} cannot read these trees: {error}") from error
        self._threads = threads

    @property
    def features(self) -> tuple[str, ...]:
        """Name the columns that the trees expect."""
        return tuple(self._booster.feature_name())

    def log_ratio(self, matrix: Matrix, rounds: int | None = None) -> Floats:
        """Predict log(λ / base rate), by the first `rounds` trees where given."""
        threads = self._threads if len(matrix) > _WORTH_THREADS else 1
        raw = self._booster.predict(matrix, raw_score=True, num_threads=threads, num_iteration=rounds)
        return np.asarray(raw, dtype=float)

    def contributions(self, matrix: Matrix) -> Floats:
        """Give each feature's contribution to log λ per row (SHAP values; slow, so only for few rows)."""
        given = self._booster.predict(matrix, pred_contrib=True, num_threads=1)
        return np.asarray(given, dtype=float)[:, :-1]
