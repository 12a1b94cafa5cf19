"""Care of the lake makes it smaller and finds what is wrong, and no reader sees another row for it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from ingest.lake import AppTransaction, Lake, table_rows
from ingest.lake_care import compact, expire, measure, vacuum
from ingest.lake_check import check
from ingest.schema import GPU_SAMPLES, JOBS
from ingest.tables import Column, Table
from tests.ingest.lake_samples import content, fill, samples

TODAY = date(2025, 6, 3)


def test_closed_dates_become_one_sorted_file_and_no_row_changes(tmp_path: Path) -> None:
    """Days before today are one file each, in the table's order; today's files are merged; every row, type and transaction stays."""
    lake = Lake(tmp_path)
    fill(lake)
    before = content(lake)

    done = compact(lake, GPU_SAMPLES, today=TODAY)

    assert (done.sorted, done.merged, done.postponed) == (["2025-06-01", "2025-06-02"], ["2025-06-03"], [])
    assert (done.files_before, done.files_after) == (15, 3)
    assert content(lake) == before
    assert len(lake.files(GPU_SAMPLES)) == 3
    assert lake.committed(GPU_SAMPLES, "s") == 34
    (first,) = lake.files(GPU_SAMPLES, until=datetime(2025, 6, 1, tzinfo=UTC))
    keys = pq.ParquetFile(first).read(["node", "gpu_uuid", "observed_at"]).to_pylist()
    assert keys == sorted(keys, key=lambda row: (row["node"], row["gpu_uuid"], row["observed_at"]))
    assert check(lake, GPU_SAMPLES) == []
    again = compact(lake, GPU_SAMPLES, today=TODAY)
    assert (again.sorted, again.merged, again.files_after) == ([], [], 3)


class Disturbed(Lake):
    """A lake in which somebody else does something right after its second opening: between reading a date and replacing it."""

    openings = 0

    def __init__(self, root: Path, disturb: Callable[[], object]) -> None:
        super().__init__(root)
        self.disturb = disturb

    def open(self, table: Table) -> DeltaTable | None:
        delta = super().open(table)
        self.openings += 1
        if self.openings == 2:
            self.disturb()
        return delta


def test_rows_that_come_while_a_date_is_sorted_are_kept(tmp_path: Path) -> None:
    """A late append between reading and replacing a date neither stops the compaction nor is lost by it."""
    fill(Lake(tmp_path))
    late = Disturbed(tmp_path, lambda: Lake(tmp_path).append(GPU_SAMPLES, samples(1, 30)))

    assert compact(late, GPU_SAMPLES, today=TODAY).sorted == ["2025-06-01", "2025-06-02"]
    assert len(content(Lake(tmp_path))) == 48
    assert compact(Lake(tmp_path), GPU_SAMPLES, today=TODAY).sorted == ["2025-06-01"]
    assert len(content(Lake(tmp_path))) == 48


def test_two_compactions_at_once_do_not_double_a_row(tmp_path: Path) -> None:
    """Of two that sort the same files the later is refused by the table, starts again and finds nothing left to do."""
    fill(Lake(tmp_path))
    before = content(Lake(tmp_path))
    late = Disturbed(tmp_path, lambda: compact(Lake(tmp_path), GPU_SAMPLES, today=TODAY))

    done = compact(late, GPU_SAMPLES, today=TODAY)

    assert done.postponed == []
    assert content(Lake(tmp_path)) == before
    assert len(Lake(tmp_path).files(GPU_SAMPLES)) == 3


def test_dates_that_expire_while_they_are_sorted_do_not_come_back(tmp_path: Path) -> None:
    """A compaction that read a date before somebody else deleted it does not put it into the lake again."""
    fill(Lake(tmp_path))
    late = Disturbed(tmp_path, lambda: expire(Lake(tmp_path), GPU_SAMPLES, before=date(2025, 6, 2)))
    compact(late, GPU_SAMPLES, today=TODAY)
    assert len(content(Lake(tmp_path))) == 30


def test_a_writer_that_appends_meanwhile_does_not_stop_an_expiry(tmp_path: Path) -> None:
    """An append right before the commit of an expiry is kept, and the old dates are gone."""
    fill(Lake(tmp_path))
    late = Disturbed(tmp_path, lambda: Lake(tmp_path).append(GPU_SAMPLES, samples(3, 30)))
    assert expire(late, GPU_SAMPLES, before=date(2025, 6, 2)) == 15
    assert len(content(Lake(tmp_path))) == 33


def test_a_large_date_becomes_several_files_in_order_and_is_left_alone_afterwards(tmp_path: Path) -> None:
    """Files of about the wanted size, one key after the other over all of them; a second run finds nothing to do."""
    lake = Lake(tmp_path)
    moments = [datetime(2025, 6, 1, tzinfo=UTC) + timedelta(milliseconds=7 * number) for number in range(400_000)]
    random = Random(3)
    for start in range(0, 400_000, 100_000):
        at = moments[start : start + 100_000]
        columns = {"node": [f"n{number % 40:02}" for number in range(100_000)], "observed_at": at, "received_at": at}
        noise = [random.random() for _ in at]
        lake.append(
            GPU_SAMPLES,
            table_rows(
                GPU_SAMPLES, {**columns, "source": ["t"] * 100_000, "tier": ["hot"] * 100_000, "gpu_uuid": ["g"] * 100_000, "temp_c": noise}
            ),
        )

    done = compact(lake, GPU_SAMPLES, today=TODAY, target_mb=2)

    assert done.sorted == ["2025-06-01"]
    columns = [pq.ParquetFile(file).read(["node", "observed_at"]).to_pydict() for file in lake.files(GPU_SAMPLES)]
    keys = sorted(list(zip(found["node"], found["observed_at"], strict=True)) for found in columns)
    flat = [key for file in keys for key in file]
    assert len(keys) >= 2
    assert len(flat) == 400_000
    assert flat == sorted(flat)
    assert compact(lake, GPU_SAMPLES, today=TODAY, target_mb=2).sorted == []


def test_the_last_rows_of_a_date_are_found_by_time(tmp_path: Path) -> None:
    """A file says of its times what a reader that asks by time needs, to the last microsecond, as it was appended and as it was sorted."""
    lake = Lake(tmp_path)
    at = [datetime(2025, 6, 1, 23, 59, 59, 999_999, tzinfo=UTC)]
    row = {"node": ["n1"], "gpu_uuid": ["g"], "observed_at": at, "received_at": at, "source": ["t"], "tier": ["hot"]}

    def found() -> list[tuple[int]]:
        with duckdb.connect() as connection:
            lake.attach(connection, GPU_SAMPLES, since=at[0], until=at[0], by_time=True)
            return connection.execute("select count(*) from gpu_samples").fetchall()

    for _ in range(2):
        lake.append(GPU_SAMPLES, table_rows(GPU_SAMPLES, row))
    assert found() == [(2,)]
    compact(lake, GPU_SAMPLES, today=TODAY)
    assert found() == [(2,)]


def test_a_column_of_a_newer_version_survives_an_older_compaction(tmp_path: Path) -> None:
    """Whoever sorts keeps every stored column, also one that it does not know."""
    lake, column = Lake(tmp_path), Column("novelty", "double", "", "made up")
    newer = Table("gpu_samples", "", (*GPU_SAMPLES.own_columns, column), GPU_SAMPLES.sort_by)
    lake.append(GPU_SAMPLES, samples(1, 0))
    lake.append(newer, samples(1, 1).append_column("novelty", pa.array([1.0, 2.0, 3.0])))

    assert compact(lake, GPU_SAMPLES, today=TODAY).sorted == ["2025-06-01"]

    with duckdb.connect() as connection:
        lake.attach(connection, newer)
        found = connection.execute("select novelty from gpu_samples order by all").fetchall()
    assert found == [(1.0,), (2.0,), (3.0,), (None,), (None,), (None,)]


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
    assert compact(lake, GPU_SAMPLES, today=TODAY).sorted == vacuum(lake, GPU_SAMPLES) == check(lake, GPU_SAMPLES) == []
    assert measure(lake, GPU_SAMPLES) is None
    assert expire(lake, GPU_SAMPLES, before=TODAY) == 0
    assert list(tmp_path.iterdir()) == []


def test_lists_are_appended_and_sorted_as_well(tmp_path: Path) -> None:
    """A table with lists goes through two appends and a compaction."""
    lake = Lake(tmp_path)
    at = datetime(2025, 6, 1, tzinfo=UTC)
    for number in (2, 1):
        row = {"node": ["c"], "observed_at": [at], "received_at": [at], "source": ["t"], "job_id": [str(number)], "state": ["running"]}
        lake.append(JOBS, table_rows(JOBS, {**row, "nodes": [["n1", "n2"]]}))
    assert compact(lake, JOBS, today=TODAY).sorted == ["2025-06-01"]
    with duckdb.connect() as connection:
        lake.attach(connection, JOBS)
        assert connection.execute("select job_id, nodes from jobs").fetchall() == [("1", ["n1", "n2"]), ("2", ["n1", "n2"])]
