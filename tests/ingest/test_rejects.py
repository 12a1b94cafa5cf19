"""A rejected message is kept as it came."""

from __future__ import annotations

from pathlib import Path

from ingest.bus import Delivery
from ingest.rejects import FileRejects


def test_keeps_any_bytes(tmp_path: Path) -> None:
    """What comes out is what went in, byte for byte; a torn last line is none."""
    rejects = FileRejects(tmp_path)
    rejects.put(Delivery("s", 1, "events", b"\x00\xff\n"), "malformed", "at byte 0")
    rejects.put(Delivery("s", 2, "jobs", b"{}"), "malformed", "no head")
    with (tmp_path / "events.jsonl").open("ab") as file:
        file.write(b'{"reason":"malfor')

    kept = list(rejects.read())

    assert [(one.table, one.offset, one.body, one.detail) for one in kept] == [
        ("events", 1, b"\x00\xff\n", "at byte 0"),
        ("jobs", 2, b"{}", "no head"),
    ]


def test_a_torn_line_costs_no_line_after_it(tmp_path: Path) -> None:
    """What a full disk or a kill left half is passed over; what is kept later is read."""
    rejects = FileRejects(tmp_path)
    (tmp_path / "events.jsonl").write_bytes(b'{"reason":"half')
    rejects.put(Delivery(stream="s", offset=1, table="events", body=b"x"), "unreadable", "")
    assert [kept.offset for kept in rejects.read()] == [1]


def test_the_oldest_are_forgotten_where_they_become_many(tmp_path: Path) -> None:
    """A table's files stay bounded however many messages are rejected, and the newest are kept in their order."""
    rejects = FileRejects(tmp_path, most_bytes=1000)
    for offset in range(100):
        rejects.put(Delivery("s", offset, "events", b"x" * 100), "malformed", "")
    kept = [one.offset for one in rejects.read()]
    assert kept == list(range(kept[0], 100))
    assert 1000 <= sum(file.stat().st_size for file in tmp_path.iterdir()) <= 2500
