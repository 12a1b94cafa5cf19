"""The check of the lake names whatever is wrong with a table, and is content with one that is whole."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.lake import AppTransaction, Lake
from ingest.lake_care import compact, vacuum
from ingest.lake_check import check
from ingest.schema import GPU_SAMPLES
from ingest.tables import Column, Table
from tests.ingest.lake_samples import fill, samples

TODAY = date(2025, 6, 3)


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


def test_check_reads_every_column(tmp_path: Path) -> None:
    """A page that is broken in a column nobody asks for is found."""
    lake = Lake(tmp_path)
    for minute in range(2):
        lake.append(GPU_SAMPLES, samples(1, minute))
    compact(lake, GPU_SAMPLES, today=TODAY)
    (path,) = lake.files(GPU_SAMPLES)
    page = pq.ParquetFile(path).metadata.row_group(0).column(GPU_SAMPLES.names.index("temp_c"))
    content = bytearray(Path(path).read_bytes())
    start = page.dictionary_page_offset or page.data_page_offset
    content[start : start + page.total_compressed_size] = bytes([255]) * page.total_compressed_size
    Path(path).write_bytes(content)
    assert [problem.kind for problem in check(lake, GPU_SAMPLES)] == ["file_unreadable"]


def test_check_finds_a_log_with_a_gap_and_a_stream_that_went_back(tmp_path: Path) -> None:
    """An entry that is gone, and a commit that says less than one before it, are named with their version and stream."""
    lake = Lake(tmp_path)
    fill(lake)
    lake.open(GPU_SAMPLES).create_checkpoint()  # type: ignore[union-attr]  # it is there
    log = tmp_path / "gpu_samples" / "_delta_log"
    (log / f"{5:020}.json").unlink()
    entry = log / f"{12:020}.json"
    entry.write_text(entry.read_text().replace('"version":32', '"version":7'))
    found = check(Lake(tmp_path), GPU_SAMPLES)
    assert [(problem.kind, problem.where) for problem in found] == [("version_missing", "5"), ("transaction_went_back", "s")]


def test_check_is_content_with_a_vacuumed_and_compacted_table(tmp_path: Path) -> None:
    """A log whose old entries were cleaned up behind a checkpoint has no gap."""
    lake = Lake(tmp_path)
    fill(lake)
    compact(lake, GPU_SAMPLES, today=TODAY)
    vacuum(lake, GPU_SAMPLES, keep=timedelta(0))
    lake.append(GPU_SAMPLES, samples(3, 50), AppTransaction("s", 99, after=34))
    assert check(lake, GPU_SAMPLES) == []


def test_check_finds_a_row_in_the_wrong_folder_and_a_column_of_another_type(tmp_path: Path) -> None:
    """What another tool has written is held against the declaration."""
    lake = Lake(tmp_path)
    lake.append(GPU_SAMPLES, samples(1, 0).append_column("date", pa.array(["2025-06-09"] * 3)))
    assert [problem.kind for problem in check(lake, GPU_SAMPLES)] == ["wrong_date"]
    columns = tuple(Column("tier", "int64", "", "") if column.name == "tier" else column for column in GPU_SAMPLES.own_columns)
    found = check(lake, Table("gpu_samples", "", columns, ()))
    assert ("column_type", "tier") in [(problem.kind, problem.where) for problem in found]


def test_check_names_a_log_that_cannot_be_read(tmp_path: Path) -> None:
    """It is a finding in one line, so that the tables after it are checked as well."""
    Lake(tmp_path).append(GPU_SAMPLES, samples(1, 0))
    for entry in (tmp_path / "gpu_samples" / "_delta_log").glob("*.json"):
        entry.write_bytes(bytes(200))
    (problem,) = check(Lake(tmp_path), GPU_SAMPLES)
    assert (problem.table, problem.kind) == ("gpu_samples", "log_unreadable")
    assert "\n" not in problem.detail
