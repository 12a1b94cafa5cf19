"""A user's folder of history and what came of it, for the tests of the import."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.imports import ImportReport
from ingest.lake import Lake
from ingest.schema import TABLES

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def write(directory: Path, name: str, **columns: list[object]) -> None:
    """Write one file of a user's folder."""
    pq.write_table(pa.table(columns), directory / f"{name}.parquet")


def rows(lake: Lake, table: str, columns: str) -> list[tuple[object, ...]]:
    """Read columns of a table, ordered."""
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        lake.attach(connection, TABLES[table])
        return connection.execute(f"select {columns} from {table} order by all").fetchall()


def taken(report: ImportReport) -> dict[str, int]:
    """Add up what was written, by table."""
    total: dict[str, int] = {}
    for file in report.files:
        for table, count in file.taken.items():
            total[table] = total.get(table, 0) + count
    return total


def at(day: int, hour: int = 0) -> datetime:
    """Name an hour of January 2024, as files do: without a zone, meaning UTC."""
    return datetime(2024, 1, day, hour)  # noqa: DTZ001
