"""Read one node's day and the fleet's last hour from a month of many small files, and from the same month compacted.

Both questions are asked as the product asks them: through the live files that the table's log names, with a handle that is already open.
Prints milliseconds of wall and CPU time from one run, and what opening the table costs; exits with 1 when a target is missed: one
node's day at least ten times as fast from the compacted month, the last hour no slower. `--commits N` is how many a day has.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from emulators.history_samples import SampleHistory
from emulators.layout import DAY_NS, WorldSpec
from emulators.world import World
from ingest.lake import Lake
from ingest.lake_care import compact, measure
from ingest.schema import GPU_SAMPLES

NODES, DAYS = 64, 30
ROUNDS = 7
NODE_TARGET = 10.0
NODE = "gpu007"
COLUMNS = "observed_at, gpu_uuid, temp_c, power_w, gpu_util_ratio, ecc_ce_volatile_total"
FLEET = (
    "select node, max(temp_c), avg(power_w), max(ecc_ce_volatile_total), count(*) from gpu_samples where observed_at > $since group by node"
)


class Cost(NamedTuple):
    """What one question took, milliseconds."""

    wall_ms: float
    cpu_ms: float


def fill(lake: Lake, commits: int) -> datetime:
    """Write a month of the emulated fleet, so many commits a day; give its end."""
    world = World(WorldSpec.show(seed=9, nodes=NODES, days=DAYS))
    for day in range(DAYS):
        start_ns = world.spec.start_ns + day * DAY_NS
        rows = pa.concat_tables(SampleHistory(world).gpu_samples(start_ns, start_ns + DAY_NS), promote_options="permissive")
        rows = rows.sort_by([("received_at", "ascending")])
        edges = np.linspace(0, len(rows), commits + 1).astype(int).tolist()
        for first, last in pairwise(edges):
            lake.append(GPU_SAMPLES, rows.slice(first, last - first))
    return datetime.fromtimestamp((world.spec.start_ns + DAYS * DAY_NS) / 1e9, UTC)


def node_day(lake: Lake, end: datetime) -> int:
    """Read one node's rows of a day in the middle of the month."""
    day = end - timedelta(days=DAYS // 2)
    with duckdb.connect() as connection:
        lake.attach(connection, GPU_SAMPLES, since=day, until=day + timedelta(hours=23, minutes=59))
        return len(connection.execute(f"select {COLUMNS} from gpu_samples where node = $node", {"node": NODE}).fetchall())


def last_hour(lake: Lake, end: datetime) -> int:
    """Summarise the last hour of all nodes."""
    since = end - timedelta(hours=1)
    with duckdb.connect() as connection:
        lake.attach(connection, GPU_SAMPLES, since=since, by_time=True)
        return sum(row[-1] for row in connection.execute(FLEET, {"since": since}).fetchall())


def ask(question: Callable[[], int]) -> tuple[int, Cost]:
    """Ask some times and give the rows and the median cost; the first time is not counted."""
    rows = question()
    costs = []
    for _ in range(ROUNDS):
        wall, cpu = time.perf_counter(), time.process_time()
        question()
        costs.append(Cost((time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3))
    return rows, Cost(*(statistics.median(values) for values in zip(*costs, strict=True)))


def questions(lake: Lake, end: datetime) -> dict[str, tuple[int, Cost]]:
    """Ask everything of the lake as it is."""

    def opened() -> int:
        delta = Lake(lake.root).open(GPU_SAMPLES)
        assert delta is not None
        return len(delta.file_uris())

    return {
        "open the table anew": ask(opened),
        "one node's day": ask(lambda: node_day(lake, end)),
        "the fleet's last hour": ask(lambda: last_hour(lake, end)),
    }


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=24)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Path(folder) / "lake")
        end = fill(lake, options.commits)
        many, before = measure(lake, GPU_SAMPLES), questions(lake, end)
        began = time.process_time()
        compact(lake, GPU_SAMPLES, today=end.date() - timedelta(days=1))
        compacting_s = time.process_time() - began
        few, after = measure(lake, GPU_SAMPLES), questions(lake, end)
    assert many is not None
    assert few is not None
    print(f"{many.rows:,} rows of {NODES} nodes in {DAYS} days, {options.commits} commits a day; the last date is open and only merged")
    sizes = [f"{stats.files:,} files, {stats.size_bytes / 1e6:.0f} MB" for stats in (many, few)]
    print(f"{' -> '.join(sizes)}; compacted in {compacting_s:.0f} CPU-s")
    ratios = {}
    for name, (rows, small) in before.items():
        large = after[name][1]
        assert name.startswith("open") or rows == after[name][0], f"compaction changed {name}"
        ratios[name] = small.wall_ms / large.wall_ms
        text = f"{small.wall_ms:8.1f} ms, {small.cpu_ms:8.1f} CPU-ms -> {large.wall_ms:8.1f} ms, {large.cpu_ms:8.1f} CPU-ms"
        print(f"{name:<24}{text}   {ratios[name]:6.1f} times as fast   {rows:,} rows or files")
    wanted = {"one node's day": ratios["one node's day"] >= NODE_TARGET, "last hour": ratios["the fleet's last hour"] >= 1.0}
    missed = [name for name, is_met in wanted.items() if not is_met]
    print("missed: " + ", ".join(missed) if missed else "all targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
