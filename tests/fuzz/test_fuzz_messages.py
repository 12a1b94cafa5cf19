"""Messages that no collector would send: `make fuzz` gives a million of them, a plain test run some hundreds."""

from __future__ import annotations

import os
import random
import re
import typing
from typing import Any

from ingest.deliveries import check_delivery
from ingest.errors import RecordRejected
from ingest.messages import VERSION, Message, decode, encode
from ingest.schema import TABLES

EXAMPLES = int(os.environ.get("FOREWARN_TEST_FUZZ", "300"))
AT_NS = 1_790_000_000 * 10**9
TYPICAL: dict[Any, Any] = {
    str: "gpu-1",
    int: AT_NS,
    float: 1.5,
    bool: True,
    dict[str, str]: {"temp_c": "lost"},
    tuple[str, ...]: ("n1", "n2"),
}
VALUES = (
    b"null",
    b"-1",
    b"1e400",
    b"18446744073709551615",
    b"1" + b"0" * 40,
    b'"\xc3"',
    b"[]",
    b"{}",
    b'""',
    b"true",
    b"1.5",
    b'"\\ud800"',
)
PIECES = (b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\0", b"\xff", b"9", b"e")
REASONS = {"malformed", "unknown_version", "unknown_table", "does_not_fit", "impossible_time"}


def typical(table: str) -> bytes:
    """Write a message of one table with every field of its rows filled."""
    record = TABLES[table].record
    fields = {}
    for name, hint in typing.get_type_hints(record).items():
        options = [option for option in (typing.get_args(hint) if hint not in TYPICAL else (hint,)) if option in TYPICAL]
        fields[name] = TYPICAL[options[0]]
    row = record(**fields)
    return encode(Message(v=VERSION, table=table, node="n1", origin="o", seq=1, rows=(row, row)))


BODIES = [typical(table) for table in sorted(TABLES)]


def damaged(rng: random.Random, body: bytes) -> bytes:
    """Give some values of a body another, and damage it in a few places."""
    for _ in range(rng.randrange(3)):
        value = rng.choice(list(re.finditer(rb"(?<=:)[^,:{}\[\]]+", body)) or [re.match(b"", body)])
        assert value is not None
        body = body[: value.start()] + rng.choice(VALUES) + body[value.end() :]
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        at = rng.randrange(len(body) + 1)
        body = body[:at] + rng.choice(PIECES) + body[at + rng.randrange(3) :]
    return body


def take(body: bytes) -> bool:
    """Take a message as the writer does: whether it became rows; what was rejected has a known reason."""
    try:
        message = check_delivery(body)
    except RecordRejected as rejected:
        reason = rejected.reason
    else:
        reason = ""
        assert decode(encode(message)).rows == message.rows
    assert not reason or reason in REASONS
    return not reason


def test_typical_messages_are_taken() -> None:
    """What the damage starts from is sound."""
    assert all(map(take, BODIES))


def test_damaged_messages_in_bulk() -> None:
    """As many messages as asked for, from one seed: each becomes rows that its table can hold or is rejected; both happen."""
    rng = random.Random(20261129)
    taken = sum(take(damaged(rng, rng.choice(BODIES))) for _ in range(EXAMPLES))
    assert 0 < taken < EXAMPLES
