"""The wire format: one JSON message per table and node poll, typed by msgspec.

A message names its table, node, origin (the spool that sent it) and sequence number; the rows are records of `ingest.schema`.
A reader meets a newer minor version and reads on (unknown fields are kept out); an unknown major version is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec

from ingest.errors import RecordRejected
from ingest.schema import TABLE_OF_RECORD, TABLES, Job, Observed

VERSION = "1.0"
_NODES_A_ROW = 32  # of a job: some 500 bytes of names


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


class _RawMessage(Message, frozen=True, kw_only=True):
    rows: tuple[msgspec.Raw, ...]


_encoder = msgspec.json.Encoder()
_head = msgspec.json.Decoder(Head)
_raw = msgspec.json.Decoder(_RawMessage)
_MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # RecursionError: nested too deep


def encode(message: Message) -> bytes:
    """Write a message as one line of JSON."""
    return _encoder.encode(message)


def decode(body: bytes) -> Message:
    """Read a message into typed rows; raises RecordRejected with reason `malformed`, `unknown_version` or `unknown_table`."""
    try:
        return _decoder(_head_of(body).table).decode(body)
    except _MALFORMED as error:
        raise RecordRejected("malformed", str(error)) from error


class Parted(NamedTuple):
    """A message taken apart: the rows that can be read, the others as they came, and why the first of these cannot (None: all can)."""

    sound: Message
    odd: Message
    error: RecordRejected | None


def part(body: bytes, check: Callable[[Message, Any], None]) -> Parted:
    """Read a message row by row; a row is odd where it is none of its table, or `check` (message, row) raises RecordRejected.

    Raises RecordRejected as `decode` does where it is not the rows that cannot be read.
    """
    try:
        read = _row_decoder(_head_of(body).table)
        message = _raw.decode(body)
    except _MALFORMED as error:
        raise RecordRejected("malformed", str(error)) from error
    sound, odd, errors = [], [], []
    for raw in message.rows:
        try:
            row = _row_of(read, raw)
            check(message, row)
        except RecordRejected as error:
            odd.append(raw)
            errors.append(error)
        else:
            sound.append(row)
    return Parted(_with(message, sound), _with(message, odd), errors[0] if errors else None)


def _with(message: Message, rows: Sequence[Any]) -> Message:
    return Message(v=message.v, table=message.table, node=message.node, origin=message.origin, seq=message.seq, rows=tuple(rows))


def _row_of(read: msgspec.json.Decoder[Any], raw: msgspec.Raw) -> Any:
    try:
        return read.decode(raw)
    except _MALFORMED as error:
        raise RecordRejected("malformed", str(error)) from error


def _head_of(body: bytes) -> Head:
    head = _head.decode(body)
    if head.v.partition(".")[0] != VERSION.partition(".")[0]:
        raise RecordRejected("unknown_version", f"message version {head.v}, this reader knows {VERSION}")
    if head.table not in TABLES:
        raise RecordRejected("unknown_table", head.table)
    return head


@cache
def _decoder(table: str) -> msgspec.json.Decoder[Message]:
    rows = tuple.__class_getitem__((TABLES[table].record, ...))
    typed = msgspec.defstruct(f"Message_{table}", [("rows", rows)], bases=(Message,), frozen=True, kw_only=True)
    return msgspec.json.Decoder(typed)


@cache
def _row_decoder(table: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(TABLES[table].record)


def group(records: Iterable[Observed]) -> list[tuple[str, str, Sequence[Observed]]]:
    """Sort records into (table, node, rows), each in order of appearance: one message each."""
    groups: dict[tuple[str, str], list[Observed]] = {}
    for record in records:
        key = (TABLE_OF_RECORD[type(record)], record.node)
        groups.setdefault(key, []).append(record)
    return [(table, node, rows) for (table, node), rows in groups.items()]


def portions(rows: Sequence[Observed], most_rows: int = 500) -> Iterator[Sequence[Observed]]:
    """Cut the rows of a message into messages far below a broker's limit of 1 MB; the nodes of a job weigh as much as rows."""
    start = weight = 0
    for place, row in enumerate(rows):
        more = 1 + (len(row.nodes) // _NODES_A_ROW if isinstance(row, Job) else 0)
        if weight + more > most_rows and place > start:
            yield rows[start:place]
            start, weight = place, 0
        weight += more
    yield rows[start:]
