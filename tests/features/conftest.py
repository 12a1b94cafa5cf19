"""Small lakes and small tables for the tests of the feature layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from features import engine
from ingest.lake import Lake, table_rows
from ingest.tables import TIMESTAMP, Table

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture
def connection() -> Iterator[engine.Connection]:
    with engine.connect(1) as opened:
        yield opened


@pytest.fixture
def at() -> Callable[..., datetime]:
    """Give the time so many hours, minutes, seconds after the first of January 2026."""

    def time_at(hours: float = 0, minutes: float = 0, seconds: float = 0) -> datetime:
        return START + timedelta(hours=hours, minutes=minutes, seconds=seconds)

    return time_at


Rows = Sequence[Mapping[str, Any]]


def _as_rows(table: Table, rows: Rows) -> pa.Table:
    columns: dict[str, list[Any]] = {}
    for column in table.own_columns:
        values = [row.get(column.name) for row in rows]
        if column.type == TIMESTAMP or any(value is not None for value in values):
            columns[column.name] = values
    return table_rows(table, columns)


@pytest.fixture
def put(lake: Lake) -> Callable[[Table, Rows], None]:
    """Append rows to a table; `received_at` is `observed_at` and `source` is nvml where a row does not say."""

    def append(table: Table, rows: Rows) -> None:
        filled = [
            {"source": "nvml", "node": "n1", "tier": "warm", "received_at": row["observed_at"], **row} if "observed_at" in row else row
            for row in rows
        ]
        lake.append(table, _as_rows(table, filled))

    return append


@pytest.fixture
def read(lake: Lake) -> Callable[[Table], list[dict[str, Any]]]:
    """Read a table's rows, sorted as the table is."""

    def rows(table: Table) -> list[dict[str, Any]]:
        with engine.connect(1) as opened:
            lake.attach(opened, table)
            return opened.sql(f"from {table.name} order by {', '.join(table.sort_by)}").to_arrow_table().to_pylist()

    return rows
