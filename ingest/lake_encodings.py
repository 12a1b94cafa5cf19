"""How the columns of a table are stored in its files: what belongs into a dictionary, and what is smaller in another encoding."""

from __future__ import annotations

from functools import cache
from typing import Any

from deltalake import ColumnProperties, WriterProperties

from ingest.tables import TIMESTAMP, Column, Table

_CONTINUOUS_UNITS = frozenset({"°C", "W", "V", "A", "s", "rpm", "MB/s"})
_FINE_UNITS = frozenset({"ns", "us", "mJ"})


@cache
def writer_properties(table: Table) -> WriterProperties:
    """Choose how a table's columns are stored.

    Measured on samples as fleets send them: 31 B a row and 710-820 k rows/s per core, against 37 B and 580 k with the writer's defaults and
    54 B where every number leaves the dictionary: values that repeat belong into it, continuous gauges and fine counters do not.
    """
    encodings = {column.name: encoding for column in table.columns if (encoding := encoding_of(column))}
    return WriterProperties(
        compression="ZSTD",
        compression_level=1,
        max_row_group_size=262_144,
        column_properties={name: ColumnProperties(dictionary_enabled=False, encoding=encoding) for name, encoding in encodings.items()},
    )


def encoding_of(column: Column) -> Any:
    """Name the encoding of a column that leaves the dictionary; None for one that belongs into it."""
    if column.type == TIMESTAMP or column.name == "seq" or (column.type == "int64" and column.unit in _FINE_UNITS):
        return "DELTA_BINARY_PACKED"
    is_continuous = column.type == "double" and column.unit in _CONTINUOUS_UNITS and "limit" not in column.name
    return "BYTE_STREAM_SPLIT" if is_continuous else None
