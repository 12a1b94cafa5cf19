"""Find what is wrong with a table of the lake: its log, its transactions, its files, its schema, and rows that are there twice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import duckdb
import msgspec
import pyarrow as pa
from deltalake import DeltaTable

from ingest.errors import LakeUnreadable
from ingest.lake import Lake, arrow_schema
from ingest.lake_care import File, files_of
from ingest.tables import Table

_ROWS_OF_FILE = (
    "select count(*), count(*) filter (strftime({time}, '%Y-%m-%d') <> $date), bit_xor(hash(row)) "  # the hash reads every column
    "from read_parquet($file, hive_partitioning = false) as row"
)
_REPEATED_ROWS = "select count(*) from (select *, count(*) as n from {table} where origin is not null group by all having n > 1)"
_ENTRIES = "select filename, content from read_text($log) order by filename"
_ENTRY = re.compile(r"(\d{20})\.json$")


class Problem(NamedTuple):
    """Something wrong with a file, date, column or version of a table; `kind` is a constant of KINDS."""

    table: str
    kind: str
    where: str
    detail: str


KINDS = {
    "log_unreadable": "the table's log is broken: nothing of the table can be read until it is restored from a copy",
    "column_type": "a column has another type than this version declares",
    "column_missing": "a column that must have a value is not stored at all",
    "version_missing": "an entry of the table's log is gone",
    "transaction_went_back": "a writer's stream was committed behind what it had committed before: rows may be there twice",
    "file_unreadable": "a live file is gone or broken",
    "rows_differ": "a file has other rows than the log says",
    "wrong_date": "rows lie in another date's folder, where a reader of dates does not find them",
    "row_repeated": "the same row of the same message is there more than once",
}


def check(lake: Lake, table: Table) -> list[Problem]:
    """Hold a table against its declaration and its log, and read every row of it once."""
    try:
        delta = lake.open(table)
    except LakeUnreadable as error:
        return [Problem(table.name, "log_unreadable", "_delta_log", str(error))]
    if delta is None:
        return []
    found = [*_schema_problems(delta, table), *_log_problems(lake, delta, table)]
    problems = [Problem(table.name, *problem) for problem in found]
    files = files_of(delta)
    with duckdb.connect() as connection:
        lake.connect(connection)
        connection.execute("set timezone = 'UTC'")
        for file in files:
            problems += [Problem(table.name, kind, file.path, detail) for kind, detail in _file_problems(connection, lake, table, file)]
        if not any(problem.kind in ("file_unreadable", "column_type") for problem in problems):
            problems += _repetitions(connection, lake, table, sorted({file.date for file in files}))
    return problems


def _schema_problems(delta: DeltaTable, table: Table) -> Iterator[tuple[str, str, str]]:
    stored = {field.name: field for field in pa.schema(delta.schema().to_arrow())}
    for field in arrow_schema(table):
        if field.name in stored and stored[field.name].type != field.type:
            yield "column_type", field.name, f"{stored[field.name].type} in the lake, {field.type} declared"
        if field.name not in stored and not field.nullable:
            yield "column_missing", field.name, "declared as always given"


def _log_problems(lake: Lake, delta: DeltaTable, table: Table) -> Iterator[tuple[str, str, str]]:
    """Follow the entries of the log that are kept: no version is missing, and no stream of a writer ever goes back."""
    before: int | None = None
    streams: dict[str, int] = {}
    for version, actions in _entries(lake, table):
        if before is not None and version != before + 1:
            yield "version_missing", f"{before + 1}", f"the log goes from version {before} to {version}"
        before = version
        for action in actions:
            moved = action.get("txn")
            if moved and moved["version"] <= streams.get(moved["appId"], -1):
                yield "transaction_went_back", moved["appId"], f"to {moved['version']} in version {version}"
            if moved:
                streams[moved["appId"]] = moved["version"]
    for app, highest in streams.items():
        if (delta.transaction_version(app) or 0) < highest:
            yield "transaction_went_back", app, f"the table says {delta.transaction_version(app)}, its log {highest}"


def _entries(lake: Lake, table: Table) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    with duckdb.connect() as connection:
        lake.connect(connection)
        cursor = connection.execute(_ENTRIES, {"log": f"{lake.root}/{table.name}/_delta_log/*.json"})
        while row := cursor.fetchone():
            if found := _ENTRY.search(row[0]):
                yield int(found[1]), [msgspec.json.decode(line) for line in row[1].splitlines() if line.strip()]


def _file_problems(connection: duckdb.DuckDBPyConnection, lake: Lake, table: Table, file: File) -> Iterator[tuple[str, str]]:
    try:
        given = {"file": f"{lake.root}/{table.name}/{file.path}", "date": file.date}
        rows, misplaced, _ = connection.execute(_ROWS_OF_FILE.format(time=table.time), given).fetchone() or (0, 0, 0)
    except (duckdb.Error, OSError) as error:
        yield "file_unreadable", str(error).splitlines()[0]
        return
    if rows != file.rows:
        yield "rows_differ", f"{rows} in the file, {file.rows} in the log"
    if misplaced and table.is_by_day:
        yield "wrong_date", f"{misplaced} rows lie in another date's folder"


def _repetitions(connection: duckdb.DuckDBPyConnection, lake: Lake, table: Table, dates: list[str]) -> Iterator[Problem]:
    """Find rows of one message that are there more than once."""
    for day in dates:
        at = datetime.fromisoformat(f"{day}T00:00:00+00:00")
        lake.attach(connection, table, since=at, until=at)
        found = connection.execute(_REPEATED_ROWS.format(table=table.name)).fetchone()
        if found and found[0]:
            yield Problem(table.name, "row_repeated", day, f"{found[0]} rows are there more than once")
