"""A revision as a CloudEvent 1.0 in structured mode: one signed blob, the exact bytes that are stored, signed and sent."""

from __future__ import annotations

from typing import Any

import msgspec
from cloudevents.core.bindings.http import to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from ulid import ULID

from alerting.contract import require
from alerting.ledger import Change, OutboxEvent
from alerting.schema import DATA_SCHEMA, EVENT_TYPE, Recommendation
from ingest.clock import NS, ns_of

CONTENT_TYPE = "application/cloudevents+json"


def new_id(prefix: str, at_ns: int) -> str:
    """Make an id that sorts by time: `msg_` or `rec_` and a ULID."""
    return f"{prefix}{ULID.from_timestamp(at_ns / NS)}"


def payload(recommendation: Recommendation) -> dict[str, Any]:
    """Turn a recommendation into plain JSON types and check it; raises RecordRejected where it breaks the contract."""
    data: dict[str, Any] = msgspec.to_builtins(recommendation)
    require("recommendation", data)
    return data


def event_of(change: Change, recommendation: Recommendation, event_id: str) -> OutboxEvent:
    """Wrap one revision for the wire."""
    data = payload(recommendation)
    cluster, node = recommendation.target.cluster, recommendation.target.nodes[0].name
    attributes = {
        "id": event_id,
        "source": f"/forewarn/{cluster}",
        "type": EVENT_TYPE.format(change=change),
        "subject": f"node/{node}",
        "time": recommendation.issued_at,
        "datacontenttype": "application/json",
        "dataschema": DATA_SCHEMA,
        "partitionkey": f"{cluster}/{node}",
        "sequence": f"{recommendation.revision:010d}",
    }
    body = to_structured(CloudEvent(attributes, data), JSONFormat()).body
    return OutboxEvent(id=event_id, key=recommendation.dedup_key, body=body, expires_ns=ns_of(recommendation.expires_at))
