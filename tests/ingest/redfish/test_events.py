"""An event record becomes a row of `events` however little of it is there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.clock import parse_time
from ingest.errors import RecordRejected
from ingest.redfish.events import decode_event, event_key
from ingest.redfish.history import History
from ingest.redfish.payloads import read_json, sort_payload
from ingest.redfish.replay import Replay
from ingest.redfish.reports import Machine
from ingest.xid import catalogue_of

NOW = parse_time("2026-01-02T03:04:10Z")
GPU_PATH = "/redfish/v1/Systems/HGX_Baseboard_0/Processors/GPU_SXM_3"
CATALOGUE = catalogue_of(None)
MACHINE = Machine("n", gpu_uuids={"gpu3": "GPU-33"})


def test_full_record() -> None:
    """Time, component, message without its version, arguments and severity are kept."""
    event = decode_event(
        {
            "MessageId": "ResourceEvent.1.3.ResourceErrorThresholdExceeded",
            "Message": "The resource property has exceeded its threshold.",
            "MessageArgs": ["ECC", 7],
            "MessageSeverity": "Warning",
            "EventTimestamp": "2026-01-02T03:04:05+0000",
            "EventId": 41,
            "OriginOfCondition": {"@odata.id": GPU_PATH},
        },
        machine=MACHINE,
        received_at_ns=NOW,
        catalogue=CATALOGUE,
    )
    assert (event.kind, event.gpu_uuid, event.code, event.observed_at_ns) == ("bmc", "GPU-33", None, parse_time("2026-01-02T03:04:05Z"))
    assert msgspec.json.decode(event.detail or "") == {
        "message_id": "ResourceEvent.ResourceErrorThresholdExceeded",
        "message": "The resource property has exceeded its threshold.",
        "severity": "Warning",
        "component": "/Systems/HGX_Baseboard_0/Processors/GPU_SXM_3",
        "args": ["ECC", "7"],
        "event_id": "41",
    }


@pytest.mark.parametrize("origin", [GPU_PATH, {"@odata.id": GPU_PATH}])
@pytest.mark.parametrize("member", [{"Oem": {"Nvidia": {"ErrorId": "XID 79"}}}, {"Message": "GPU_SXM_3 driver error XID: 79, fell off"}])
def test_xid_joins_the_xids(origin: Any, member: dict[str, Any]) -> None:
    """An XID named by the error id or in the text is an event of kind xid about the GPU of its origin."""
    record = {"OriginOfCondition": origin, "Created": "2026-01-02T03:04:05Z", **member}
    event = decode_event(record, machine=MACHINE, received_at_ns=NOW, catalogue=CATALOGUE)
    assert (event.kind, event.code, event.use, event.gpu_uuid) == ("xid", 79, "label", "GPU-33")


def test_empty_record_is_an_event_at_receipt() -> None:
    """A record without members is an event of which nothing but its receipt is known."""
    event = decode_event({}, machine=MACHINE, received_at_ns=NOW, catalogue=CATALOGUE)
    assert (event.kind, event.observed_at_ns, event.detail) == ("bmc", NOW, '{"time_quality":"time_absent"}')


def test_ring_sent_again_is_known_and_repeated_ids_are_not_enough() -> None:
    """The same record is new once; another message under the same id is another event; without time and id each is new."""
    history = History()
    record = {"EventId": "8", "MessageId": "A.1.0.X", "EventTimestamp": "2026-01-02T03:04:05Z"}
    bare = {"MessageId": "A.1.0.X"}
    assert [history.is_new_event(event_key(body)) for body in (record, record, record | {"MessageId": "A.1.0.Y"})] == [True, False, True]
    assert [history.is_new_event(event_key(body)) for body in (bare, bare)] == [True, True]


def test_payload_is_sorted_by_what_its_records_are() -> None:
    """Records, references, a report in a record, a full buffer and what is none of them are told apart."""
    payload = sort_payload(
        {
            "Events": [
                {"MessageId": "A"},
                {"@odata.id": "/redfish/v1/x"},
                {"EventType": "Alert", "Oem": {"Dell": {"MetricValues": []}}},
                {"MessageId": "OpenBMC.0.5.EventBufferExceeded"},
                {"Members": []},
                None,
            ]
        }
    )
    assert (len(payload.records), payload.references, len(payload.reports), payload.has_gap) == (1, ["/redfish/v1/x"], 1, True)
    assert payload.counts == {"unknown_payload": 1, "not_a_record": 1}


def test_bare_record_is_a_record() -> None:
    """Bmcweb's replay sends the record without an event around it, with a number as its id."""
    assert sort_payload({"EventId": 7, "MessageId": "A"}).records == [{"EventId": 7, "MessageId": "A"}]


members = st.sampled_from(
    ["MessageId", "Message", "MessageArgs", "EventTimestamp", "EventId", "OriginOfCondition", "Oem", "Links", "MessageSeverity", "Severity"]
)
anything = st.one_of(
    st.none(),
    st.text(max_size=9),
    st.integers(),
    st.lists(st.text(max_size=3), max_size=2),
    st.just({"@odata.id": "/redfish/v1/Systems/S"}),
)


@given(st.dictionaries(members, anything, max_size=6))
def test_any_record_is_decoded(record: dict[str, Any]) -> None:
    """No record raises."""
    assert decode_event(record, machine=MACHINE, received_at_ns=NOW, catalogue=CATALOGUE).kind in ("bmc", "xid")
    event_key(record)


def test_byte_order_mark_before_json_is_passed_over() -> None:
    """JSON after a UTF-8 byte order mark is JSON; one in its middle is not."""
    assert read_json(b'\xef\xbb\xbf{"Id": "X"}') == {"Id": "X"}
    with pytest.raises(RecordRejected, match="not_json"):
        read_json(b'\xef\xbb\xbf\xef\xbb\xbf{"Id": "X"}')


XID_79 = {"Oem": {"Nvidia": {"ErrorId": "XID 79"}}, "EventId": "7"}
UNUSABLE = [
    pytest.param({"EventTimestamp": "1970-01-01T00:00:12Z"}, "clock_unset:1970-01-01T00:00:12Z", id="unset"),
    pytest.param({"EventTimestamp": "yesterday"}, "time_invalid:yesterday", id="no time"),
    pytest.param({"Created": "2036-01-02T03:04:05Z"}, "clock_skew:2036-01-02T03:04:05Z", id="ahead"),
    pytest.param({}, "time_absent", id="none"),
]


@pytest.mark.parametrize(("stamp", "quality"), UNUSABLE)
def test_xid_of_unknown_age_is_no_fresh_fault(stamp: dict[str, str], quality: str) -> None:
    """An XID without a usable time is told at its receipt with the reason, and excluded."""
    event = decode_event(XID_79 | stamp, machine=MACHINE, received_at_ns=NOW, catalogue=CATALOGUE)
    assert (event.kind, event.code, event.use, event.observed_at_ns) == ("xid", 79, "exclude", NOW)
    assert msgspec.json.decode(event.detail or "")["time_quality"] == quality


@pytest.mark.parametrize(("stamp", "quality"), UNUSABLE)
def test_xid_that_has_just_happened_needs_no_time(stamp: dict[str, str], quality: str) -> None:
    """What comes live happened when it came, whatever the BMC's clock says."""
    event = decode_event(XID_79 | stamp, machine=MACHINE, received_at_ns=NOW, catalogue=CATALOGUE, is_live=True)
    assert (event.kind, event.code, event.use, event.observed_at_ns) == ("xid", 79, "label", NOW)
    assert msgspec.json.decode(event.detail or "")["time_quality"] == quality


@pytest.mark.parametrize("stamp", ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05", "2015-01-02T03:04:05Z"])
def test_xid_with_a_time_keeps_its_use(stamp: str) -> None:
    """An event that says when it was, be it without a zone or long ago, is a label of that time."""
    event = decode_event(XID_79 | {"EventTimestamp": stamp}, machine=MACHINE, received_at_ns=NOW, catalogue=CATALOGUE)
    assert (event.kind, event.use, event.observed_at_ns) == ("xid", "label", parse_time(stamp.removesuffix("Z") + "Z"))


def test_replay_ends_with_the_first_lull() -> None:
    """Events are replayed until none came for 30 seconds of reading, and live from then on."""
    replay = Replay(opened_s=100.0)
    assert [replay.is_over_at(at_s) for at_s in (100.1, 129.0, 158.9)] == [False] * 3
    assert [replay.is_over_at(at_s) for at_s in (188.9, 189.0)] == [True, True]


def test_replay_does_not_last_for_ever() -> None:
    """Where events never cease, such as heartbeats, a replay is over after ten minutes."""
    replay = Replay(opened_s=0.0)
    assert [replay.is_over_at(at_s) for at_s in range(10, 620, 10)] == [False] * 59 + [True, True]
