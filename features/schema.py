"""Every table and feature of the feature layer; the models know them from here alone.

A feature that cannot be computed is NULL, never zero: without telemetry, without peers or with too short a history.
"""

from __future__ import annotations

from typing import Annotated

from features.buckets import GPU_ROLLUPS_1D, GPU_ROLLUPS_1H, GPU_ROLLUPS_5M, NODE_ROLLUPS_1H
from features.catalogue import FEATURES, Feature
from ingest.tables import TIMESTAMP, Column, Means, Record, Table, table_of

__all__ = [
    "EPISODES",
    "FEATURES",
    "GPU_FEATURES",
    "GPU_ROLLUPS_1D",
    "GPU_ROLLUPS_1H",
    "GPU_ROLLUPS_5M",
    "NODE_FEATURES",
    "NODE_ROLLUPS_1H",
    "Episode",
    "Feature",
]


class Episode(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A span of time in which a unit was in service and could have failed, and how it ended (survival data)."""

    scope: Annotated[str, Means("gpu or node: which failure modes the episode is about")]
    unit: Annotated[str, Means("GPU UUID or node name")]
    node: Annotated[str, Means("node that carried the unit")]
    started_at_ns: Annotated[int, Means("start of exposure", "UTC")]
    ended_at_ns: Annotated[int, Means("end of exposure", "UTC")]
    ended_by: Annotated[str, Means("failure, data_end, removed, node_down, drained_by_us, maintenance, decommissioned")]
    mode: Annotated[str | None, Means("failure mode, where ended_by is failure")] = None
    confidence: Annotated[str | None, Means("confirmed (an outcome says so) or inferred (events only)")] = None
    past_failures: Annotated[int | None, Means("failures of the unit before this episode", "count")] = None
    known_at_ns: Annotated[int, Means("when the end was known; a training cut before it must not see it", "UTC")]
    labelled_at_ns: Annotated[int, Means("as of when the labels were made", "UTC")]


EPISODES = Table(
    "episodes",
    "At-risk episodes with their ends: the labels; always read whole (`date` is the first day of the year that an episode began in).",
    table_of(Episode, "episodes", "", ()).own_columns,
    ("scope", "unit", "started_at"),
    time="started_at",
    record=Episode,
    is_by_day=False,
)

_AS_OF = Column("as_of", TIMESTAMP, "UTC", "landmark: only rows observed and received by then were used", nullable=False)
_NODE = Column("node", "string", "", "node name", nullable=False)


def _feature_table(name: str, meaning: str, scope: str, keys: tuple[Column, ...]) -> Table:
    features = tuple(Column(f.name, "double", f.unit, f.meaning) for f in FEATURES if f.scope == scope)
    return Table(name, meaning, (_AS_OF, *keys, *features), (*(key.name for key in keys), "as_of"), time="as_of")


GPU_FEATURES = _feature_table(
    "gpu_features",
    "Features of a GPU as of a landmark.",
    "gpu",
    (_NODE, Column("gpu_uuid", "string", "", "identity of the GPU", nullable=False)),
)
NODE_FEATURES = _feature_table("node_features", "Features of a node as of a landmark.", "node", (_NODE,))
