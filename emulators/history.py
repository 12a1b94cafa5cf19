"""Months of an emulated fleet's life written into a lake in bulk: the rows that the collectors would have written, in a minute.

The same seed gives the same rows; the live devices (`emulators.fleet`) go on from the same world. The truth goes into a file beside the
lake, never into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from emulators.history_chassis import chassis_readings
from emulators.history_records import all_records, rows_of
from emulators.history_samples import SampleHistory
from emulators.layout import DAY_NS
from emulators.world import World
from ingest.lake import Lake
from ingest.schema import CHASSIS_READINGS, GPU_SAMPLES, LINK_SAMPLES
from ingest.tables import Table

DAYS_PER_COMMIT = 2
RARE_DAYS_PER_COMMIT = 30  # links and chassis are small


def write_history(world: World, lake: Lake, *, until_ns: int, progress: Callable[[float], None] | None = None) -> None:
    """Write everything from the start of the world until `until_ns`; `progress` is told the share done.

    One thread makes rows while another stores them; at most three commits' worth of rows are in memory.
    """
    start_ns = world.spec.start_ns
    with ThreadPoolExecutor(max_workers=1) as writer:
        waiting: list[Future[bool]] = []
        for table, rows, until in _commits(world, until_ns):
            waiting.append(writer.submit(lake.append, table, rows))
            if len(waiting) > 1:
                waiting.pop(0).result()
            if progress:
                progress((until - start_ns) / (until_ns - start_ns))
        for append in waiting:
            append.result()
    if progress:
        progress(1.0)


def _commits(world: World, until_ns: int) -> Iterator[tuple[Table, pa.Table, int]]:
    """Make the rows of one commit after another: what is read often last, since it takes longest."""
    samples, start_ns = SampleHistory(world), world.spec.start_ns
    for table, records in all_records(world, until_ns):
        yield table, rows_of(table, list(records)), start_ns
    for from_ns, to_ns in _spans(start_ns, until_ns, RARE_DAYS_PER_COMMIT):
        yield CHASSIS_READINGS, chassis_readings(world, from_ns, to_ns), start_ns
        yield LINK_SAMPLES, samples.link_samples(from_ns, to_ns), start_ns
    for from_ns, to_ns in _spans(start_ns, until_ns, DAYS_PER_COMMIT):
        parts = chain.from_iterable(samples.gpu_samples(at, min(at + DAY_NS, to_ns)) for at in range(from_ns, to_ns, DAY_NS))
        yield GPU_SAMPLES, pa.concat_tables(parts, promote_options="permissive"), to_ns


def _spans(start_ns: int, until_ns: int, days: int) -> Iterator[tuple[int, int]]:
    for from_ns in range(start_ns, until_ns, days * DAY_NS):
        yield from_ns, min(from_ns + days * DAY_NS, until_ns)


def write_truth(world: World, path: Path) -> None:
    """Write when each unit really failed, of what, and whether it could be seen coming, as one Parquet file."""
    stamp = pa.timestamp("us", tz="UTC")
    columns: dict[str, list[object]] = {"unit": [], "scope": [], "node": [], "mode": [], "visible": []}
    times: dict[str, list[int | None]] = {"onset_at": [], "failed_at": [], "repaired_at": []}
    for row in world.truth_rows():
        for name, values in columns.items():
            values.append(row[name])
        for name, stamps in times.items():
            at_ns = row[f"{name}_ns"]
            stamps.append(None if at_ns is None else at_ns // 1000)
    arrays = {name: pa.array(values) for name, values in columns.items()} | {name: pa.array(v, stamp) for name, v in times.items()}
    pq.write_table(pa.table(arrays), path)
