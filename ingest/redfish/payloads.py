"""Sort what came over a stream into reports, event records and references, by its type and else by its shape.

A payload is a MetricReport, an Event with records, or a bare record (bmcweb's replay); a record may carry a report in its `Oem`, or be
nothing but a reference. One bad record never costs the others.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from ingest.errors import RecordRejected

Body = Mapping[str, object]


@dataclass
class Payload:
    """Contents of one payload; `has_gap`: the BMC says that its buffer could not replay all that was missed."""

    reports: list[Body] = field(default_factory=list)
    records: list[Body] = field(default_factory=list)
    references: list[str] = field(default_factory=list)
    has_gap: bool = False
    is_live: bool = False  # its events have just happened
    counts: Counter[str] = field(default_factory=Counter)


def read_json(data: bytes) -> Body:
    """Decode a JSON object, also after a byte order mark; raises RecordRejected `not_json` or `not_an_object`."""
    try:
        body = msgspec.json.decode(data.removeprefix(codecs.BOM_UTF8))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # RecursionError: nested too deep
        raise RecordRejected("not_json", str(error)) from error
    if not isinstance(body, dict):
        raise RecordRejected("not_an_object", type(body).__name__)
    return body


def sort_payload(body: Body) -> Payload:
    """Sort one payload; what is neither a report nor an event is counted as `unknown_payload`."""
    payload = Payload()
    if _is_report(body):
        payload.reports.append(body)
    elif isinstance(records := body.get("Events"), list):
        for record in records:
            _sort_record(record, payload)
    else:
        _sort_record(body, payload)
    return payload


def _is_report(body: Body) -> bool:
    return str(body.get("@odata.type", "")).startswith("#MetricReport.") or isinstance(body.get("MetricValues"), list)


def _sort_record(record: object, payload: Payload) -> None:
    if not isinstance(record, dict):
        payload.counts["not_a_record"] += 1
        return
    oem = record.get("Oem")
    if isinstance(oem, dict) and (report := _report_in(oem)) is not None:
        payload.reports.append(report)
    elif set(record) == {"@odata.id"} and isinstance(record["@odata.id"], str):
        payload.references.append(record["@odata.id"])
    elif str(record.get("MessageId", "")).endswith(".EventBufferExceeded"):
        payload.has_gap = True
    elif "MessageId" in record or "EventId" in record or "Message" in record:
        payload.records.append(record)
    else:
        payload.counts["unknown_payload"] += 1


def _report_in(oem: Body) -> Body | None:
    candidates = (oem, *oem.values())
    return next((body for body in candidates if isinstance(body, dict) and isinstance(body.get("MetricValues"), list)), None)
