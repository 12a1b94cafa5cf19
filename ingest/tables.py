"""Declare each table of the lake once, as a frozen record whose fields carry type, unit and meaning.

A record class is the declaration: its annotated fields are the columns, in order. In records a timestamp is a field
`<name>_at_ns` or `as_of_ns` (int, UTC nanoseconds since the epoch); in the lake the same column drops `_ns` (timestamp, UTC, µs).
Every table also has the columns that the writer adds: `origin` and `seq` (which spool said it, as its how-manieth message) and
`date` (the partition: the UTC day of `observed_at`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

TIMESTAMP = "timestamp"
_NAMES = {str: "string", int: "int64", float: "double", bool: "bool"}


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row before it reaches the lake; None means that the hardware did not say."""


class Means(NamedTuple):
    """What a record field means and in which unit: `temp_c: Annotated[float | None, Means("GPU core", "°C")] = None`."""

    text: str
    unit: str = ""


@dataclass(frozen=True)
class Column:
    """One column: `type` is string, int64, double, bool, timestamp, map<string,string>, map<string,double> or list<string>."""

    name: str
    type: str
    unit: str
    meaning: str
    nullable: bool = True

    @property
    def field(self) -> str:
        """Name the record field that feeds this column."""
        return f"{self.name}_ns" if self.type == TIMESTAMP else self.name


WRITER_COLUMNS = (
    Column("origin", "string", "", "spool that sent the row (a ULID made with the spool)"),
    Column("seq", "int64", "", "number of the message within its origin; only grows"),
    Column("date", "string", "", "partition: UTC day of observed_at, YYYY-MM-DD", nullable=False),
)


@dataclass(frozen=True)
class Table:
    """A Delta table: its columns in order, the timestamp that places a row, and the order of rows inside a file.

    `is_by_day`: a row lies in the partition of its own day; otherwise its writer chooses the partition.
    """

    name: str
    meaning: str
    own_columns: tuple[Column, ...]
    sort_by: tuple[str, ...]
    time: str = "observed_at"
    record: type[Record] | None = None
    is_by_day: bool = True

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """All columns as stored, the writer's last."""
        return (*self.own_columns, *WRITER_COLUMNS)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All column names as stored."""
        return tuple(column.name for column in self.columns)


def table_of(record: type[Record], name: str, meaning: str, sort_by: Sequence[str]) -> Table:
    """Derive the table of a record class."""
    return Table(name, meaning, tuple(_columns(record)), tuple(sort_by), record=record)


def _columns(record: type[Record]) -> list[Column]:
    hints = get_type_hints(record, include_extras=True)
    return [_column(name, hints[name]) for name in record.__struct_fields__]


def _column(name: str, hint: Any) -> Column:
    if get_origin(hint) is not Annotated:
        raise AssertionError(f"BUG: field {name} has no unit and meaning")
    kind, means = get_args(hint)
    options = [option for option in get_args(kind) if option is not type(None)] if _is_union(kind) else [kind]
    stored = _stored_type(options[0])
    if name.endswith("_at_ns") or name == "as_of_ns":
        name, stored = name.removesuffix("_ns"), TIMESTAMP
    return Column(name, stored, means.unit, means.text, nullable=_is_union(kind))


def _is_union(kind: Any) -> bool:
    return type(None) in get_args(kind)


def _stored_type(kind: Any) -> str:
    if get_origin(kind) is dict:
        key, value = get_args(kind)
        return f"map<{_NAMES[key]},{_NAMES[value]}>"
    if get_origin(kind) in (tuple, list):
        return f"list<{_NAMES[get_args(kind)[0]]}>"
    return _NAMES[kind]
