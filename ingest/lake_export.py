"""Copy tables into plain Parquet files for tools that know no Delta: DIR/table/date=YYYY-MM-DD/part-0.parquet, and nothing else.

Each date is one file that appears whole or not at all; a further export puts the newer file in its place. Rows are in the table's
order, `date` is the folder's name alone, as Hive has it, and rows that are replaced in the lake are not there.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import duckdb

from ingest.errors import LakeUnreadable
from ingest.lake import Lake
from ingest.lake_care import files_of
from ingest.tables import Table

_COPY = "copy (select * exclude (date) from {table} order by {order}) to $file (format parquet, compression zstd)"


class Exported(NamedTuple):
    """One date of one table, as it was copied."""

    table: str
    date: str
    rows: int
    file: str


def export(
    lake: Lake, table: Table, directory: Path, *, since: datetime | None = None, until: datetime | None = None, memory_mb: int = 1024
) -> Iterator[Exported]:
    """Copy the dates from `since` to `until` inclusive, one after the other; raises LakeUnreadable for a broken file, a full disk."""
    delta = lake.open(table)
    first, last = (f"{at:%Y-%m-%d}" if at else None for at in (since, until))
    dates = sorted({file.date for file in files_of(delta)}) if delta else []
    for day in dates:
        if (first is None or day >= first) and (last is None or day <= last):
            yield _export_date(lake, table, day, directory, memory_mb)


def _export_date(lake: Lake, table: Table, day: str, directory: Path, memory_mb: int) -> Exported:
    target = directory / table.name / f"date={day}" / "part-0.parquet"
    at = datetime.fromisoformat(f"{day}T00:00:00+00:00")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        building = target.with_name(f".{target.name}.{os.getpid()}")
        with tempfile.TemporaryDirectory(prefix="forewarn-export-") as scratch, duckdb.connect() as connection:
            connection.execute(f"set memory_limit = '{memory_mb}MB'")
            connection.execute(f"set temp_directory = '{scratch}'")
            connection.execute("set timezone = 'UTC'")
            lake.attach(connection, table, since=at, until=at)
            copy = _COPY.format(table=f'"{table.name}"', order=", ".join(table.sort_by))
            (rows,) = connection.execute(copy, {"file": str(building)}).fetchone() or (0,)
        building.replace(target)
    except (duckdb.Error, OSError) as error:
        raise LakeUnreadable(f"cannot export {table.name} of {day} to {directory}: {str(error).splitlines()[0]}") from error
    return Exported(table.name, day, rows, str(target))
