"""Read what is new in a table of the lake: each live file once, so that a pass costs what has arrived since the last one."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import duckdb

from ingest.clock import datetime_of
from ingest.lake import Lake
from ingest.tables import Table

_CLOCKS = ("observed_at", "received_at", "as_of", "scored_at")


@dataclass
class Tail:
    """New rows of one table through one query of `sql/`; the query has `$since` and `$now` and reads the table by its name.

    A file with rows from after `now` is read again later, and so is one that compaction has rewritten: what reads a tail keeps the
    newest row per key.
    """

    lake: Lake
    table: Table
    query: str
    seen: set[str] = field(default_factory=set)

    def read(self, connection: duckdb.DuckDBPyConnection, since_ns: int, now_ns: int) -> list[dict[str, Any]]:
        """Give the rows of files that were not read before; a file counts as read only when the query has succeeded."""
        files = self.lake.files(self.table, since=datetime_of(since_ns))
        fresh = [file for file in files if file not in self.seen]
        rows: list[dict[str, Any]] = []
        ahead: set[str] = set()
        if fresh:
            connection.read_parquet(fresh, hive_partitioning=True, union_by_name=True, filename=True).create_view(self.table.name)
            rows = self._rows(connection, since_ns, now_ns)
            ahead = self._ahead(connection, now_ns)
            connection.execute(f'drop view "{self.table.name}"')
        self.seen = set(files) - ahead
        return rows

    def _rows(self, connection: duckdb.DuckDBPyConnection, since_ns: int, now_ns: int) -> list[dict[str, Any]]:
        result = connection.execute(_sql(self.query), {"since": datetime_of(since_ns), "now": datetime_of(now_ns)})
        names = [column[0] for column in result.description]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

    def _ahead(self, connection: duckdb.DuckDBPyConnection, now_ns: int) -> set[str]:
        """Name the files that hold rows from after `now`."""
        clocks = " or ".join(f"{name} > $now" for name in _CLOCKS if name in self.table.names)
        sql = f'select distinct filename from "{self.table.name}" where {clocks}'  # names of our own tables
        return {file for (file,) in connection.execute(sql, {"now": datetime_of(now_ns)}).fetchall()}


@cache
def _sql(query: str) -> str:
    return resources.files("alerting").joinpath("sql", f"{query}.sql").read_text()
