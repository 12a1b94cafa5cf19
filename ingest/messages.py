"""The wire format: one JSON message per table and node poll, typed by msgspec.

A message names its table, node, origin (the spool that sent it) and sequence number; the rows are records of `ingest.schema`.
A reader meets a newer minor version and reads on (unknown fields are kept out); an unknown major version is rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import msgspec

from ingest.errors import RecordRejected
from ingest.schema import TABLE_OF_RECORD, TABLES, Observed

VERSION = "1.0"


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader needs before it knows the table."""

    v: str
    table: str
    node: str


class Message(Head, frozen=True, kw_only=True):
    """Rows of one table about one node, as the `seq`-th message of their origin."""

    origin: str
    seq: int
    rows: tuple[Any, ...]


_encoder = msgspec.json.Encoder()
_head = msgspec.json.Decoder(Head)


def encode(message: Message) -> bytes:
    """Write a message as one line of JSON."""
    return _encoder.encode(message)


def decode(body: bytes) -> Message:
    """Read a message into typed rows; raises RecordRejected with reason `malformed`, `unknown_version` or `unknown_table`."""
    try:
        head = _head.decode(body)
        if head.v.partition(".")[0] != VERSION.partition(".")[0]:
            raise RecordRejected("unknown_version", f"message version {head.v}, this reader knows {VERSION}")
        if head.table not in TABLES:
            raise RecordRejected("unknown_table", head.table)
        return _decoder(head.table).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # RecursionError: nested too deep
        raise RecordRejected("malformed", str(error)) from error


@cache
def _decoder(table: str) -> msgspec.json.Decoder[Message]:
    rows = tuple.__class_getitem__((TABLES[table].record, ...))
    typed = msgspec.defstruct(f"Message_{table}", [("rows", rows)], bases=(Message,), frozen=True, kw_only=True)
    return msgspec.json.Decoder(typed)


def group(records: Iterable[Observed]) -> list[tuple[str, str, Sequence[Observed]]]:
    """Sort records into (table, node, rows), each in order of appearance: one message each."""
    groups: dict[tuple[str, str], list[Observed]] = {}
    for record in records:
        key = (TABLE_OF_RECORD[type(record)], record.node)
        groups.setdefault(key, []).append(record)
    return [(table, node, rows) for (table, node), rows in groups.items()]
