"""The only joint between stages: Delta tables of Parquet files, on a local path or s3://; the one door to deltalake.

Appends are atomic. An append that names a transaction (an application and its version) happens at most once: a version that is
not above the committed one is refused before anything is written. Readers hand the list of live files to DuckDB. A column that a newer
version of the product declares is added by the first append that has it; older rows have null there. `ingest.lake_care` keeps the tables
small and whole.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from pyarrow.fs import FileSystem, LocalFileSystem

from ingest.errors import LakeConflict, LakeUnreadable
from ingest.lake_encodings import writer_properties
from ingest.lake_reading import OURS, reading, unreadable
from ingest.tables import TIMESTAMP, Table

_ARROW = {
    "string": pa.string(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    TIMESTAMP: pa.timestamp("us", tz="UTC"),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "map<string,double>": pa.map_(pa.string(), pa.float64()),
    "list<string>": pa.list_(pa.string()),
    "list<double>": pa.list_(pa.float64()),
}
_DUCKDB = {
    "string": "varchar",
    "int64": "bigint",
    "double": "double",
    "bool": "boolean",
    TIMESTAMP: "timestamptz",
    "map<string,string>": "map(varchar, varchar)",
    "map<string,double>": "map(varchar, double)",
    "list<string>": "varchar[]",
    "list<double>": "double[]",
}
_ATTEMPTS = 5
_CONFIGURATION = {"delta.checkpointInterval": "50", "delta.logRetentionDuration": "interval 7 days"}


@dataclass(frozen=True)
class AppTransaction:
    """Name of a writer's stream and the version this append brings it to; see the Delta protocol's `txn` action.

    `after` is the version that the writer believes to be committed: where another writer has moved on, the append is a conflict.
    """

    app: str
    version: int
    after: int | None = None


def arrow_schema(table: Table) -> pa.Schema:
    """Give the Arrow schema that a table is stored with."""
    return pa.schema([pa.field(column.name, _ARROW[column.type], column.nullable) for column in table.columns])


class Lake:
    """All tables under one root; every method names the table by its declaration."""

    def __init__(self, root: str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        self.root = str(root).rstrip("/")
        self._storage_options = dict(storage_options or {})
        self._handles = threading.local()  # a thread's own, so that none moves under another's check of a transaction

    def __reduce__(self) -> tuple[Any, ...]:
        """Go to another process as an address."""
        return Lake, (self.root, self._storage_options)

    def append(self, table: Table, rows: pa.Table, transaction: AppTransaction | Sequence[AppTransaction] | None = None) -> bool:
        """Append rows as one commit; False, with nothing written, where `transaction` (all, where several) is already in the lake.

        Columns that `rows` lacks become null. Raises LakeConflict when another commit of the same application came first; another commit
        that merely stood in the way (a new column, an expiry, the table's first rows) is met by trying again.
        """
        transactions = [transaction] if isinstance(transaction, AppTransaction) else list(transaction or ())
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._append(table, rows, transactions)
            except CommitFailedError as error:
                if attempt == _ATTEMPTS:
                    raise LakeConflict(f"{table.name}: {error}") from error
            except (DeltaError, OSError) as error:
                raise LakeUnreadable(f"cannot append to {self._path(table)}: {error}") from error
        raise AssertionError("BUG: neither appended nor failed")

    def _append(self, table: Table, rows: pa.Table, transactions: Sequence[AppTransaction]) -> bool:
        delta = self.open(table)
        if transactions and delta and _are_committed(delta, table, transactions):
            return False
        if delta:
            _refuse_other_types(delta, table)
        write_deltalake(
            delta or self._path(table),
            _conform(table, rows),
            mode="append",
            partition_by=None if delta else ["date"],
            configuration=None if delta else _configuration(table),
            schema_mode="merge" if delta else None,
            writer_properties=writer_properties(table),
            commit_properties=_commit_properties(transactions),
            storage_options=self._storage_options or None,
        )
        return True

    def committed(self, table: Table, app: str) -> int | None:
        """Tell the version up to which an application's appends are in the table."""
        delta = self.open(table)
        return delta.transaction_version(app) if delta else None

    def files(self, table: Table, since: datetime | None = None, until: datetime | None = None) -> list[str]:
        """List the live files, of the dates from `since` to `until` inclusive where given."""
        delta = self.open(table)
        if delta is None:
            return []
        return delta.file_uris(file_pruning_predicate=_date_filters(since, until))

    def attach(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: Table,
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        by_time: bool = False,
    ) -> None:
        """Make a table a view of DuckDB under its own name; a table without files is an empty view with the right columns.

        The view has the files of the dates from `since` to `until`; `by_time` leaves out those whose rows all lie before `since` or after
        `until` by the statistics of the table's time: of a day of many small files it reads the last hours alone. Raises LakeUnreadable
        for a damaged table; what only a query finds is told by `reading`.
        """
        self.connect(connection)
        delta = self.open(table)
        wanted = _time_filter(table, since, until) if by_time else _date_filters(since, until)
        files = delta.file_uris(file_pruning_predicate=wanted) if delta else []
        stored = {field.name for field in delta.schema().fields} if delta and files else set()
        columns = ", ".join(
            f'"{column.name}"' if column.name in stored else f'null::{_DUCKDB[column.type]} as "{column.name}"' for column in table.columns
        )
        listed = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
        rows = f"read_parquet([{listed}], hive_partitioning = true, hive_types = {{'date': VARCHAR}}, union_by_name = true)"
        source = f"from {rows}" if files else "where false"
        try:
            connection.execute(f'create or replace view "{table.name}" as select {columns} {source}')
        except OURS:
            raise
        except duckdb.Error as error:
            raise unreadable(self._path(table), error) from error

    @contextmanager
    def reading(self, connection: duckdb.DuckDBPyConnection | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
        """Query attached tables through a connection, a new one where none is given; a damaged table raises LakeUnreadable."""
        with ExitStack() as opened:
            yield opened.enter_context(reading(connection or opened.enter_context(duckdb.connect()), self.root))

    def connect(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Let a connection of DuckDB read the files that `files` names."""
        if self.root.startswith("s3://"):
            from ingest.lake_s3 import register  # noqa: PLC0415  # a lake on a disk needs no client of an object store

            register(connection, self._storage_options)

    def filesystem(self) -> tuple[FileSystem, str]:
        """Give what writes files beside the tables, and the root as it names it."""
        if self.root.startswith("s3://"):
            from ingest.lake_s3 import client  # noqa: PLC0415

            return client(self._storage_options), self.root.removeprefix("s3://")
        return LocalFileSystem(), self.root

    def version(self, table: Table) -> int | None:
        """Tell the newest version of a table; None where it does not exist yet."""
        delta = self.open(table)
        return delta.version() if delta else None

    def replace(self, table: Table, rows: pa.Table, dates: Iterable[str]) -> None:
        """Put `rows` in the place of all rows of the given dates, as one commit."""
        wanted = ", ".join(f"'{date}'" for date in sorted(dates))
        try:
            write_deltalake(
                self.open(table) or self._path(table),
                _conform(table, rows),
                mode="overwrite",
                predicate=f"date in ({wanted})" if self.open(table) else None,
                partition_by=["date"],
                writer_properties=writer_properties(table),
                storage_options=self._storage_options or None,
            )
        except CommitFailedError as error:
            raise LakeConflict(f"{table.name}: {error}") from error

    def open(self, table: Table) -> DeltaTable | None:
        """Give the Delta table as of now, for the care of it; the thread's handle reads only what was committed since its last use."""
        handles: dict[str, DeltaTable] = self._handles.__dict__
        with suppress(KeyError, DeltaError, OSError):
            handles[table.name].update_incremental()
            return handles[table.name]
        try:
            handles[table.name] = DeltaTable(self._path(table), storage_options=self._storage_options or None)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise unreadable(self._path(table), error) from error
        return handles[table.name]

    def _path(self, table: Table) -> str:
        return f"{self.root}/{table.name}"


def table_rows(table: Table, columns: Mapping[str, Any]) -> pa.Table:
    """Build rows of a table from columns (arrays, lists or numpy), null where a column is not given."""
    schema = arrow_schema(table)
    return pa.table({name: pa.array(values, schema.field(name).type) for name, values in columns.items()})


def _configuration(table: Table) -> Mapping[str, str]:
    """Keep statistics of the time alone: with those of 32 columns each live file makes every later commit 0.25 ms slower, so 0.1 ms."""
    return _CONFIGURATION | {"delta.dataSkippingStatsColumns": table.time}


def _are_committed(delta: DeltaTable, table: Table, transactions: Sequence[AppTransaction]) -> bool:
    """Say whether all are in the table; raises LakeConflict where only some are, or where a stream is not where its writer thinks."""
    versions = [delta.transaction_version(each.app) for each in transactions]
    known = [version is not None and version >= each.version for each, version in zip(transactions, versions, strict=True)]
    moved = [each.after is not None and each.after != (version or 0) for each, version in zip(transactions, versions, strict=True)]
    if not all(known) and (any(known) or any(moved)):
        raise LakeConflict(f"{table.name}: another writer has committed to these streams; read the marks and try again")
    return all(known)


def _refuse_other_types(delta: DeltaTable, table: Table) -> None:
    """Raise LakeUnreadable where a stored column has another type than declared: the library would cast, and 1.5 would become 1."""
    stored = {field.name: field.type for field in pa.schema(delta.schema().to_arrow())}
    for field in arrow_schema(table):
        if stored.get(field.name, field.type) != field.type:
            raise LakeUnreadable(f"{table.name}.{field.name} is {stored[field.name]} in the lake and {field.type} in this version")


def _conform(table: Table, rows: pa.Table) -> pa.Table:
    """Bring rows into the stored order and types, fill what is missing with null, and derive `date`."""
    schema = arrow_schema(table)
    unknown = set(rows.column_names) - set(schema.names)
    if unknown:
        raise AssertionError(f"BUG: {table.name} has no columns {sorted(unknown)}")
    arrays = []
    for field in schema:
        if field.name in rows.column_names:
            arrays.append(rows[field.name].cast(field.type))
        elif field.name == "date":
            arrays.append(pc.strftime(rows[table.time].cast(pa.timestamp("us", tz="UTC")), "%Y-%m-%d"))
        else:
            arrays.append(pa.nulls(rows.num_rows, field.type))
    return pa.table(arrays, schema=schema)


def _commit_properties(transactions: Sequence[AppTransaction]) -> CommitProperties | None:
    if not transactions:
        return None
    return CommitProperties(app_transactions=[Transaction(each.app, each.version) for each in transactions])


def _time_filter(table: Table, since: datetime | None, until: datetime | None) -> str | None:
    terms = [f"{column} {op} '{value}'" for column, op, value in _date_filters(since, until) or ()]
    terms += [f"{table.time} {op} '{at:%Y-%m-%dT%H:%M:%S.%fZ}'" for op, at in ((">=", since), ("<=", until)) if at]
    return " AND ".join(terms) or None


def _date_filters(since: datetime | None, until: datetime | None) -> list[tuple[str, str, Any]] | None:
    if since is None and until is None:
        return None
    first = (since or datetime(1970, 1, 1, tzinfo=UTC)).astimezone(UTC)
    last = (until or first + timedelta(days=36_500)).astimezone(UTC)
    return [("date", ">=", f"{first:%Y-%m-%d}"), ("date", "<=", f"{last:%Y-%m-%d}")]
