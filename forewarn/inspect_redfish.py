"""Show what the collector would make of what BMCs said: its records, one JSON object a line, then what it counted.

A stream (`.sse`) is a raw body of an event stream; another file is a report, an event or a log entry as JSON, a collection of them, or
the script of an HTTP exchange (`http_script`: a list of answers with `expect`, `status`, `headers` and `body`), which shows what the
collector reads out of each answer. Files are taken in order as said by one BMC, so that what is repeated appears once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ingest.errors import RecordRejected
from ingest.redfish.backoff import clamp_retry_s
from ingest.redfish.events import decode_event, event_key
from ingest.redfish.history import History
from ingest.redfish.outcomes import Asked, Outcome, judge, refusal
from ingest.redfish.payloads import Body, read_json, sort_payload
from ingest.redfish.reports import Machine, decode_report
from ingest.redfish.sse import SseParser
from ingest.schema import TABLE_OF_RECORD, Observed
from ingest.xid import catalogue_of

Line = dict[str, Any]


class Inspector:
    """One BMC as far as files tell of it; `received_at_ns` is when all of it is taken to have come."""

    def __init__(self, *, received_at_ns: int, node: str = "inspected", catalogue: Path | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self.references: list[str] = []
        self._machine = Machine(node)
        self._received_at_ns = received_at_ns
        self._history = History()
        self._catalogue = catalogue_of(catalogue)

    def take(self, data: bytes) -> list[Observed]:
        """Take one payload; what cannot be read is counted."""
        try:
            return self.take_body(read_json(data))
        except RecordRejected as rejection:
            self.counts[rejection.reason] += 1
            return []

    def take_body(self, body: Body) -> list[Observed]:
        """Take a report, an event or a log entry."""
        payload = sort_payload(body)
        self.counts.update(payload.counts)
        self.counts["gap"] += payload.has_gap
        self.references += payload.references
        records = [record for report in payload.reports for record in self._report(report)]
        fresh = [record for record in payload.records if self._history.is_new_event(event_key(record))]
        return records + [self._event(record) for record in fresh]

    def _event(self, record: Body) -> Observed:
        return decode_event(record, machine=self._machine, received_at_ns=self._received_at_ns, catalogue=self._catalogue)

    def _report(self, body: Body) -> list[Observed]:
        try:
            decoded = decode_report(body, machine=self._machine, received_at_ns=self._received_at_ns)
        except RecordRejected as rejection:
            self.counts[rejection.reason] += 1
            return []
        self.counts.update(decoded.counts)
        news = self._history.take(decoded.report, decoded.readings)
        self.counts["known"] += len(decoded.readings) - len(news.fresh)
        return [*news.fresh, *news.gone]


def event_streams(files: Sequence[Path], *, received_at_ns: int, node: str = "inspected", chunk_bytes: int = 65_536) -> Iterator[Line]:
    """Take recorded bodies of event streams."""
    inspector = Inspector(received_at_ns=received_at_ns, node=node)
    for file in files:
        body = file.read_bytes()
        parser = SseParser()
        events = 0
        try:
            for start in range(0, len(body), chunk_bytes):
                for event in parser.feed(body[start : start + chunk_bytes]):
                    events += 1
                    yield from _lines(file, inspector.take(event.data))
        except RecordRejected as rejection:
            inspector.counts[rejection.reason] += 1
        stream = {"events": events, "comments": parser.comments, "last_id": parser.last_id, "retry_s": clamp_retry_s(parser.retry_ms)}
        yield _counters(file, inspector) | stream


def resources(files: Sequence[Path], *, received_at_ns: int, node: str = "inspected") -> Iterator[Line]:
    """Take recorded resources, collections of them, and scripts of exchanges."""
    inspector = Inspector(received_at_ns=received_at_ns, node=node)
    for file in files:
        try:
            body = read_json(file.read_bytes())
        except RecordRejected as rejection:
            inspector.counts[rejection.reason] += 1
            body = {}
        script = body.get("http_script")
        members = body.get("Members")
        if isinstance(script, list):
            yield from ({"file": file.name, "table": "exchange", **exchange(step)} for step in script if isinstance(step, Mapping))
        elif isinstance(members, list):
            for member in members:
                yield from _lines(file, inspector.take_body(member) if isinstance(member, Mapping) else [])
        elif body:
            yield from _lines(file, inspector.take_body(body))
        yield _counters(file, inspector)


def exchange(step: Mapping[str, Any]) -> Line:
    """Tell what the collector reads out of one answer of a BMC."""
    asked_for = str(step.get("expect", ""))
    if "status" not in step:
        return {"asked": asked_for, **({"query": step["query"]} if "query" in step else {})}
    is_stream = "SSE" in asked_for
    asked = (Asked.FILTERED_STREAM if "filter" in asked_for else Asked.STREAM) if is_stream else Asked.RESOURCE
    headers = {str(name): str(value) for name, value in step.get("headers", {}).items()}
    media_type = headers.get("Content-Type", "text/event-stream" if is_stream else "application/json")
    body = step.get("body", "")
    raw = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    outcome = judge(asked, int(step["status"]), media_type, raw)
    line: Line = {"asked": asked_for, "status": step["status"], "outcome": str(outcome)}
    if outcome is Outcome.OK:
        return line
    refused = refusal(outcome, int(step["status"]), raw, headers)
    return line | {"state": refused.state, "detail": refused.detail, "retry_after_s": refused.retry_after_s}


def _counters(file: Path, inspector: Inspector) -> Line:
    counts, references = {reason: count for reason, count in inspector.counts.items() if count}, inspector.references
    inspector.counts, inspector.references = Counter(), []
    return {"file": file.name, "table": "counters", "counted": counts, "references": references}


def _lines(file: Path, records: Iterable[Observed]) -> Iterator[Line]:
    for record in records:
        yield {"file": file.name, "table": TABLE_OF_RECORD[type(record)], **msgspec.to_builtins(record)}
