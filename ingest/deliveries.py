"""A message of the bus as rows of its table: as a whole where it can be, else row by row, so that an odd row costs itself alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import pyarrow as pa

from ingest.bus import Delivery
from ingest.clock import NS
from ingest.columns import arrow_table
from ingest.errors import RecordRejected
from ingest.messages import VERSION, Message, decode, encode, part
from ingest.metrics import WRITER_NEWER
from ingest.schema import TABLES, Observed
from ingest.tables import Table

_EARLIEST_NS, _LATEST_NS = 0, 7_258_118_400 * NS  # 1970 to 2200: outside it is a broken clock, and would make a partition of its own
_BY_ROW = ("malformed", "impossible_time")


class Odd(NamedTuple):
    """What of a message cannot be written, as a message of its own with the rows as they came, and why its first one cannot."""

    delivery: Delivery
    error: RecordRejected


class Read(NamedTuple):
    """A message with the rows that can be read, and the others."""

    message: Message
    odd: Odd | None = None


def read_delivery(table: Table, delivery: Delivery) -> Read:
    """Read a message; raises RecordRejected where it is none of this table, or no row of it can be written."""
    try:
        message, odd = _whole(delivery), None
    except RecordRejected as error:
        if error.reason not in _BY_ROW:
            raise
        message, odd = _part(table, delivery)
    if message.v != VERSION:
        WRITER_NEWER.inc()
    return Read(message, odd)


def odd_of(table: Table, delivery: Delivery) -> Odd:
    """Find the rows of a message that do not fit; that is the message as it came where no row does."""
    try:
        odd = _part(table, delivery).odd
    except RecordRejected as error:
        return Odd(delivery, error)
    assert odd is not None, "BUG: a message that does not fit has rows that do not"
    return odd


def fits(table: Table, message: Message, row: Observed) -> bool:
    """Tell whether one row of a message can be written."""
    try:
        _check_row(table, message, row)
    except RecordRejected:
        return False
    return True


def check_delivery(body: bytes) -> Message:
    """Read a message as the writer does; raises RecordRejected where a row of it cannot become one of its table."""
    table = decode(body).table
    message = _whole(Delivery("", 0, table, body))
    _check_fit(TABLES[table], message)
    return message


def arrow_of(table: Table, messages: Sequence[Message]) -> pa.Table:
    """Turn the rows of messages into columns; raises pyarrow.ArrowInvalid or OverflowError where a value does not fit its column."""
    rows = [row for message in messages for row in message.rows]
    built = arrow_table(table, rows)
    origins = [message.origin for message in messages for _ in message.rows]
    seqs = [message.seq for message in messages for _ in message.rows]
    return built.append_column("origin", pa.array(origins, pa.string())).append_column("seq", pa.array(seqs, pa.int64()))


def _whole(delivery: Delivery) -> Message:
    message = decode(delivery.body)
    _check_table(message, delivery.table)
    _check_times(message.rows)
    return message


def _part(table: Table, delivery: Delivery) -> Read:
    parted = part(delivery.body, partial(_check_row, table))
    _check_table(parted.sound, table.name)
    if parted.error is None:
        return Read(parted.sound)
    if not parted.sound.rows:
        raise parted.error
    return Read(parted.sound, Odd(delivery._replace(body=encode(parted.odd)), parted.error))


def _check_table(message: Message, table: str) -> None:
    if message.table != table:
        raise RecordRejected("wrong_table", f"a message of {message.table} in the stream of {table}")


def _check_row(table: Table, message: Message, row: Observed) -> None:
    _check_table(message, table.name)
    _check_times((row,))
    _check_fit(table, msgspec.structs.replace(message, rows=(row,)))


def _check_times(rows: Sequence[Observed]) -> None:
    if not all(_EARLIEST_NS <= row.observed_at_ns < _LATEST_NS for row in rows):
        raise RecordRejected("impossible_time", "observed_at is not between 1970 and 2200")


def _check_fit(table: Table, message: Message) -> None:
    try:
        arrow_of(table, [message])
    except (pa.ArrowInvalid, OverflowError) as error:
        raise RecordRejected("does_not_fit", str(error)) from error
