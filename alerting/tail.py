"""Read what is new in a table of the lake: each live file once, so that a pass costs what has arrived since the last one."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import duckdb

from ingest.clock import datetime_of
from ingest.errors import LakeUnreadable
from ingest.lake import Lake
from ingest.lake_reading import OURS, fault_of_file, unreadable
from ingest.tables import Table

_CLOCKS = ("observed_at", "received_at", "as_of", "scored_at")


@dataclass
class Tail:
    """New rows of one table through one query of `sql/`; the query has `$since` and `$now` and reads the table by its name.

    A file with rows from after `now` is read again later, and so is one that compaction has rewritten: what reads a tail keeps the
    newest row per key. A file that cannot be read is passed over, named in `damage`, and tried again by the next read.
    """

    lake: Lake
    table: Table
    query: str
    seen: set[str] = field(default_factory=set)
    damage: str | None = None  # why the newest read could not read everything
    whole_version: int | None = None  # the version of the table of which nothing is left to read

    def read(self, connection: duckdb.DuckDBPyConnection, since_ns: int, now_ns: int) -> list[dict[str, Any]]:
        """Give the rows of files that were not read before; a file counts as read only when the query has succeeded."""
        self.damage = None
        try:
            version = self.lake.version(self.table)
            if version is not None and version == self.whole_version:
                return []
            files = self.lake.files(self.table, since=datetime_of(since_ns))
        except LakeUnreadable as error:
            self.damage = str(error)
            return []
        fresh = [file for file in files if file not in self.seen]
        rows, put_off = self._read_files(connection, fresh, since_ns, now_ns) if fresh else ([], set())
        self.seen = set(files) - put_off
        self.whole_version = None if put_off else version
        return rows

    def _read_files(
        self, connection: duckdb.DuckDBPyConnection, files: list[str], since_ns: int, now_ns: int
    ) -> tuple[list[dict[str, Any]], set[str]]:
        """Give the rows of files, and the files that have to be read again; those that are damaged are left out."""
        try:
            connection.read_parquet(files, hive_partitioning=True, union_by_name=True, filename=True).create_view(self.table.name)
            return self._rows(connection, since_ns, now_ns), self._ahead(connection, now_ns)
        except OURS:
            raise
        except duckdb.Error:
            broken = {file: why for file in files if (why := fault_of_file(connection, file))}
            if not broken:
                raise
        self.damage = str(unreadable(*next(iter(broken.items()))))
        intact = [file for file in files if file not in broken]
        rows, put_off = self._read_files(connection, intact, since_ns, now_ns) if intact else ([], set())
        return rows, put_off | broken.keys()

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
