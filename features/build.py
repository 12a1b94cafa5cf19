"""Compute features as of landmarks from roll-ups and records, point in time by both clocks.

One code path serves training (many landmarks) and scoring (one): the same queries over the same buckets, so both give equal values.
What was observed or received after a landmark changes none of its rows. One DuckDB thread for many landmarks: float sums then come out
the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from features import engine
from features.buckets import GPU_ROLLUPS_1D, GPU_ROLLUPS_1H, GPU_ROLLUPS_5M, NODE_ROLLUPS_1H
from features.engine import Connection
from features.metrics import FEATURE_ROWS, FEATURE_SECONDS
from features.modes import MODE_OF_XID, NOT_HARDWARE
from features.schema import GPU_FEATURES, NODE_FEATURES
from ingest.lake import Lake
from ingest.schema import EVENTS, INVENTORY, JOBS, OUTCOMES, TOPOLOGY
from ingest.tables import Table

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
_ROWS_PER_CHUNK = 150_000
_RECORDS = ("seats", "failure_signs", "failures", "boards", "event_bursts", "repairs", "job_ends", "records")
_PRECURSORS = ("ecc_trend", "link_retrains", "throttling", "thermal_drift", "power", "pcie", "missingness")
# How far each tier of buckets is read back from a landmark: hours reach to midnight at the far end of the day before.
_REACH: tuple[tuple[Table, timedelta], ...] = ((GPU_ROLLUPS_5M, 25 * HOUR), (GPU_ROLLUPS_1H, 2 * DAY), (GPU_ROLLUPS_1D, 32 * DAY))


@dataclass(frozen=True)
class FeatureReport:
    """How many rows were appended for how many landmarks."""

    landmarks: int
    gpu_rows: int
    node_rows: int


def build_features(
    lake: Lake,
    as_of: Sequence[datetime],
    *,
    append: bool = True,
    threads: int | None = 1,
    memory_limit: str = "1500MB",
    progress: Callable[[float], None] | None = None,
) -> FeatureReport:
    """Append `gpu_features` and `node_features` for every unit at every landmark.

    Landmarks count to the five minutes; off the hour they need the five-minute buckets, which the roll-up keeps for the last days only.
    """
    gpu_rows = node_rows = 0
    with FEATURE_SECONDS.time():
        for done, (gpus, nodes) in _frames(lake, as_of, threads, memory_limit):
            for table, rows in ((GPU_FEATURES, gpus), (NODE_FEATURES, nodes)):
                if append and rows.num_rows:
                    lake.append(table, rows)
                FEATURE_ROWS.labels(table.name).inc(rows.num_rows)
            gpu_rows += gpus.num_rows
            node_rows += nodes.num_rows
            if progress:
                progress(done)
    return FeatureReport(len(set(as_of)), gpu_rows, node_rows)


def compute(lake: Lake, as_of: Sequence[datetime], *, threads: int | None = 1, memory_limit: str = "1500MB") -> tuple[pa.Table, pa.Table]:
    """Compute the rows of `gpu_features` and `node_features` without writing them."""
    frames = [frame for _, frame in _frames(lake, as_of, threads, memory_limit)]
    return pa.concat_tables([gpus for gpus, _ in frames]), pa.concat_tables([nodes for _, nodes in frames])


Frame = tuple[pa.Table, pa.Table]


def _frames(lake: Lake, as_of: Sequence[datetime], threads: int | None, memory_limit: str) -> Iterator[tuple[float, Frame]]:
    """Yield the share done and the rows of so many landmarks at a time that memory stays bounded."""
    landmarks = sorted(set(as_of))
    if not landmarks:
        return
    with engine.connect(threads, memory_limit) as connection:
        _read_records(connection, lake, landmarks[0], landmarks[-1])
        units = engine.value(connection, "select count(*) from boards")
        size = max(1, _ROWS_PER_CHUNK // max(units, 400))
        for first in range(0, len(landmarks), size):
            chunk = landmarks[first : first + size]
            _read_buckets(connection, lake, chunk)
            yield min(1.0, (first + size) / len(landmarks)), _frame(connection, chunk)


def _read_records(connection: Connection, lake: Lake, since: datetime, until: datetime) -> None:
    """Make the tables of what happened and where everything is; they are small, and every landmark looks at all of its past."""
    lake.attach(connection, JOBS, since - 8 * DAY, until)
    for table in (EVENTS, INVENTORY, OUTCOMES, TOPOLOGY):
        lake.attach(connection, table, until=until)
        connection.execute(f"create or replace temp table {table.name} as from main.{table.name}")  # read the files once
    connection.register("xid_modes", pa.table({"code": list(MODE_OF_XID), "mode": list(MODE_OF_XID.values())}))
    connection.register("not_hardware", pa.table({"mode": sorted(NOT_HARDWARE)}))
    for name in _RECORDS:
        engine.make_table(connection, name)


def _read_buckets(connection: Connection, lake: Lake, landmarks: Sequence[datetime]) -> None:
    for table, reach in _REACH:
        lake.attach(connection, table, landmarks[0] - reach, landmarks[-1])
    lake.attach(connection, NODE_ROLLUPS_1H, landmarks[0] - 8 * DAY, landmarks[-1])


def _frame(connection: Connection, landmarks: Sequence[datetime]) -> Frame:
    connection.register("landmarks", pa.table({"as_of": pa.array(landmarks, pa.timestamp("us", tz="UTC"))}))
    for name in ("spans", "window_sums", "units", "places", "nodes", *_PRECURSORS):
        engine.make_table(connection, name)
    engine.make_table(connection, "subjects", source="gpu_subjects")
    for name in ("history", "domain_rates", "gpu_features"):
        engine.make_table(connection, name)
    engine.make_table(connection, "subjects", source="node_subjects")
    for name in ("chassis", "node_history", "domain_rates", "node_features"):
        engine.make_table(connection, name)
    defects = engine.run(connection, "checks").fetchall()
    if defects:
        raise AssertionError(f"BUG: {len(defects)} defects in the feature frame, the first: {defects[0]}")
    return connection.sql("from gpu_features").to_arrow_table(), connection.sql("from node_features").to_arrow_table()
