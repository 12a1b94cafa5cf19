"""Keep the lake small and whole: sort and merge files, remove what nobody needs, and find what is wrong.

Nothing here changes a row that a reader can see, except `expire`. A reader that has its list of files reads them until the vacuum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import structlog
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from ingest.lake import Lake, arrow_schema, writer_properties
from ingest.tables import Table

_BATCH_ROWS = 131_072
_ROWS_OF_FILE = (
    "select count(*), count(*) filter (strftime({time}, '%Y-%m-%d') <> $date) from read_parquet($file, hive_partitioning = false)"
)
_REPEATED_ROWS = "select count(*) from (select *, count(*) as n from {table} where origin is not null group by all having n > 1)"
_log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class TableStats:
    """What a table holds; `oldest` and `newest` are dates."""

    table: str
    version: int
    files: int
    rows: int
    size_bytes: int
    oldest: str | None
    newest: str | None


class Problem(NamedTuple):
    """Something wrong with a file or date of a table; `kind` is a constant."""

    table: str
    kind: str
    where: str
    detail: str


class _File(NamedTuple):
    path: str
    date: str
    rows: int
    size_bytes: int


def compact(lake: Lake, table: Table, *, today: date, memory_mb: int = 1024) -> list[str]:
    """Bring each date before `today` that has several files into one sorted order, and merge the small files of the others.

    Gives the dates that were sorted. A date that somebody appends to meanwhile is left for the next time.
    """
    delta = lake.open(table)
    if delta is None:
        return []
    counts = Counter(file.date for file in _files(delta))
    closed = [day for day, count in sorted(counts.items()) if count > 1 and day < f"{today:%Y-%m-%d}"]
    done = [day for day in closed if _sort_date(lake, table, day, memory_mb)]
    for day in sorted(counts.keys() - set(closed)):
        if counts[day] > 1:
            delta.update_incremental()
            delta.optimize.compact(partition_filters=[("date", "=", day)], writer_properties=writer_properties(table))
    return done


def vacuum(lake: Lake, table: Table, *, keep: timedelta = timedelta(days=7), is_dry: bool = False) -> list[str]:
    """Delete files that no version of the last `keep` names, those of killed writers included, and give their names."""
    delta = lake.open(table)
    if delta is None:
        return []
    hours = int(keep.total_seconds() // 3600)
    removed = delta.vacuum(retention_hours=hours, dry_run=is_dry, enforce_retention_duration=False, full=True)
    if not is_dry:
        delta.create_checkpoint()
        delta.cleanup_metadata()
    return removed


def expire(lake: Lake, table: Table, *, before: date) -> int:
    """Delete all rows of dates before `before` and say how many; the files go with the next vacuum."""
    delta = lake.open(table)
    if delta is None:
        return 0
    gone = [file for file in _files(delta) if file.date < f"{before:%Y-%m-%d}"]
    if gone:
        delta.delete(f"date < '{before:%Y-%m-%d}'")
    return sum(file.rows for file in gone)


def measure(lake: Lake, table: Table) -> TableStats | None:
    """Say what a table holds; None where it does not exist."""
    delta = lake.open(table)
    if delta is None:
        return None
    files = _files(delta)
    dates = sorted({file.date for file in files})
    return TableStats(
        table=table.name,
        version=delta.version(),
        files=len(files),
        rows=sum(file.rows for file in files),
        size_bytes=sum(file.size_bytes for file in files),
        oldest=dates[0] if dates else None,
        newest=dates[-1] if dates else None,
    )


def check(lake: Lake, table: Table) -> list[Problem]:
    """Hold a table against its declaration and its log, and read every row of it once."""
    delta = lake.open(table)
    if delta is None:
        return []
    problems = [Problem(table.name, kind, column, detail) for kind, column, detail in _schema_problems(delta, table)]
    for file in _files(delta):
        problems += [Problem(table.name, kind, file.path, detail) for kind, detail in _file_problems(lake, table, file)]
    if not problems:
        problems += _repetitions(lake, table, sorted({file.date for file in _files(delta)}))
    return problems


def _sort_date(lake: Lake, table: Table, day: str, memory_mb: int) -> bool:
    delta = lake.open(table)
    assert delta is not None, "BUG: the table is gone"
    files = delta.file_uris(file_pruning_predicate=[("date", "=", day)])
    with duckdb.connect() as connection:
        lake.connect(connection)
        connection.execute(f"set memory_limit = '{memory_mb}MB'")
        connection.execute("set timezone = 'UTC'")
        stored = {field.name for field in delta.schema().fields}
        columns = [column.name for column in table.columns if column.name in stored and column.name != "date"]
        rows = connection.read_parquet(files, union_by_name=True, hive_partitioning=False)
        ordered = rows.select(*columns, duckdb.ConstantExpression(day).alias("date")).order(", ".join(table.sort_by))
        try:
            write_deltalake(
                delta,
                _as_stored(table, ordered.to_arrow_reader(_BATCH_ROWS)),
                mode="overwrite",
                predicate=f"date = '{day}'",
                schema_mode="merge",
                writer_properties=writer_properties(table),
            )
        except CommitFailedError as error:
            _log.info("compaction_postponed", table=table.name, date=day, reason=str(error).splitlines()[0])
            return False
    return True


def _as_stored(table: Table, rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    schema = pa.schema([arrow_schema(table).field(name) for name in rows.schema.names])
    return pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in rows))


def _files(delta: DeltaTable) -> list[_File]:
    actions: Any = pa.table(delta.get_add_actions(flatten=True))
    names = ("path", "partition.date", "num_records", "size_bytes")
    return [_File(*values) for values in zip(*(actions.column(name).to_pylist() for name in names), strict=True)]


def _schema_problems(delta: DeltaTable, table: Table) -> Iterator[tuple[str, str, str]]:
    stored = {field.name: field for field in pa.schema(delta.schema().to_arrow())}
    for field in arrow_schema(table):
        if field.name in stored and stored[field.name].type != field.type:
            yield "column_type", field.name, f"{stored[field.name].type} in the lake, {field.type} declared"


def _file_problems(lake: Lake, table: Table, file: _File) -> Iterator[tuple[str, str]]:
    with duckdb.connect() as connection:
        lake.connect(connection)
        connection.execute("set timezone = 'UTC'")
        try:
            given = {"file": f"{lake.root}/{table.name}/{file.path}", "date": file.date}
            rows, misplaced = connection.execute(_ROWS_OF_FILE.format(time=table.time), given).fetchone() or (0, 0)
        except duckdb.Error as error:
            yield "file_unreadable", str(error).splitlines()[0]
            return
    if rows != file.rows:
        yield "rows_differ", f"{rows} in the file, {file.rows} in the log"
    if misplaced:
        yield "wrong_date", f"{misplaced} rows lie in another date's folder"


def _repetitions(lake: Lake, table: Table, dates: list[str]) -> Iterator[Problem]:
    """Find rows of one message that are there more than once."""
    for day in dates:
        at = datetime.fromisoformat(f"{day}T00:00:00+00:00")
        with duckdb.connect() as connection:
            lake.attach(connection, table, since=at, until=at)
            found = connection.execute(_REPEATED_ROWS.format(table=table.name)).fetchone()
        if found and found[0]:
            yield Problem(table.name, "row_repeated", day, f"{found[0]} rows are there more than once")
