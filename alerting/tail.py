"""Read what is new in a table of the lake: each live file once, so that a pass costs what has arrived since the last one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import duckdb

from ingest.clock import datetime_of
from ingest.lake import Lake
from ingest.tables import Table


@dataclass
class Tail:
    """New rows of one table through one query of `sql/`; the query has `$since` and `$now` and reads the table by its name.

    A file that compaction has rewritten is read again: what reads a tail keeps the newest row per key.
    """

    lake: Lake
    table: Table
    query: str
    seen: set[str] = field(default_factory=set)

    def read(self, connection: duckdb.DuckDBPyConnection, since_ns: int, now_ns: int) -> list[dict[str, Any]]:
        """Give the rows of files that were not read before; a file counts as read only when the query has succeeded."""
        files = self.lake.files(self.table, since=datetime_of(since_ns))
        fresh = [file for file in files if file not in self.seen]
        rows = self._rows(connection, fresh, since_ns, now_ns) if fresh else []
        self.seen = set(files)
        return rows

    def _rows(self, connection: duckdb.DuckDBPyConnection, files: list[str], since_ns: int, now_ns: int) -> list[dict[str, Any]]:
        relation = connection.read_parquet(files, hive_partitioning=True, union_by_name=True)
        relation.create_view(self.table.name, replace=True)
        parameters: Mapping[str, Any] = {"since": datetime_of(since_ns), "now": datetime_of(now_ns)}
        result = connection.execute(_sql(self.query), parameters)
        names = [column[0] for column in result.description]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


@cache
def _sql(query: str) -> str:
    return resources.files("alerting").joinpath("sql", f"{query}.sql").read_text()
