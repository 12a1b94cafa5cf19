"""Care of the lake makes it smaller and finds what is wrong, and no reader sees another row for it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from ingest.lake import AppTransaction, Lake, table_rows
from ingest.lake_care import check, compact, expire, measure, vacuum
from ingest.schema import GPU_SAMPLES, JOBS
from ingest.tables import Column, Table

TODAY = date(2025, 6, 3)


def samples(day: int, minute: int, nodes: int = 3) -> pa.Table:
    """Make samples of a few GPUs at one minute, in no good order."""
    at = datetime(2025, 6, day, 0, minute, tzinfo=UTC)
    names = [f"n{number}" for number in reversed(range(nodes))]
    common = {"observed_at": [at] * nodes, "received_at": [at] * nodes, "source": ["t"] * nodes, "tier": ["hot"] * nodes}
    quality = [{"power_w": "blank"}] * nodes
    return table_rows(
        GPU_SAMPLES,
        {
            "node": names,
            "gpu_uuid": [f"G-{name}" for name in names],
            "temp_c": [float(minute)] * nodes,
            "quality": [list(entry.items()) for entry in quality],
            "origin": ["A" * 26] * nodes,
            "seq": [day * 100 + minute] * nodes,
            **common,
        },
    )


def fill(lake: Lake) -> None:
    """Write three days of five files each."""
    for day in (1, 2, 3):
        for minute in range(5):
            lake.append(GPU_SAMPLES, samples(day, minute), AppTransaction("s", day * 10 + minute))


def content(lake: Lake) -> list[tuple[object, ...]]:
    """Read every row and column, ordered."""
    with duckdb.connect() as connection:
        lake.attach(connection, GPU_SAMPLES)
        return connection.execute("select * from gpu_samples order by node, observed_at").fetchall()


def test_closed_dates_become_one_sorted_file_and_no_row_changes(tmp_path: Path) -> None:
    """Days before today are one file each, in the table's order; today's files are merged; every row, type and transaction stays."""
    lake = Lake(tmp_path)
    fill(lake)
    before = content(lake)

    done = compact(lake, GPU_SAMPLES, today=TODAY)

    assert done == ["2025-06-01", "2025-06-02"]
    assert content(lake) == before
    assert len(lake.files(GPU_SAMPLES)) == 3
    assert lake.committed(GPU_SAMPLES, "s") == 34
    (first,) = lake.files(GPU_SAMPLES, until=datetime(2025, 6, 1, tzinfo=UTC))
    keys = pq.ParquetFile(first).read(["node", "gpu_uuid", "observed_at"]).to_pylist()
    assert keys == sorted(keys, key=lambda row: (row["node"], row["gpu_uuid"], row["observed_at"]))
    assert check(lake, GPU_SAMPLES) == []
    assert compact(lake, GPU_SAMPLES, today=TODAY) == []


class Disturbed(Lake):
    """A lake to which somebody else appends right after its second opening: between reading a date and replacing it."""

    openings = 0

    def open(self, table: Table) -> DeltaTable | None:
        delta = super().open(table)
        self.openings += 1
        if self.openings == 2:
            Lake(self.root).append(GPU_SAMPLES, samples(1, 30))
        return delta


def test_rows_that_come_while_a_date_is_sorted_are_kept(tmp_path: Path) -> None:
    """A late append between reading and replacing a date postpones that date; nothing is lost."""
    fill(Lake(tmp_path))

    assert compact(Disturbed(tmp_path), GPU_SAMPLES, today=TODAY) == ["2025-06-02"]
    assert len(content(Lake(tmp_path))) == 48
    assert compact(Lake(tmp_path), GPU_SAMPLES, today=TODAY) == ["2025-06-01"]
    assert len(content(Lake(tmp_path))) == 48


def test_an_append_after_a_compaction_goes_on(tmp_path: Path) -> None:
    """A writer that was open all the time is not disturbed."""
    lake, writer = Lake(tmp_path), Lake(tmp_path)
    fill(writer)
    compact(lake, GPU_SAMPLES, today=TODAY)
    assert writer.append(GPU_SAMPLES, samples(3, 40), AppTransaction("s", 99, after=34))
    assert len(content(lake)) == 48


def test_vacuum_removes_what_no_version_names(tmp_path: Path) -> None:
    """Replaced files and the leavings of a killed writer go; live files stay."""
    lake = Lake(tmp_path)
    fill(lake)
    compact(lake, GPU_SAMPLES, today=TODAY)
    orphan = tmp_path / "gpu_samples" / "date=2025-06-01" / "part-left-behind.parquet"
    orphan.write_bytes(b"half a file")
    before = content(lake)

    planned = vacuum(lake, GPU_SAMPLES, keep=timedelta(0), is_dry=True)
    removed = vacuum(lake, GPU_SAMPLES, keep=timedelta(0))

    assert sorted(planned) == sorted(removed)
    assert len(removed) == 16
    assert sorted((tmp_path / "gpu_samples").glob("date=*/*.parquet")) == sorted(Path(file) for file in lake.files(GPU_SAMPLES))
    assert content(lake) == before


def test_old_dates_expire(tmp_path: Path) -> None:
    """Rows before a date go, and are counted."""
    lake = Lake(tmp_path)
    fill(lake)
    assert expire(lake, GPU_SAMPLES, before=date(2025, 6, 2)) == 15
    assert expire(lake, GPU_SAMPLES, before=date(2025, 6, 2)) == 0
    stats = measure(lake, GPU_SAMPLES)
    assert stats
    assert (stats.rows, stats.files, stats.oldest, stats.newest) == (30, 10, "2025-06-02", "2025-06-03")


def test_a_table_that_does_not_exist_needs_no_care(tmp_path: Path) -> None:
    """Nothing is made where nothing is."""
    lake = Lake(tmp_path)
    assert compact(lake, GPU_SAMPLES, today=TODAY) == vacuum(lake, GPU_SAMPLES) == check(lake, GPU_SAMPLES) == []
    assert measure(lake, GPU_SAMPLES) is None
    assert expire(lake, GPU_SAMPLES, before=TODAY) == 0
    assert list(tmp_path.iterdir()) == []


def test_check_finds_files_that_are_gone_broken_or_not_as_the_log_says(tmp_path: Path) -> None:
    """Each damage has its kind and names the file."""
    lake = Lake(tmp_path)
    for day in (1, 2, 3):
        lake.append(GPU_SAMPLES, samples(day, 0))
    gone, broken, other = sorted(Path(file) for file in lake.files(GPU_SAMPLES))
    gone.unlink()
    broken.write_bytes(broken.read_bytes()[:200])
    pq.write_table(pq.ParquetFile(other).read().slice(0, 1), other)

    found = check(lake, GPU_SAMPLES)

    assert [(problem.kind, Path(problem.where).name) for problem in sorted(found, key=lambda problem: problem.where)] == [
        ("file_unreadable", gone.name),
        ("file_unreadable", broken.name),
        ("rows_differ", other.name),
    ]


def test_check_finds_rows_of_a_message_that_are_there_twice(tmp_path: Path) -> None:
    """The same row of the same message in two commits is a repetition."""
    lake = Lake(tmp_path)
    lake.append(GPU_SAMPLES, samples(1, 0))
    lake.append(GPU_SAMPLES, samples(1, 0))
    assert [(problem.kind, problem.where, problem.detail[:2]) for problem in check(lake, GPU_SAMPLES)] == [
        ("row_repeated", "2025-06-01", "3 ")
    ]


def test_check_finds_a_row_in_the_wrong_folder_and_a_column_of_another_type(tmp_path: Path) -> None:
    """What another tool has written is held against the declaration."""
    lake = Lake(tmp_path)
    lake.append(GPU_SAMPLES, samples(1, 0).append_column("date", pa.array(["2025-06-09"] * 3)))
    assert [problem.kind for problem in check(lake, GPU_SAMPLES)] == ["wrong_date"]
    columns = tuple(Column("tier", "int64", "", "") if column.name == "tier" else column for column in GPU_SAMPLES.own_columns)
    found = check(lake, Table("gpu_samples", "", columns, ()))
    assert ("column_type", "tier") in [(problem.kind, problem.where) for problem in found]


def test_lists_are_appended_and_sorted_as_well(tmp_path: Path) -> None:
    """A table with lists goes through two appends and a compaction."""
    lake = Lake(tmp_path)
    at = datetime(2025, 6, 1, tzinfo=UTC)
    for number in (2, 1):
        row = {"node": ["c"], "observed_at": [at], "received_at": [at], "source": ["t"], "job_id": [str(number)], "state": ["running"]}
        lake.append(JOBS, table_rows(JOBS, {**row, "nodes": [["n1", "n2"]]}))
    assert compact(lake, JOBS, today=TODAY) == ["2025-06-01"]
    with duckdb.connect() as connection:
        lake.attach(connection, JOBS)
        assert connection.execute("select job_id, nodes from jobs").fetchall() == [("1", ["n1", "n2"]), ("2", ["n1", "n2"])]
