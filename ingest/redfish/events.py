"""Read an event record of a BMC into a row of `events`; an XID that it names joins the XIDs of the other sources."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ingest.redfish.identity import ROOT, place_of
from ingest.redfish.reports import Machine
from ingest.redfish.times import find_time
from ingest.schema import Event
from ingest.xid import Catalogue

Body = Mapping[str, object]
_XID = re.compile(r"\bXID[\s:=#]*(\d{1,4})\b", re.IGNORECASE)
_VERSION = re.compile(r"\.\d+(?:\.\d+)+(?=\.)")  # ResourceEvent.1.3.ResourceChanged


class Detail(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What `events.detail` says about an event of a BMC, as JSON."""

    message_id: str | None = None
    message: str | None = None
    severity: str | None = None
    component: str | None = None
    args: tuple[str, ...] = ()
    oem_error_id: str | None = None
    event_id: str | None = None
    time_quality: str | None = None


def decode_event(record: Body, *, machine: Machine, received_at_ns: int, catalogue: Catalogue, is_live: bool = False) -> Event:
    """Read one record; every member may be missing. `is_live` claims that the event has just happened.

    An XID without a usable time that may be of any age is excluded: an old fault must not look new.
    """
    time = find_time((record.get("EventTimestamp"), record.get("Created")), received_at_ns)
    origin = origin_of(record)
    detail = Detail(
        message_id=_text(record.get("MessageId"), _VERSION),
        message=_text(record.get("Message")),
        severity=_text(record.get("MessageSeverity")) or _text(record.get("Severity")),
        component=origin,
        args=_args(record),
        oem_error_id=_oem_error_id(record),
        event_id=_text(record.get("EventId")),
        time_quality=time.quality,
    )
    xid = _xid(detail)
    is_undated = time.is_of_receipt and not is_live
    use = None if xid is None else catalogue.use(xid)
    return Event(
        node=machine.node,
        observed_at_ns=time.at_ns,
        received_at_ns=received_at_ns,
        source="redfish",
        kind="bmc" if xid is None else "xid",
        gpu_uuid=_gpu_uuid(origin, machine),
        code=xid,
        use="exclude" if xid is not None and is_undated else use,
        detail=msgspec.json.encode(detail).decode(),
    )


def event_key(record: Body) -> tuple[str, ...] | None:
    """Name an event for deduplication: ids repeat and BMCs send their ring again, so no single member is enough.

    None for an event without time and id: another one like it would be another event.
    """
    if record.get("EventTimestamp") is None and record.get("Created") is None and record.get("EventId") is None:
        return None
    members = (
        record.get("MessageId"),
        record.get("EventTimestamp") or record.get("Created"),
        origin_of(record),
        record.get("EventId"),
        _args(record),
    )
    return tuple(str(member) for member in members)


def origin_of(record: Body) -> str | None:
    """Find the path of the component concerned; vendors send a link, a plain string or nothing."""
    origin = record.get("OriginOfCondition")
    if origin is None and isinstance(links := record.get("Links"), dict):
        origin = links.get("OriginOfCondition")
    if isinstance(origin, dict):
        origin = origin.get("@odata.id")
    return origin.removeprefix(ROOT).rstrip("/") if isinstance(origin, str) and origin else None


def _gpu_uuid(origin: str | None, machine: Machine) -> str | None:
    place = place_of(origin.partition("#")[0]) if origin else None
    if place is None or not place.device.startswith("gpu"):
        return None
    return machine.gpu_uuids.get(place.device.partition("/")[0])


def _text(member: object, without: re.Pattern[str] | None = None) -> str | None:
    if isinstance(member, bool) or not isinstance(member, str | int) or member == "":
        return None
    return without.sub("", str(member)) if without else str(member)


def _args(record: Body) -> tuple[str, ...]:
    args = record.get("MessageArgs")
    return tuple(str(arg) for arg in args) if isinstance(args, list) else ()


def _oem_error_id(record: Body) -> str | None:
    oem = record.get("Oem")
    nvidia = oem.get("Nvidia") if isinstance(oem, dict) else None
    return _text(nvidia.get("ErrorId")) if isinstance(nvidia, dict) else None


def _xid(detail: Detail) -> int | None:
    for text in (detail.oem_error_id, detail.message, *detail.args):
        if text and (found := _XID.search(text)):
            return int(found[1])
    return None
