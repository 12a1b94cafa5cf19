"""Store the same samples by our settings, by pyarrow's, DuckDB's and Polars' own, and by theirs with the same compression.

Prints bytes per row and rows per second of one core's CPU time, in the order of arrival and in the order of a compacted date, from one run.
Exits with 1 when a target is missed: at least 500 thousand rows/s when a batch is stored, at most 62 B a row after compaction.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from datetime import date
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import WriterProperties, write_deltalake

from benchmarks.rig.fleet import polls_of_fleet, table_of
from benchmarks.rig.process import own_cpu_s, rate
from emulators.history_samples import SampleHistory
from emulators.layout import DAY_NS, WorldSpec
from emulators.world import World
from ingest.lake import Lake, arrow_schema
from ingest.lake_care import compact, measure
from ingest.lake_encodings import writer_properties
from ingest.schema import GPU_SAMPLES

NODES, POLLS = 64, 120
ROUNDS, COMMITS = 3, 4
TARGET_RATE, TARGET_SIZE = 500_000, 62


def full(rows: pa.Table) -> pa.Table:
    """Bring rows into the table's stored columns: what every way of writing gets."""
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(folder)
        lake.append(GPU_SAMPLES, rows)
        stored = lake.open(GPU_SAMPLES)
        assert stored is not None
        return pa.table(stored.to_pyarrow_table()).cast(arrow_schema(GPU_SAMPLES)).sort_by([("observed_at", "ascending")]).combine_chunks()


def ways(rows: pa.Table) -> dict[str, Callable[[Path], object]]:
    """Name each way of writing one file or table into a folder."""
    frame = pl.from_arrow(rows.drop_columns(["quality"]))  # it knows no maps
    assert isinstance(frame, pl.DataFrame)

    def copy(folder: Path, options: str) -> None:
        with duckdb.connect() as connection:
            connection.execute("set threads = 1; set preserve_insertion_order = true")
            connection.register("given", rows)
            connection.execute(f"copy given to '{folder}/x.parquet' (format parquet{options})")

    def delta(folder: Path) -> None:
        write_deltalake(folder, rows, partition_by=["date"], writer_properties=writer_properties(GPU_SAMPLES))

    return {
        "forewarn": delta,
        "deltalake, zstd 1": lambda folder: write_deltalake(
            folder, rows, partition_by=["date"], writer_properties=WriterProperties(compression="ZSTD", compression_level=1)
        ),
        "pyarrow, defaults (snappy)": lambda folder: pq.write_table(rows, folder / "x.parquet"),
        "pyarrow, zstd 1": lambda folder: pq.write_table(rows, folder / "x.parquet", compression="zstd", compression_level=1),
        "DuckDB COPY, defaults (snappy)": lambda folder: copy(folder, ""),
        "DuckDB COPY, zstd 1": lambda folder: copy(folder, ", compression zstd, compression_level 1"),
        "Polars, defaults (zstd)": lambda folder: frame.write_parquet(folder / "x.parquet"),
        "Polars, zstd 1": lambda folder: frame.write_parquet(folder / "x.parquet", compression="zstd", compression_level=1),
    }


def size_of(folder: Path) -> int:
    """Sum the Parquet files of a folder, bytes."""
    return sum(file.stat().st_size for file in folder.rglob("*.parquet"))


def stored(write: Callable[[Path], object], rows: int, directory: Path) -> tuple[float, float]:
    """Give the best rate of some rounds, and bytes per row."""
    folders = [directory / str(number) for number in range(ROUNDS)]
    for folder in folders:
        folder.mkdir(parents=True)
    best = max(rate(rows, lambda folder=folder: write(folder)) for folder in folders)
    return best, size_of(folders[0]) / rows


def compacted(rows: pa.Table, directory: Path) -> tuple[float, float]:
    """Give rows per second and bytes per row of our own compaction of a date of several commits."""
    lake, part = Lake(directory), len(rows) // COMMITS
    for start in range(0, len(rows), part):
        lake.append(GPU_SAMPLES, rows.slice(start, part))
    cpu = own_cpu_s(lambda: compact(lake, GPU_SAMPLES, today=date(2027, 1, 1)))
    stats = measure(lake, GPU_SAMPLES)
    assert stats is not None
    return stats.rows / cpu, stats.size_bytes / stats.rows


def emulated() -> pa.Table:
    """Give a day of the emulated fleet, as NVML and exporter tell it every five minutes."""
    world = World(WorldSpec.show(seed=9, nodes=NODES, days=1))
    start_ns = world.spec.start_ns
    return pa.concat_tables(SampleHistory(world).gpu_samples(start_ns, start_ns + DAY_NS), promote_options="permissive")


def report(title: str, arrived: pa.Table) -> tuple[float, float]:
    """Print all ways for some rows; give our rate when a batch is stored and our bytes per row after compaction."""
    ordered = arrived.sort_by([(name, "ascending") for name in GPU_SAMPLES.sort_by]).combine_chunks()
    print(f"{title}: {len(arrived):,} rows of {len(arrived.column_names)} columns")
    print(f"{'':<32}{'as they arrive':>28}{'in order':>28}")
    found = {}
    later = ways(ordered)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        for name, way in ways(arrived).items():
            first = stored(way, len(arrived), directory / name / "arrived")
            found[name] = (*first, *stored(later[name], len(ordered), directory / name / "ordered"))
            print("{:<32}{:>12,.0f} rows/s {:>5.1f} B{:>12,.0f} rows/s {:>5.1f} B".format(name, *found[name]))
        sorting, size = compacted(arrived, directory / "compacted")
    ours, theirs = found["forewarn"], found["pyarrow, defaults (snappy)"]
    print(f"{'compaction: read, sort, write':<32}{sorting:>40,.0f} rows/s {size:>5.1f} B")
    print(f"against pyarrow's defaults: {ours[0] / theirs[0]:.2f} times the rate, {size / theirs[1]:.2f} of the bytes")
    return ours[0], size


def main() -> int:
    """Measure, print, judge."""
    dense = report("every number given, every 10 s", full(table_of(polls_of_fleet(NODES, POLLS))))
    sparse = report("the emulated fleet, every 300 s", full(emulated()))
    wanted = {"500 k rows/s": min(dense[0], sparse[0]) >= TARGET_RATE, "62 B": max(dense[1], sparse[1]) <= TARGET_SIZE}
    missed = [name for name, is_met in wanted.items() if not is_met]
    print("missed: " + ", ".join(missed) if missed else "all targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
