"""Rejected messages go on their way again when they can be read, and each is in the lake once however often that is asked for."""

from __future__ import annotations

from pathlib import Path

import duckdb

from ingest.bus import Delivery
from ingest.lake import Lake
from ingest.messages import Message, encode
from ingest.rejects import FileRejects
from ingest.replays import distinct, select, write
from ingest.schema import EVENTS, Event

DAY = 1_750_000_000_000_000_000


def body(code: int, node: str = "n1", at: int = DAY) -> bytes:
    """Encode a message with one event as a collector does."""
    event = Event(node=node, kind="xid", code=code, observed_at_ns=at, received_at_ns=at, source="t")
    return encode(Message(v="1.0", table="events", node=node, origin="A" * 26, seq=5, rows=(event,)))


def keep(directory: Path, *bodies: tuple[int, bytes, str]) -> FileRejects:
    """Keep messages that were found at these offsets of one stream, with their reasons."""
    rejects = FileRejects(directory / "rejects")
    for offset, message, reason in bodies:
        rejects.put(Delivery("s", offset, "events", message), reason, "as it was said")
    return rejects


def codes(lake: Lake) -> list[int]:
    """Read the codes in the lake."""
    with duckdb.connect() as connection:
        lake.attach(connection, EVENTS)
        return [code for (code,) in connection.execute("select code from events order by code").fetchall()]


def test_messages_are_chosen_by_reason_and_table_and_count_once(tmp_path: Path) -> None:
    """A message that was kept twice after a crash is one message."""
    rejects = keep(tmp_path, (1, body(1), "unknown_version"), (1, body(1), "unknown_version"), (2, b"{", "malformed"))
    assert [message.offset for message in distinct(rejects.read())] == [1, 2]
    assert [message.offset for message in distinct(rejects.read(), reasons=["malformed"])] == [2]
    assert distinct(rejects.read(), tables=["jobs"]) == []


def test_what_still_cannot_be_read_is_counted_by_its_reason(tmp_path: Path) -> None:
    """Each message is judged as the writer would: its form, its times, and whether its values fit their columns."""
    bad = ((1, b"{", "malformed"), (2, body(2, at=-1), "impossible_time"), (3, body(1 << 64), "does_not_fit"), (4, body(4), "x"))
    selection = select(keep(tmp_path, *bad).read())
    assert [message.rows[0].code for message in selection.readable] == [4]
    assert selection.unreadable == {("events", "malformed"): 1, ("events", "impossible_time"): 1, ("events", "does_not_fit"): 1}


def test_a_replay_that_is_repeated_in_parts_and_another_order_adds_nothing(tmp_path: Path) -> None:
    """Whichever part was replayed before, and however far it came, every message is in the lake once."""
    lake, rejects = Lake(tmp_path / "lake"), keep(tmp_path, *((offset, body(offset), "x") for offset in range(6)))
    readable = select(distinct(rejects.read())).readable

    assert write(readable[3:5], lake, rejects) == 2
    assert write(readable, lake, rejects) == 4
    assert write(list(reversed(readable)), lake, rejects) == 0

    assert codes(lake) == [0, 1, 2, 3, 4, 5]


def test_equal_messages_from_two_places_are_two_messages(tmp_path: Path) -> None:
    """What was said twice is replayed twice: only the place where it was found tells messages apart."""
    lake, rejects = Lake(tmp_path / "lake"), keep(tmp_path, (1, body(7), "x"), (9, body(7), "x"))
    assert write(select(rejects.read()).readable, lake, rejects) == 2
    assert codes(lake) == [7, 7]
