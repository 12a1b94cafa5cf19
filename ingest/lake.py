"""The only joint between stages: Delta tables of Parquet files, on a local path or s3://; the one door to deltalake.

Appends are atomic. An append that names a transaction (an application and its version) happens at most once: a version that is
not above the committed one is refused before anything is written. Readers hand the list of live files to DuckDB.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from ingest.errors import LakeConflict, LakeUnreadable
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
_WRITER_PROPERTIES = WriterProperties(compression="ZSTD", compression_level=1, max_row_group_size=262_144)
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

    def append(self, table: Table, rows: pa.Table, transaction: AppTransaction | Sequence[AppTransaction] | None = None) -> bool:
        """Append rows as one commit; False, with nothing written, where `transaction` (all, where several) is already in the lake.

        Columns that `rows` lacks become null. Raises LakeConflict when another commit of the same application came first.
        """
        delta = self._open(table)
        transactions = [transaction] if isinstance(transaction, AppTransaction) else list(transaction or ())
        if transactions and delta and _are_committed(delta, table, transactions):
            return False
        try:
            write_deltalake(
                delta or self._path(table),
                _conform(table, rows),
                mode="append",
                partition_by=None if delta else ["date"],
                configuration=None if delta else _CONFIGURATION,
                writer_properties=_WRITER_PROPERTIES,
                commit_properties=_commit_properties(transactions),
                storage_options=self._storage_options or None,
            )
        except CommitFailedError as error:
            raise LakeConflict(f"{table.name}: {error}") from error
        except (DeltaError, OSError) as error:
            raise LakeUnreadable(f"cannot append to {self._path(table)}: {error}") from error
        return True

    def committed(self, table: Table, app: str) -> int | None:
        """Tell the version up to which an application's appends are in the table."""
        delta = self._open(table)
        return delta.transaction_version(app) if delta else None

    def files(self, table: Table, since: datetime | None = None, until: datetime | None = None) -> list[str]:
        """List the live files, of the dates from `since` to `until` inclusive where given."""
        delta = self._open(table)
        if delta is None:
            return []
        return delta.file_uris(file_pruning_predicate=_date_filters(since, until))

    def attach(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: Table,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> None:
        """Make a table a view of DuckDB under its own name; a table without files is an empty view with the right columns."""
        files = self.files(table, since, until)
        columns = ", ".join(f'"{column.name}"' for column in table.columns)
        if files:
            listed = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
            source = f"read_parquet([{listed}], hive_partitioning = true, hive_types = {{'date': VARCHAR}}, union_by_name = true)"
        else:
            source = f"_empty_{table.name}"
            connection.register(source, arrow_schema(table).empty_table())
        connection.execute(f'create or replace view "{table.name}" as select {columns} from {source}')

    def version(self, table: Table) -> int | None:
        """Tell the newest version of a table; None where it does not exist yet."""
        delta = self._open(table)
        return delta.version() if delta else None

    def replace(self, table: Table, rows: pa.Table, dates: Iterable[str]) -> None:
        """Put `rows` in the place of all rows of the given dates, as one commit."""
        wanted = ", ".join(f"'{date}'" for date in sorted(dates))
        try:
            write_deltalake(
                self._open(table) or self._path(table),
                _conform(table, rows),
                mode="overwrite",
                predicate=f"date in ({wanted})" if self._open(table) else None,
                partition_by=["date"],
                writer_properties=_WRITER_PROPERTIES,
                storage_options=self._storage_options or None,
            )
        except CommitFailedError as error:
            raise LakeConflict(f"{table.name}: {error}") from error

    def _open(self, table: Table) -> DeltaTable | None:
        try:
            return DeltaTable(self._path(table), storage_options=self._storage_options or None)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise LakeUnreadable(f"cannot open {self._path(table)}: {error}") from error

    def _path(self, table: Table) -> str:
        return f"{self.root}/{table.name}"


def table_rows(table: Table, columns: Mapping[str, Any]) -> pa.Table:
    """Build rows of a table from columns (arrays, lists or numpy), null where a column is not given."""
    schema = arrow_schema(table)
    return pa.table({name: pa.array(values, schema.field(name).type) for name, values in columns.items()})


def _are_committed(delta: DeltaTable, table: Table, transactions: Sequence[AppTransaction]) -> bool:
    """Say whether all are in the table; raises LakeConflict where only some are, or where a stream is not where its writer thinks."""
    versions = [delta.transaction_version(each.app) for each in transactions]
    known = [version is not None and version >= each.version for each, version in zip(transactions, versions, strict=True)]
    moved = [each.after is not None and each.after != (version or 0) for each, version in zip(transactions, versions, strict=True)]
    if not all(known) and (any(known) or any(moved)):
        raise LakeConflict(f"{table.name}: another writer has committed to these streams; read the marks and try again")
    return all(known)


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


def _date_filters(since: datetime | None, until: datetime | None) -> list[tuple[str, str, Any]] | None:
    if since is None and until is None:
        return None
    first = (since or datetime(1970, 1, 1, tzinfo=UTC)).astimezone(UTC)
    last = (until or first + timedelta(days=36_500)).astimezone(UTC)
    return [("date", ">=", f"{first:%Y-%m-%d}"), ("date", "<=", f"{last:%Y-%m-%d}")]
