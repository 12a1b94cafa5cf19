"""`forewarn topics` and `forewarn replay` against a real broker, as an operator runs them."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from forewarn import compose
from forewarn.cli import app
from forewarn.config import load
from ingest.bus import Delivery
from ingest.errors import StreamsMoved
from ingest.kafka_bus import KafkaRejects, KafkaSubscriber
from ingest.messages import Message, encode
from ingest.schema import TABLES, Event
from ingest.spool import Spooled

pytestmark = pytest.mark.kafka
BODY = encode(
    Message(
        v="1.0",
        table="events",
        node="n1",
        origin="A" * 26,
        seq=5,
        rows=(Event(node="n1", kind="xid", code=79, observed_at_ns=1_750_000_000_000_000_000, received_at_ns=1, source="t"),),
    )
)


@pytest.fixture
def site(broker: str, tmp_path: Path) -> Path:
    """Give the configuration of a site with topics of its own."""
    file = tmp_path / "forewarn.toml"
    name = uuid.uuid4().hex[:8]
    file.write_text(f'[bus]\nkind = "kafka"\nbootstrap = "{broker}"\nprefix = "c{name}"\ngroup = "g{name}"\npartitions = 2\n')
    return file


def run(site: Path, *arguments: str) -> Result:
    """Run a command of the site."""
    return CliRunner().invoke(app, [*arguments, "--config", str(site), "--json"])


def kinds(result: Result) -> set[str]:
    """Name the kinds of problems that a check found."""
    return {problem["kind"] for problem in json.loads(result.stdout)["problems"]}


def test_topics_are_created_once_as_configured(site: Path) -> None:
    """Every table has its topic and there is one for rejected messages; a second run changes nothing, and the check is content."""
    assert kinds(run(site, "topics", "check")) == {"missing"}
    first, second = (json.loads(run(site, "topics", "create").stdout) for _ in range(2))
    assert len(first["created"]) == len(TABLES) + 1
    assert second == {"created": [], "retention_set": []}
    checked = run(site, "topics", "check")
    assert (checked.exit_code, kinds(checked)) == (0, set())
    shown = {topic["topic"].partition(".")[2]: topic for topic in json.loads(run(site, "topics", "show").stdout)}
    assert (shown["events"]["partitions"], shown["events"]["lag"], shown["events"]["retention_h"]) == (2, 0, 168)
    assert (shown["rejected"]["lag"], shown["rejected"]["retention_h"]) == (None, 720)


def test_another_retention_is_found_and_set_and_other_partitions_are_only_told(site: Path) -> None:
    """Retention follows the configuration; partitions of a topic that holds messages stay, since a node's order rests on them."""
    run(site, "topics", "create")
    site.write_text(site.read_text().replace("partitions = 2", "partitions = 4\nretention_h = 24"))
    checked = run(site, "topics", "check")
    assert (checked.exit_code, kinds(checked)) == (1, {"partitions", "retention"})
    assert len(json.loads(run(site, "topics", "create").stdout)["retention_set"]) == len(TABLES)
    assert kinds(run(site, "topics", "check")) == {"partitions"}


def test_messages_that_nobody_reads_are_a_finding(site: Path) -> None:
    """A topic with messages and without a reader is named with what waits in it."""
    run(site, "topics", "create")
    publisher = compose.publisher_of(load(site))
    publisher.publish([Spooled("events", "A" * 26, 1, "events", "n1", 1, BODY)])
    publisher.close()
    (found,) = json.loads(run(site, "topics", "check").stdout)["problems"]
    assert (found["kind"], found["detail"]) == ("no_reader", "1 messages wait, 0 of 2 partitions have a reader")


def test_rejected_messages_are_listed_and_sent_again(site: Path) -> None:
    """The list counts by reason what can be read by now; a replay sends that, and tells what is still unreadable."""
    run(site, "topics", "create")
    connection = compose.kafka_of(load(site).bus)
    rejects = KafkaRejects(connection)
    rejects.put(Delivery("s", 1, "events", BODY), "unknown_version", "message version 7.0")
    rejects.put(Delivery("s", 2, "events", b"{"), "malformed", "at byte 1")

    listed = json.loads(run(site, "replay").stdout)
    assert [(row["reason"], row["messages"], row["readable_now"]) for row in listed] == [("malformed", 1, 0), ("unknown_version", 1, 1)]
    sent = json.loads(run(site, "replay", "--all").stdout)
    assert (sent["selected"], sent["sent"]) == (2, 1)
    assert sent["unreadable"] == [{"table": "events", "reason": "malformed", "messages": 1}]

    subscriber = KafkaSubscriber(connection, tables=("events",))
    assert until_read(subscriber) == ["replay-"]
    subscriber.close()


def until_read(subscriber: KafkaSubscriber) -> list[str]:
    """Read until something has come, and give the beginnings of the origins."""
    subscriber.open()
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        try:
            if found := subscriber.poll(0.2):
                return [json.loads(delivery.body)["origin"][:7] for delivery in found]
        except StreamsMoved:
            subscriber.rewind()
    return []


def test_a_message_near_the_limit_of_a_topic_is_rejected_without_stopping_the_writer(site: Path) -> None:
    """Its copy would not fit beside its reason: a beginning of it is kept with its place, where the whole message still lies."""
    run(site, "topics", "create")
    rejects = KafkaRejects(compose.kafka_of(load(site).bus))
    rejects.put(Delivery("s", 3, "events", b"\x00" * 1_040_000), "malformed", "at byte 0")
    (kept,) = rejects.read()
    assert (kept.offset, len(kept.body), kept.reason) == (3, 65_536, "malformed")
    assert "cut from 1040000 bytes" in kept.detail
