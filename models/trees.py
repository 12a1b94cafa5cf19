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


@dataclass(frozen=True, kw_only=True)
class Growth:
    """How trees are grown."""

    rounds: int = 150
    patience: int = 30  # rounds without gain on left-out nodes after which growing stops
    learning_rate: float = 0.1
    leaves: int = 7
    min_rows_in_leaf: int = 20  # few, so that rare and telling features count; shrinkage holds the rest
    features_per_tree: float = 0.4
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
            "num_threads": 1,  # trees grow side by side instead: threads within one wait for each other, worst on busy cores
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }


@dataclass(frozen=True)
class Target:
    """What trees are to learn: which rows failed, at which rate on the whole, and how many events speak for that rate in a leaf."""

    failed: NDArray[np.bool_]
    base_rate_per_h: float
    shrinkage: float


class Grove:
    """Rows binned once, for any number of targets on them; growing changes nothing, so threads may share it."""

    def __init__(self, matrix: Matrix, names: Sequence[str], weight: Floats, exposure_h: Floats, growth: Growth) -> None:
        self._growth = growth
        self._weight, self._log_exposure, self._all = weight, np.log(exposure_h), np.arange(len(matrix))
        self._data = lgb.Dataset(
            matrix,
            label=np.zeros(len(matrix), dtype=np.float32),
            weight=weight.astype(np.float32),
            feature_name=list(names),
            params=growth.parameters(0.0),
            free_raw_data=False,
        ).construct()

    def grow(self, target: Target, rounds: int) -> str:
        """Grow on all rows; gives LightGBM's text."""
        booster = lgb.train(self._growth.parameters(target.shrinkage), self._aimed(target, self._all), num_boost_round=rounds)
        return str(booster.model_to_string())

    def grow_and_watch(self, target: Target, train: Rows, watch: Rows) -> tuple[str, Floats]:
        """Grow on some rows; gives the text and the summed Poisson loss of the others after 0, 1, 2, ... rounds.

        Growing stops once the loss has not fallen for `patience` rounds.
        """
        curve: dict[str, dict[str, list[float]]] = {}
        booster = lgb.train(
            self._growth.parameters(target.shrinkage) | {"metric": "poisson"},
            self._aimed(target, train),
            num_boost_round=self._growth.rounds,
            valid_sets=[self._aimed(target, watch)],
            valid_names=["watch"],
            callbacks=[lgb.record_evaluation(curve), lgb.early_stopping(self._growth.patience, verbose=False)],
        )
        weight = self._weight[watch]
        score = self._log_exposure[watch] + np.log(target.base_rate_per_h)
        start = (weight * (np.exp(score) - target.failed[watch] * score)).sum()
        losses = np.asarray(curve["watch"]["poisson"]) * weight.sum()
        return str(booster.model_to_string(num_iteration=-1)), np.concatenate([[start], losses])

    def _aimed(self, target: Target, rows: Rows) -> lgb.Dataset:
        data = self._data.subset(rows.tolist()).construct()
        data.set_label(target.failed[rows].astype(np.float32))
        data.set_init_score(self._log_exposure[rows] + np.log(target.base_rate_per_h))
        return data


class Trees:
    """Grown trees; gives the log of the rate over the base rate."""

    def __init__(self, text: str) -> None:
        try:
            self._booster = lgb.Booster(model_str=text)
        except lgb.basic.LightGBMError as error:
            raise ModelRefused(f"LightGBM {lgb.__version__} cannot read these trees: {error}") from error

    @property
    def features(self) -> tuple[str, ...]:
        """Name the columns that the trees expect."""
        return tuple(self._booster.feature_name())

    def log_ratio(self, matrix: Matrix, rounds: int | None = None) -> Floats:
        """Predict log(λ / base rate), by the first `rounds` trees where given."""
        raw = self._booster.predict(matrix, raw_score=True, num_threads=1, num_iteration=rounds)
        return np.asarray(raw, dtype=float)

    def contributions(self, matrix: Matrix) -> Floats:
        """Give each feature's contribution to log λ per row (SHAP values; slow, so only for few rows)."""
        given = self._booster.predict(matrix, pred_contrib=True, num_threads=1)
        return np.asarray(given, dtype=float)[:, :-1]
