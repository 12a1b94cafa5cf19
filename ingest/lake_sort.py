"""Write the rows of one date anew, in the table's order, as few files: what a compaction puts in the place of many small ones.

The library's own writer takes batches from several threads and mixes their order; this one keeps it, in constant memory: DuckDB sorts on
disk where it must, and the files are written one after the other. They are not part of the table before their commit.
"""

from __future__ import annotations

import json
import math
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction
from pyarrow.fs import FileSystem

from ingest.clock import SystemClock
from ingest.lake import Lake
from ingest.lake_encodings import encoding_of
from ingest.tables import Table

ROW_GROUP_ROWS = 262_144
_LEAVES: tuple[tuple[Callable[[pa.DataType], bool], tuple[str, ...]], ...] = (
    (pa.types.is_map, (".key_value.key", ".key_value.value")),
    (pa.types.is_list, (".list.element",)),
)


class SortedFile(NamedTuple):
    """A file that was written: what a commit has to add for it, and its rows."""

    action: AddAction
    rows: int


class _Span(NamedTuple):
    """Rows of a file that is being written: how many, and their first and last time."""

    rows: int
    first: datetime | None
    last: datetime | None


def write_sorted(
    lake: Lake, delta: DeltaTable, table: Table, day: str, paths: Sequence[str], *, target_bytes: int, memory_mb: int
) -> list[SortedFile]:
    """Write the rows of the given files of a date in order, with every stored column, known to this version or not."""
    schema = pa.schema([field for field in pa.schema(delta.schema().to_arrow()) if field.name != "date"])
    with tempfile.TemporaryDirectory(prefix="forewarn-sort-") as scratch, duckdb.connect() as connection:
        lake.connect(connection)
        connection.execute(f"set memory_limit = '{memory_mb}MB'")
        connection.execute(f"set temp_directory = '{scratch}'")
        connection.execute("set timezone = 'UTC'")
        files = [f"{lake.root}/{table.name}/{path}" for path in paths]
        rows = connection.read_parquet(files, union_by_name=True, hive_partitioning=False)
        stored = set(rows.columns)
        columns = [name if name in stored else f"null as {name}" for name in schema.names]
        ordered = rows.project(", ".join(columns)).order(", ".join(name for name in table.sort_by if name in stored))
        batches = (batch.cast(schema) for batch in ordered.to_arrow_reader(ROW_GROUP_ROWS))
        return list(_write_files(lake, table, day, schema, batches, target_bytes=target_bytes))


def _write_files(
    lake: Lake, table: Table, day: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch], *, target_bytes: int
) -> Iterator[SortedFile]:
    filesystem, root = lake.filesystem()
    batch = next(batches, None)
    while batch is not None:
        path = f"date={day}/part-00000-{uuid.uuid4()}-c000.zstd.parquet"
        place = f"{root}/{table.name}/{path}"
        span = _Span(0, None, None)
        with filesystem.open_output_stream(place) as sink, _parquet(table, schema, sink) as writer:
            while batch is not None and (span.rows == 0 or sink.tell() < target_bytes):
                writer.write_batch(batch, row_group_size=ROW_GROUP_ROWS)
                span = _widened(span, batch.column(table.time))
                batch = next(batches, None)
        yield SortedFile(_add(path, _size(filesystem, place), day, _statistics(table, span)), span.rows)


def _add(path: str, size: int, day: str, statistics: str) -> AddAction:
    return AddAction(
        path=path,
        size=size,
        partition_values={"date": day},
        modification_time=SystemClock().now_ns() // 1_000_000,
        data_change=False,
        stats=statistics,
    )


def _parquet(table: Table, schema: pa.Schema, sink: pa.NativeFile) -> pq.ParquetWriter:
    declared = {column.name: encoding_of(column) for column in table.columns}
    encodings = {name: encoding for name in schema.names if (encoding := declared.get(name))}
    dictionary = [leaf for field in schema if field.name not in encodings for leaf in _leaves(field)]
    return pq.ParquetWriter(
        sink, schema, compression="zstd", compression_level=1, use_dictionary=dictionary, column_encoding=encodings or None
    )


def _leaves(field: pa.Field) -> list[str]:
    """Name the columns that a field has inside a Parquet file."""
    endings = next((endings for holds, endings in _LEAVES if holds(field.type)), ("",))
    return [field.name + ending for ending in endings]


def _widened(span: _Span, times: pa.Array) -> _Span:
    found = pc.min_max(times)
    first, last = found["min"].as_py(), found["max"].as_py()
    return _Span(
        span.rows + len(times),
        min((at for at in (span.first, first) if at is not None), default=None),
        max((at for at in (span.last, last) if at is not None), default=None),
    )


def _statistics(table: Table, span: _Span) -> str:
    """Give a file's statistics as the Delta protocol wants them: milliseconds, rounded away from the rows."""
    found: dict[str, object] = {"numRecords": span.rows}
    if span.first and span.last:
        last = span.last + timedelta(microseconds=math.ceil(span.last.microsecond / 1000) * 1000 - span.last.microsecond)
        found |= {"minValues": {table.time: _ms(span.first)}, "maxValues": {table.time: _ms(last)}}
    return json.dumps(found)


def _ms(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _size(filesystem: FileSystem, place: str) -> int:
    return int(filesystem.get_file_info(place).size)
