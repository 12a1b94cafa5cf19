"""`forewarn replay` on one machine, as an operator runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

from forewarn.cli import app
from ingest.bus import Delivery
from ingest.lake import Lake
from ingest.messages import Message, encode
from ingest.rejects import FileRejects
from ingest.schema import EVENTS, Event


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Give the configuration of a machine on which two messages were rejected, one of which can be read by now."""
    event = Event(node="n1", kind="xid", code=79, observed_at_ns=1_750_000_000_000_000_000, received_at_ns=1, source="t")
    body = encode(Message(v="1.0", table="events", node="n1", origin="A" * 26, seq=5, rows=(event,)))
    rejects = FileRejects(tmp_path / "rejected")
    rejects.put(Delivery("s", 1, "events", body), "unknown_version", "message version 7.0")
    rejects.put(Delivery("s", 2, "events", b"{"), "malformed", "at byte 1")
    (tmp_path / "forewarn.toml").write_text(f'[fleet]\nstate_dir = "{tmp_path}"\n[lake]\npath = "{tmp_path}/lake"\n')
    return tmp_path


def run(site: Path, *arguments: str) -> Any:
    """Run the command and give its result."""
    done = CliRunner().invoke(app, ["replay", *arguments, "--config", str(site / "forewarn.toml"), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_without_a_choice_it_lists_and_sends_nothing(site: Path) -> None:
    """Table, reason, number, what can be read by now, and the last place and detail; the lake is not touched."""
    assert run(site) == [
        {
            "table": "events",
            "reason": reason,
            "messages": 1,
            "readable_now": readable,
            "last_stream": "s",
            "last_offset": offset,
            "last_detail": detail,
        }
        for reason, readable, offset, detail in (("malformed", 0, 2, "at byte 1"), ("unknown_version", 1, 1, "message version 7.0"))
    ]
    assert not (site / "lake").exists()


def test_a_replay_writes_once_what_can_be_read(site: Path) -> None:
    """The second time the same message is sent and nothing is new; what is still unreadable is counted by its reason."""
    first, second = run(site, "--reason", "unknown_version"), run(site, "--all")
    assert first == {"selected": 1, "sent": 1, "rows_written": 1, "unreadable": []}
    assert (second["selected"], second["rows_written"]) == (2, 0)
    assert second["unreadable"] == [{"table": "events", "reason": "malformed", "messages": 1}]
    with duckdb.connect() as connection:
        Lake(site / "lake").attach(connection, EVENTS)
        assert connection.execute("select code from events").fetchall() == [(79,)]
