"""Streams and reports that no BMC would send: `make fuzz` gives a million of them, a plain test run some hundreds."""

from __future__ import annotations

import math
import os
import random
from pathlib import Path

from ingest.clock import NS
from ingest.errors import RecordRejected
from ingest.messages import Message, decode, encode
from ingest.redfish.events import decode_event, event_key
from ingest.redfish.history import History
from ingest.redfish.payloads import read_json, sort_payload
from ingest.redfish.reports import Machine, decode_report
from ingest.redfish.sse import SseParser
from ingest.schema import QUALITY, ChassisReading
from ingest.xid import catalogue_of

EXAMPLES = int(os.environ.get("FOREWARN_TEST_FUZZ", "300"))
NOW_NS = 1_790_000_000 * NS
FOLDER = Path(__file__).parents[1] / "cases" / "redfish"
STREAMS = [path.read_bytes() for path in sorted(FOLDER.glob("*.sse"))]
PAYLOADS = [path.read_bytes() for path in sorted(FOLDER.glob("[23]*.json"))]
MACHINE, CATALOGUE = Machine("n1", gpu_uuids={"gpu0": "GPU-1"}), catalogue_of(None)
PIECES = (b"\n", b"\r", b"\n\n", b"data:", b"data: ", b"id:", b":", b"retry: 9", b"\0", b"\xef\xbb\xbf", b"\xc3", b"null", b'"', b"{", b"[")
PIECES += (b"9" * 400, b"9" * 5000)


def damaged(rng: random.Random, body: bytes) -> bytes:
    """Damage a body in a few places."""
    for _ in range(rng.randrange(5)):
        at = rng.randrange(len(body) + 1)
        body = body[:at] + rng.choice(PIECES) + body[at + rng.randrange(6) :]
    return body


def chunks(rng: random.Random, body: bytes) -> list[bytes]:
    """Cut a body at random."""
    cuts = sorted(rng.randrange(len(body) + 1) for _ in range(rng.randrange(8)))
    return [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]


def take(data: bytes) -> None:
    """Take a payload as the collector does; whatever comes of it can be sent and stored."""
    try:
        payload = sort_payload(read_json(data))
    except RecordRejected:
        return
    rows: list[ChassisReading] = []
    for body in payload.reports:
        try:
            rows += History().take("r", decode_report(body, machine=MACHINE, received_at_ns=NOW_NS).readings).fresh
        except RecordRejected:
            continue
    for row in rows:
        assert row.value is None or math.isfinite(row.value)
        assert row.quality is None or row.quality in QUALITY
        assert 0 <= row.observed_at_ns < 2**63
    events = [decode_event(record, machine=MACHINE, received_at_ns=NOW_NS, catalogue=CATALOGUE) for record in payload.records]
    assert len([event_key(record) for record in payload.records]) == len(events)
    for table, sent in (("chassis_readings", tuple(rows)), ("events", tuple(events))):
        message = Message(v="1.0", table=table, node="n1", origin="o", seq=1, rows=sent)
        assert decode(encode(message)).rows == sent


def test_damaged_streams_in_bulk() -> None:
    """As many damaged streams as asked for, from one seed: each gives the same events whole and cut, each of them read or rejected."""
    rng = random.Random(20261130)
    for _ in range(EXAMPLES):
        body = damaged(rng, rng.choice(STREAMS) + rng.choice(STREAMS))
        whole, cut = SseParser(), SseParser()
        events = list(whole.feed(body))
        assert [event for chunk in chunks(rng, body) for event in cut.feed(chunk)] == events
        assert (cut.last_id, cut.retry_ms, cut.comments) == (whole.last_id, whole.retry_ms, whole.comments)
        for event in events:
            take(event.data)


def test_damaged_payloads_in_bulk() -> None:
    """As many damaged payloads as asked for, from one seed: each is read or rejected."""
    rng = random.Random(20261201)
    for _ in range(EXAMPLES):
        take(damaged(rng, rng.choice(PAYLOADS)))
