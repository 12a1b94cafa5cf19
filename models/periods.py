"""From landmarks and episodes to person-period rows: who was at risk, for how long in which horizon bin, and who failed.

A landmark is a unit as of a time; it is at risk within the episode that holds that time. Its time at risk ends with the episode or
at the cutoff, whichever is first, and an end that was not yet known at the cutoff is no failure: nothing after the cutoff leaks into
a training row. Each landmark stands for the time until the unit's next one, so denser sampling before failures biases no rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import selectors

from features.schema import EPISODES, GPU_FEATURES, NODE_FEATURES
from ingest.lake import Lake
from ingest.tables import Table
from models.survival import Floats

Scope = Literal["gpu", "node"]
UNKNOWN_MODE = "unknown"
_REMOVED = ("removed", "drained_by_us", "maintenance", "decommissioned")
_SAME_INCIDENT_H = 1 / 60  # a node's episode may end a moment before the failure of the part that ended it
_TABLE: dict[str, tuple[Table, str]] = {"gpu": (GPU_FEATURES, "gpu_uuid"), "node": (NODE_FEATURES, "node")}


def read_landmarks(lake: Lake, scope: Scope, since: datetime | None = None, until: datetime | None = None) -> pl.DataFrame:
    """Read the feature rows of a scope as columns node, unit, as_of and one per feature, sorted by unit and time."""
    table, unit = _TABLE[scope]
    features = [column.name for column in table.own_columns if column.name not in ("as_of", "node", "gpu_uuid")]
    with lake.reading() as connection:
        lake.attach(connection, table, since, until)
        rows = as_frame(connection.table(table.name).to_arrow_table())
    rows = rows.select("node", pl.col(unit).alias("unit"), "as_of", *features)
    within = pl.lit(value=True)
    if since is not None:
        within &= pl.col("as_of") >= since
    if until is not None:
        within &= pl.col("as_of") <= until
    return rows.filter(within).unique(["unit", "as_of"], keep="last").sort("unit", "as_of")


def as_frame(rows: object) -> pl.DataFrame:
    """Turn what DuckDB gives into a Polars frame; DuckDB tells times in the machine's zone, here they are UTC."""
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame.with_columns(selectors.datetime(time_zone="*").dt.convert_time_zone("UTC"))


def read_episodes(lake: Lake, now: datetime) -> pl.DataFrame:
    """Read the newest labels made by `now`, sorted by scope, unit and start."""
    with lake.reading() as connection:
        lake.attach(connection, EPISODES)
        rows = as_frame(connection.table(EPISODES.name).to_arrow_table())
    rows = rows.filter(pl.col("labelled_at") <= now)
    newest = rows.filter(pl.col("labelled_at") == pl.col("labelled_at").max())
    return newest.drop("origin", "seq", "date").sort("scope", "unit", "started_at")


def at_risk(landmarks: pl.DataFrame, episodes: pl.DataFrame, until: datetime) -> pl.DataFrame:
    """Keep the landmarks before `until` that lie in an episode, with their follow-up as known at `until`.

    Adds `followed_h` (time at risk seen), `ended_by` (`cutoff` where the episode outlives it), `failed_as` (the mode of a failure
    that was known by then, else null), `failure` (number of that failure) and `weight` (time that the landmark stands for, relative
    to the usual spacing).
    """
    spans = (
        episodes.sort("started_at")
        .with_row_index("failure")
        .select("unit", "started_at", "ended_at", "ended_by", "mode", "known_at", pl.col("failure").cast(pl.Int64))
    )
    rows = (
        landmarks.filter(pl.col("as_of") < until)
        .sort("as_of")
        .join_asof(spans, left_on="as_of", right_on="started_at", by="unit", check_sortedness=False)
        .filter(pl.col("as_of") < pl.col("ended_at"))
        .sort("unit", "as_of")
    )
    is_cut = pl.col("ended_at") > until
    has_failed = (pl.col("ended_by") == "failure") & ~is_cut & (pl.col("known_at") <= until)
    return rows.with_columns(
        followed_h=_hours(pl.min_horizontal("ended_at", pl.lit(until)) - pl.col("as_of")),
        ended_by=pl.when(is_cut).then(pl.lit("cutoff")).otherwise(pl.col("ended_by")),
        failed_as=pl.when(has_failed).then(pl.col("mode").fill_null(UNKNOWN_MODE)),
        failure=pl.when(has_failed).then(pl.col("failure")),
        weight=_natural_weight(),
    ).drop("started_at", "ended_at", "mode", "known_at")


def _hours(duration: pl.Expr) -> pl.Expr:
    return duration.dt.total_microseconds() / 3.6e9


def _natural_weight() -> pl.Expr:
    """Time to the unit's next landmark over the usual spacing, at most 1: extra landmarks share the time they split."""
    gap = (pl.col("as_of").shift(-1) - pl.col("as_of")).over("unit")
    usual = gap.median().fill_null(pl.duration(hours=1))
    share = gap.dt.total_microseconds() / usual.dt.total_microseconds()
    return share.clip(upper_bound=1.0).fill_null(1.0)


@dataclass(frozen=True)
class Periods:
    """Person-period rows, column by column: row `landmark[i]` spent `exposure_h[i]` hours in bin `bin[i]` and failed or not."""

    landmark: NDArray[np.int64]
    bin: NDArray[np.int64]
    exposure_h: Floats
    failed: NDArray[np.bool_]
    weight: Floats

    def take(self, kept: NDArray[np.bool_], weight: Floats) -> Periods:
        """Keep some rows; `weight` has one for every row there was."""
        return Periods(self.landmark[kept], self.bin[kept], self.exposure_h[kept], self.failed[kept], weight[kept])


def expand(rows: pl.DataFrame, horizons_h: Sequence[float]) -> Periods:
    """Expand landmarks at risk into one row per horizon bin they spent time in."""
    followed = rows["followed_h"].to_numpy()
    has_failed = rows["failed_as"].is_not_null().to_numpy()
    edges = np.concatenate([[0.0], np.asarray(horizons_h, dtype=float)])
    exposure = np.clip(followed[:, None], edges[:-1], edges[1:]) - edges[:-1]
    failed = has_failed[:, None] & (edges[:-1] < followed[:, None]) & (followed[:, None] <= edges[1:])
    landmark, in_bin = np.nonzero(exposure > 0)
    weight = rows["weight"].to_numpy()[landmark]
    return Periods(landmark, in_bin, exposure[landmark, in_bin], failed[landmark, in_bin], weight)


def count_failures_once(periods: Periods, rows: pl.DataFrame, horizons_h: Sequence[float]) -> Periods:
    """Weight each bin by landmark spacing over bin width, at most 1, so that a failure counts about once in every bin.

    Without it a week-long bin holds a failure as often as there are landmarks in a week, and drowns what the first hours say. Hazards
    stay unbiased: the weight depends on the bin alone.
    """
    widths = np.diff(np.concatenate([[0.0], np.asarray(horizons_h, dtype=float)]))
    weight = periods.weight * np.minimum(1.0, spacing_h(rows) / widths)[periods.bin]
    return Periods(periods.landmark, periods.bin, periods.exposure_h, periods.failed, weight)


def spacing_h(rows: pl.DataFrame) -> float:
    """Give the usual time between a unit's landmarks in hours; an hour where there is one landmark only."""
    gap = (pl.col("as_of").shift(-1) - pl.col("as_of")).over("unit")
    return float(rows.select(_hours(gap).median()).item() or 1.0)


def sample_negatives(periods: Periods, share: float, rng: np.random.Generator) -> Periods:
    """Keep every row that failed and a share of the others, at weight 1/share: the weighted rates stay unbiased."""
    if not 0 < share <= 1:
        raise AssertionError(f"BUG: a share of negatives lies in (0, 1], got {share}")
    kept = periods.failed | (rng.random(len(periods.bin)) < share)
    return periods.take(kept, np.where(periods.failed, periods.weight, periods.weight / share))


def with_part_failures(node_rows: pl.DataFrame, episodes: pl.DataFrame, until: datetime) -> pl.DataFrame:
    """Let a node's landmarks fail with the first failure of any of its parts within their follow-up, known at `until`."""
    ends = (
        episodes.filter((pl.col("ended_by") == "failure") & (pl.col("ended_at") <= until) & (pl.col("known_at") <= until))
        .sort("ended_at")
        .with_row_index("part_failure")
        .select("node", "ended_at", part_mode=pl.col("mode").fill_null(UNKNOWN_MODE), part_failure=pl.col("part_failure").cast(pl.Int64))
    )
    rows = node_rows.sort("as_of").join_asof(
        ends, left_on="as_of", right_on="ended_at", by="node", strategy="forward", allow_exact_matches=False, check_sortedness=False
    )
    to_failure = _hours(pl.col("ended_at") - pl.col("as_of"))
    fails = to_failure <= pl.col("followed_h") + _SAME_INCIDENT_H
    return (
        rows.with_columns(
            followed_h=pl.when(fails).then(to_failure).otherwise(pl.col("followed_h")),
            ended_by=pl.when(fails).then(pl.lit("failure")).otherwise(pl.col("ended_by")),
            failed_as=pl.when(fails).then(pl.col("part_mode")).otherwise(pl.col("failed_as")),
            failure=pl.when(fails).then(pl.col("part_failure")),
        )
        .drop("ended_at", "part_mode", "part_failure")
        .sort("unit", "as_of")
    )


def node_folds(nodes: pl.Series, folds: int, seed: int) -> NDArray[np.int64]:
    """Assign each row to a fold so that a node is in one fold only."""
    names = nodes.unique().sort()
    order = np.random.default_rng(seed).permutation(len(names)) % folds
    fold: NDArray[np.int64] = order[names.search_sorted(nodes).to_numpy()].astype(np.int64)
    return fold


@dataclass(frozen=True)
class Outcomes:
    """What is known of each landmark at one horizon."""

    is_known: NDArray[np.bool_]  # followed to the horizon, or failed before it
    failed: NDArray[np.bool_]
    is_removed: NDArray[np.bool_]  # taken out of service within the horizon before it could fail


def outcomes(rows: pl.DataFrame, horizon_h: float) -> Outcomes:
    """Tell which landmarks failed within the horizon, which were followed that long, and which were removed before."""
    followed = rows["followed_h"].to_numpy()
    failed = rows["failed_as"].is_not_null().to_numpy() & (followed <= horizon_h)
    is_known = failed | (followed >= horizon_h)
    return Outcomes(is_known, failed, ~is_known & rows["ended_by"].is_in(_REMOVED).to_numpy())
