"""A rejected message is kept as it came, and goes on its way again when it can be read."""

from __future__ import annotations

from pathlib import Path

from ingest.bus import Delivery
from ingest.messages import Message, decode, encode
from ingest.rejects import FileRejects, reasons, replay
from ingest.schema import Event
from ingest.spool import Spool


def test_keeps_any_bytes_and_counts_reasons(tmp_path: Path) -> None:
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
    assert reasons(kept) == {("events", "malformed"): 1, ("jobs", "malformed"): 1}


def test_replay_spools_what_can_be_read_by_now_once(tmp_path: Path) -> None:
    """A message that is kept twice is spooled once under a new number; one that is still broken is left."""
    event = Event(node="n1", kind="xid", code=79, observed_at_ns=1, received_at_ns=2, source="t")
    good = encode(Message(v="1.0", table="events", node="n1", origin="A" * 26, seq=5, rows=(event,)))
    rejects, spool = FileRejects(tmp_path / "rejects"), Spool(tmp_path / "spool")
    for body, offset in ((good, 1), (b"{", 2), (good, 1)):
        rejects.put(Delivery("s", offset, "events", body), "does_not_fit", "")

    count = replay(rejects.read(), spool)
    taken = spool.take(10)
    spool.close()

    assert count == 1
    assert [(message.origin, message.table, decode(message.body).rows) for message in taken] == [(spool.origin, "events", (event,))]
