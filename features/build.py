"""Compute features as of landmarks from roll-ups and records, point in time by both clocks.

One code path serves training (many landmarks) and scoring (one): the same queries over the same buckets, so both give equal values.
What was observed or received after a landmark changes none of its rows. One DuckDB thread: float sums then come out the same in every
run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from features import engine
from features.buckets import GPU_ROLLUPS_1D, GPU_ROLLUPS_1H, GPU_ROLLUPS_5M, NODE_ROLLUPS_1H
from features.metrics import FEATURE_ROWS, FEATURE_SECONDS
from features.modes import MODE_OF_XID, NOT_HARDWARE
from features.schema import GPU_FEATURES, NODE_FEATURES
from ingest.lake import Lake
from ingest.schema import EVENTS, INVENTORY, JOBS, OUTCOMES, TOPOLOGY
from ingest.tables import Table

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
ROWS_PER_CHUNK = 150_000
_RECORDS = (EVENTS, INVENTORY, OUTCOMES, TOPOLOGY, JOBS)
_OF_RECORDS = ("seats", "failure_signs", "failures", "boards", "event_bursts", "repairs", "job_ends", "records")
_PRECURSORS = ("ecc_trend", "link_retrains", "throttling", "thermal_drift", "power", "pcie", "missingness")
# How far back from a landmark each tier of buckets is read: hours to midnight at the far end of the day before (spans.sql).
_REACH: tuple[tuple[Table, timedelta], ...] = ((GPU_ROLLUPS_5M, 25 * HOUR), (GPU_ROLLUPS_1H, 49 * HOUR), (GPU_ROLLUPS_1D, 32 * DAY))
_NODE_REACH = 8 * DAY
Frame = tuple[pa.Table, pa.Table]


@dataclass(frozen=True)
class FeatureReport:
    """How many rows were appended for how many landmarks."""

    landmarks: int
    gpu_rows: int
    node_rows: int


def build_features(lake: Lake, as_of: Sequence[datetime], *, progress: Callable[[float], None] | None = None) -> FeatureReport:
    """Append the features of every unit at every landmark, with the defaults of `FeatureBuilder`."""
    with FeatureBuilder(lake) as builder:
        return builder.build(as_of, progress)


def compute(lake: Lake, as_of: Sequence[datetime]) -> Frame:
    """Compute the rows of `gpu_features` and `node_features` without writing them."""
    with FeatureBuilder(lake) as builder:
        return builder.compute(as_of)


class FeatureBuilder:
    """Features of one lake; records that have not changed since the last call are not read again.

    Landmarks count to the five minutes; off the hour they need the five-minute buckets, which the roll-up makes for the last days only.
    """

    def __init__(self, lake: Lake, *, threads: int | None = 1, memory_limit: str = "1500MB", rows_per_chunk: int = ROWS_PER_CHUNK) -> None:
        self.lake = lake
        self._rows_per_chunk = rows_per_chunk
        self._open = ExitStack()
        self._connection = self._open.enter_context(engine.connect(threads, memory_limit))
        self._connection.register("xid_modes", pa.table({"code": list(MODE_OF_XID), "mode": list(MODE_OF_XID.values())}))
        self._connection.register("not_hardware", pa.table({"mode": sorted(NOT_HARDWARE)}))
        self._read: dict[str, int | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open.close()

    @FEATURE_SECONDS.time()
    def build(self, as_of: Sequence[datetime], progress: Callable[[float], None] | None = None) -> FeatureReport:
        """Append `gpu_features` and `node_features` for every unit at every landmark; what the lake has already is left as it is."""
        built = {table.name: self._built(table, as_of) for table in (GPU_FEATURES, NODE_FEATURES)}
        appended = dict.fromkeys(built, 0)
        for done, frame in self._frames([at for at in as_of if any(at not in landmarks for landmarks in built.values())]):
            for table, rows in zip((GPU_FEATURES, NODE_FEATURES), frame, strict=True):
                fresh = rows.filter(pc.invert(pc.is_in(rows["as_of"], pa.array(built[table.name], rows.schema.field("as_of").type))))
                if fresh.num_rows:
                    self.lake.append(table, fresh)
                FEATURE_ROWS.labels(table.name).inc(fresh.num_rows)
                appended[table.name] += fresh.num_rows
            if progress:
                progress(done)
        return FeatureReport(len(set(as_of)), *appended.values())

    def compute(self, as_of: Sequence[datetime]) -> Frame:
        """Compute the same rows without writing them."""
        frames = [frame for _, frame in self._frames(as_of)]
        return pa.concat_tables([gpus for gpus, _ in frames]), pa.concat_tables([nodes for _, nodes in frames])

    def _built(self, table: Table, as_of: Sequence[datetime]) -> set[datetime]:
        """Tell of which landmarks the lake has rows: a pass that died may have written some."""
        if not as_of:
            return set()
        with self.lake.reading(self._connection):
            self.lake.attach(self._connection, table, min(as_of), max(as_of) + timedelta(microseconds=1), by_time=True)
            return {at for (at,) in self._connection.execute(f"select distinct as_of from main.{table.name}").fetchall()}

    def _frames(self, as_of: Sequence[datetime]) -> Iterator[tuple[float, Frame]]:
        """Yield the share done and the rows of so many landmarks at a time that memory stays bounded."""
        landmarks = sorted(set(as_of))
        if not landmarks:
            return
        with self.lake.reading(self._connection):
            self._read_records()
        units = engine.value(self._connection, "select count(*) from boards")
        size = max(1, self._rows_per_chunk // max(units, 400))
        for first in range(0, len(landmarks), size):
            with self.lake.reading(self._connection):
                frame = self._frame(landmarks[first : first + size])
            yield min(1.0, (first + size) / len(landmarks)), frame

    def _read_records(self) -> None:
        """Have the tables of what happened and where everything is; they are small, and every landmark looks at all of its past."""
        versions: dict[str, int | None] = {}
        for table in _RECORDS:
            version = self.lake.version(table)
            if table.name in self._read and self._read[table.name] == version:
                continue
            self.lake.attach(self._connection, table)
            self._connection.execute(f"create or replace temp table {table.name} as from main.{table.name}")
            versions[table.name] = version
        for name in _OF_RECORDS if versions else ():
            engine.make_table(self._connection, name)
        self._read |= versions  # last: a table that cannot be read leaves them all to be read again

    def _frame(self, landmarks: Sequence[datetime]) -> Frame:
        self._read_buckets(landmarks)
        self._make("spans", "window_sums", "units", "places", "nodes", *_PRECURSORS)
        engine.make_table(self._connection, "subjects", source="gpu_subjects")
        self._make("history", "domain_rates", "gpu_features")
        engine.make_table(self._connection, "subjects", source="node_subjects")
        self._make("chassis", "node_history", "domain_rates", "node_features")
        defects = engine.run(self._connection, "checks").fetchall()
        if defects:
            raise AssertionError(f"BUG: {len(defects)} defects in the feature frame, the first: {defects[0]}")
        return self._connection.sql("from gpu_features").to_arrow_table(), self._connection.sql("from node_features").to_arrow_table()

    def _read_buckets(self, landmarks: Sequence[datetime]) -> None:
        self._connection.register("landmarks", pa.table({"as_of": pa.array(landmarks, pa.timestamp("us", tz="UTC"))}))
        for table, reach in (*_REACH, (NODE_ROLLUPS_1H, _NODE_REACH)):
            self.lake.attach(self._connection, table, landmarks[0] - reach, landmarks[-1], by_time=True)

    def _make(self, *names: str) -> None:
        for name in names:
            engine.make_table(self._connection, name)
