"""Collectors and writers of two versions work on one lake at once: a new column arrives without a stop, and no row is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import duckdb

from ingest.bus import DirectBus
from ingest.lake import Lake
from ingest.lake_care import compact
from ingest.rejects import FileRejects
from ingest.schema import EVENTS, Event
from ingest.spool import Spool
from ingest.tables import Column, Table
from ingest.writer import Writer

ROOT = Path(__file__).resolve().parents[2]
NEWER = Table("events", "", (*EVENTS.own_columns, Column("blast_radius", "int64", "count", "made up")), EVENTS.sort_by)


def found(lake: Lake) -> list[tuple[int, int | None]]:
    """Read code and new column of all events, as a newer reader does."""
    with duckdb.connect() as connection:
        lake.attach(connection, NEWER)
        return connection.execute("select code, blast_radius from events order by code").fetchall()


def test_an_old_writer_beside_a_new_one_loses_nothing(tmp_path: Path) -> None:
    """The old one is open before, during and after the new column comes; the new rows keep it, also through an old compaction."""
    lake, old_spool = Lake(tmp_path / "lake"), Spool(tmp_path / "old")
    old = Writer(DirectBus(old_spool), lake, FileRejects(tmp_path / "rejects"))

    def write_old(code: int) -> None:
        old_spool.put(
            "events",
            "n2",
            [Event(node="n2", kind="xid", code=code, observed_at_ns=1_750_000_000_000_000_000, received_at_ns=1, source="t")],
        )
        old.run_once()
        old.flush()

    write_old(1)
    newer = subprocess.Popen(
        [sys.executable, str(Path(__file__).parent / "newer_writer.py"), str(tmp_path / "lake"), str(tmp_path / "new"), "5"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    code = 1
    while newer.poll() is None:
        code += 1
        write_old(code)
    assert newer.returncode == 0
    write_old(code + 1)

    assert found(lake) == [(number, None) for number in range(1, code + 2)] + [(1000 + number, number) for number in range(5)]
    compact(lake, EVENTS, today=date(2025, 7, 1))
    assert found(lake)[-1] == (1004, 4)
    old_spool.close()


def test_an_old_writer_takes_the_messages_of_a_new_collector(tmp_path: Path) -> None:
    """It keeps the field that it does not know out of the row and writes the row; nothing is rejected."""
    lake = Lake(tmp_path / "lake")
    arguments = [str(tmp_path / "lake"), str(tmp_path / "new"), "2"]
    subprocess.run(
        [sys.executable, str(Path(__file__).parent / "newer_writer.py"), *arguments], env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True
    )
    spool = Spool(tmp_path / "new")
    old = Writer(DirectBus(spool), lake, FileRejects(tmp_path / "rejects"))
    old.run_once()
    old.flush()
    spool.close()

    assert found(lake) == [(1000, 0), (1001, 1), (1002, None), (1003, None)]
    assert list(FileRejects(tmp_path / "rejects").read()) == []
