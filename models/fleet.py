"""The fleet as of a time: each unit's newest features, and how each node's telemetry is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import duckdb
import numpy as np
import polars as pl
from numpy.typing import NDArray

from features.schema import GPU_FEATURES, NODE_FEATURES
from ingest.lake import Lake
from ingest.schema import SOURCE_STATES
from ingest.tables import Table
from models.periods import as_frame
from models.survival import Floats

AGE_FEATURE = "telemetry_age_s"
_SPEAKING = ("ok", "partial")


@dataclass(frozen=True)
class Fleet:
    """Newest feature rows per scope with columns node, unit, as_of and features; per node the age of telemetry and silent sources."""

    nodes: tuple[str, ...]  # sorted; node indices refer to it
    gpu_rows: pl.DataFrame
    node_rows: pl.DataFrame
    telemetry_age_s: Floats  # NaN where unknown
    missing_sources: tuple[tuple[str, ...], ...]

    def owner_of(self, rows: pl.DataFrame) -> NDArray[np.int64]:
        """Give each row's node as an index into `nodes`."""
        names = pl.Series(self.nodes, dtype=pl.String)
        return names.search_sorted(rows["node"]).to_numpy().astype(np.int64) if len(rows) else np.zeros(0, dtype=np.int64)


def read_fleet(lake: Lake, as_of: datetime, nodes: Sequence[str] | None = None, *, oldest_h: float = 1.0) -> Fleet:
    """Read the newest features of each unit as of a time, not older than `oldest_h`."""
    since = as_of - timedelta(hours=oldest_h)
    with lake.reading() as connection:
        gpu_rows = _newest(connection, lake, GPU_FEATURES, since=since, as_of=as_of, nodes=nodes)
        node_rows = _newest(connection, lake, NODE_FEATURES, since=since, as_of=as_of, nodes=nodes)
        silent = _silent_sources(connection, lake, as_of)
    return fleet_of(gpu_rows, node_rows, silent, as_of)


def fleet_of(gpu_rows: pl.DataFrame, node_rows: pl.DataFrame, silent: dict[str, tuple[str, ...]], as_of: datetime) -> Fleet:
    """Put feature rows together to a fleet; telemetry is as old as the freshest of a node's units says, plus the landmark's age."""
    names = tuple(sorted({*gpu_rows["node"].unique(), *node_rows["node"].unique()}))
    ages: dict[str, float] = {}
    for rows in (gpu_rows, node_rows):
        if AGE_FEATURE in rows.columns:
            told = rows.select("node", age=pl.col(AGE_FEATURE) + (pl.lit(as_of) - pl.col("as_of")).dt.total_seconds())
            for node, age in told.group_by("node").agg(pl.col("age").min()).iter_rows():
                if age is not None:
                    ages[node] = min(age, ages.get(node, age))
    return Fleet(
        nodes=names,
        gpu_rows=gpu_rows,
        node_rows=node_rows,
        telemetry_age_s=np.array([ages.get(name, np.nan) for name in names]),
        missing_sources=tuple(silent.get(name, ()) for name in names),
    )


def _newest(
    connection: duckdb.DuckDBPyConnection, lake: Lake, table: Table, *, since: datetime, as_of: datetime, nodes: Sequence[str] | None
) -> pl.DataFrame:
    lake.attach(connection, table, since, as_of)
    unit = "gpu_uuid" if table is GPU_FEATURES else "node"
    features = [column.name for column in table.own_columns if column.name not in ("as_of", "node", "gpu_uuid")]
    within = f"select * from {table.name} where as_of > $1 and as_of <= $2"
    rows = as_frame(connection.sql(within, params=[since, as_of]).to_arrow_table())
    if nodes is not None:
        rows = rows.filter(pl.col("node").is_in(list(nodes)))
    newest = rows.sort("as_of").unique([unit], keep="last", maintain_order=True)
    return newest.select("node", pl.col(unit).alias("unit"), "as_of", *features).sort("node", "unit")


def _silent_sources(connection: duckdb.DuckDBPyConnection, lake: Lake, as_of: datetime) -> dict[str, tuple[str, ...]]:
    """Name per node the sources whose newest state of the last day is not one in which they speak."""
    lake.attach(connection, SOURCE_STATES, as_of - timedelta(days=1), as_of)
    query = "select node, source, observed_at, state from source_states where observed_at <= $1 and received_at <= $1"
    states = as_frame(connection.sql(query, params=[as_of]).to_arrow_table())
    newest = states.sort("observed_at").unique(["node", "source"], keep="last")
    silent = newest.filter(~pl.col("state").is_in(_SPEAKING)).group_by("node").agg(pl.col("source").sort())
    return {node: tuple(sources) for node, sources in silent.iter_rows()}
