"""Writers, compactions and readers work on one lake at once, each in a process of its own: no row is seen twice, none is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import duckdb

from ingest.lake import Lake
from ingest.lake_check import check
from ingest.schema import GPU_SAMPLES

ROOT = Path(__file__).resolve().parents[2]
APPENDER = Path(__file__).parent / "lake_appender.py"
COMMITS = 60


def environment(lake: Path) -> Mapping[str, str]:
    """Make the environment of a command on a lake."""
    return os.environ | {"PYTHONPATH": str(ROOT), "FOREWARN__LAKE__PATH": str(lake)}


def start(lake: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a process on the lake."""
    return subprocess.Popen([sys.executable, *arguments], env=environment(lake), stdout=subprocess.PIPE, text=True)


@contextmanager
def running(*processes: subprocess.Popen[str]) -> Iterator[None]:
    """Leave none of the processes behind."""
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()


def rows_and_kinds(lake: Lake) -> tuple[int, int]:
    """Count the rows that a reader finds now, and how many different ones they are."""
    with duckdb.connect() as connection:
        lake.attach(connection, GPU_SAMPLES)
        return connection.execute("select count(*), count(distinct (node, energy_mj_total)) from gpu_samples").fetchall()[0]


def test_readers_see_every_commit_once_while_two_write_and_two_compact(tmp_path: Path) -> None:
    """Every count that a reader gets is of whole commits, never falls and has no row twice; in the end all rows are in sorted files."""
    writers = [start(tmp_path, str(APPENDER), str(tmp_path), str(first), str(COMMITS)) for first in (0, 1000)]
    reader, seen, compactions = Lake(tmp_path), [(0, 0)], 0
    deadline = time.monotonic() + 120
    with running(*writers):
        while any(writer.poll() is None for writer in writers):
            compactors = [start(tmp_path, "-m", "forewarn", "lake", "compact", "--json") for _ in range(2)]
            with running(*compactors):
                while any(compactor.poll() is None for compactor in compactors):
                    assert time.monotonic() < deadline, "the writers do not come to an end"
                    seen.append(rows_and_kinds(reader))
                done = [table for compactor in compactors for table in json.loads(compactor.communicate()[0])]
                compactions += sum(bool(table["sorted"] or table["merged"]) for table in done)
        assert [writer.returncode for writer in writers] == [0, 0]

    assert all(rows == kinds and rows % 10 == 0 for rows, kinds in seen)
    assert [rows for rows, _ in seen] == sorted(rows for rows, _ in seen)
    assert compactions >= 1
    assert rows_and_kinds(Lake(tmp_path)) == (2 * COMMITS * 10, 2 * COMMITS * 10)
    assert check(Lake(tmp_path), GPU_SAMPLES) == []
