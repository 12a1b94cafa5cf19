"""What a transaction wrote is there after a crash, once; what it did not write is not."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from alerting.causes import Cause
from alerting.database import Database, LedgerUnreadable
from alerting.ledger import Audit, Change, Ledger, OutboxEvent, PassRecord, Said
from alerting.lifecycle import OpenRecommendation
from alerting.outbox import Outbox
from alerting.rules import XIDS
from alerting.schema import Action


def memory(revision: int = 1, action: Action = Action.DRAIN_NOW, **more: Any) -> OpenRecommendation:
    fields: dict[str, Any] = {"recommendation_id": "rec_1", "node": "n1", "origin": "score", "urgency": "high", "p_fail": 0.4}
    times = {"opened_at_ns": 100, "updated_at_ns": 100, "expires_at_ns": 900}
    return OpenRecommendation(revision=revision, action=action, **{**fields, **times, **more})


def said(change: Change = "opened", key: str = "dc1/node/n1", event_id: str = "msg_1", **more: Any) -> Said:
    resolution = more.pop("resolution", None)
    kept = memory(**more)
    event = OutboxEvent(id=event_id, key=key, body=b"{}", expires_ns=900)
    audit = Audit(options={"none": 1.0}, budget={}, facts={})
    return Said(change=change, why="score", memory=kept, body=b'{"a":1}', audit=audit, event=event, resolution=resolution)


def test_a_recommendations_life(ledger: Ledger) -> None:
    """Opened mild, made severe, resolved: the entry keeps its start, its first drain, its severest action and its end."""
    ledger.write(PassRecord(at_ns=100, said=[said(action=Action.AVOID_NEW_GANGS)]), 1)
    ledger.write(PassRecord(at_ns=200, said=[said("updated", event_id="msg_2", revision=2)]), 2)
    assert ledger.open_recommendations()["n1"].revision == 2
    end = said("resolved", event_id="msg_3", revision=3, p_fail=0.1, action=Action.DRAIN_NOW, resolution="risk_cleared")
    ledger.write(PassRecord(at_ns=300, said=[end]), 3)
    (entry,) = ledger.entries()
    assert (entry.opened_ns, entry.drain_ns, entry.resolved_ns, entry.resolution) == (100, 200, 300, "risk_cleared")
    assert (entry.strongest, entry.revision, entry.first_p_fail, entry.p_fail) == (Action.DRAIN_NOW, 3, 0.4, 0.1)
    assert [(one.revision, one.change, one.issued_ns) for one in ledger.revisions("rec_1")] == [
        (1, "opened", 100),
        (2, "updated", 200),
        (3, "resolved", 300),
    ]
    assert (ledger.open_recommendations(), ledger.bodies(), ledger.bodies("rec_1")) == ({}, [], [b'{"a":1}'])


def test_one_open_recommendation_per_node(ledger: Ledger) -> None:
    """The file itself refuses a second open recommendation of a node, and the whole pass with it."""
    ledger.write(PassRecord(at_ns=100, said=[said()]), 1)
    second = said(event_id="msg_2", recommendation_id="rec_2")
    with pytest.raises(sqlite3.IntegrityError):
        ledger.write(PassRecord(at_ns=200, said=[second], marks={"outcomes_seen": 7}), 2)
    assert ledger.marks() == {}
    assert Outbox(ledger.database, "scheduler").counts() == {"pending": 1}


def test_everything_survives_reopening(tmp_path: Path) -> None:
    """Memory, causes, marks and grants are the same in the next process."""
    cause = Cause(node="n1", code="xid.79", kind="failure", component=None, response=XIDS[79], first_seen_ns=1, last_seen_ns=2)
    kept = said(budget="approved", granted_at_ns=150, act_by_ns=800)
    first = Ledger(tmp_path / "l.sqlite", endpoints=("a", "b"))
    first.write(PassRecord(at_ns=100, said=[kept], causes=[cause], marks={"m": 3}), 1)
    first.close()
    again = Ledger(tmp_path / "l.sqlite")
    assert again.open_recommendations() == {"n1": kept.memory}
    assert (again.causes(), again.marks(), again.grants(149), again.grants(150)) == ({cause.key: cause}, {"m": 3}, [("n1", 150)], [])
    assert [Outbox(again.database, name).counts() for name in ("a", "b")] == [{"pending": 1}, {"pending": 1}]
    again.close()


def test_held_memory_is_kept(ledger: Ledger) -> None:
    """Clocks of a held recommendation are written without a revision."""
    ledger.write(PassRecord(at_ns=100, said=[said()]), 1)
    ledger.write(PassRecord(at_ns=200, held=[memory(clear_since_ns=200)]), 2)
    assert ledger.open_recommendations()["n1"].clear_since_ns == 200
    assert len(ledger.revisions()) == 1


def test_newer_or_foreign_files_are_refused(tmp_path: Path) -> None:
    """A ledger of a newer version, or a file that is none, is refused with a clear message."""
    Database(tmp_path / "newer").close()
    with sqlite3.connect(tmp_path / "newer") as connection:
        connection.execute("pragma user_version = 99")
    connection.close()
    with pytest.raises(LedgerUnreadable, match="version 99"):
        Database(tmp_path / "newer")
    (tmp_path / "foreign").write_bytes(b"not a database, but long enough to be read as one" * 100)
    with pytest.raises(LedgerUnreadable, match="is no ledger"):
        Database(tmp_path / "foreign")


def test_writes_are_synchronous(ledger: Ledger) -> None:
    """The file uses a write-ahead log with full synchronisation."""
    assert ledger.database.query("pragma journal_mode") == [("wal",)]
    assert ledger.database.query("pragma synchronous") == [(2,)]
