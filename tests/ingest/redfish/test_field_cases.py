"""Inputs modelled on public reports of people who run GPU fleets, each with the outcome that it must have.

`tests/cases/redfish/cases.json` names the source of each. The exchanges among them are played against an emulated BMC in `test_stream`,
`test_session` and `test_source`; here is what the collector reads out of each answer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forewarn.inspect_redfish import event_streams, resources
from ingest.redfish.outcomes import Asked, Outcome, judge
from ingest.redfish.sse import SseParser

FOLDER = Path(__file__).resolve().parents[2] / "cases" / "redfish"
INDEX = json.loads((FOLDER / "cases.json").read_text())
STREAMS = sorted(name for name, case in INDEX.items() if case["kind"] == "sse")


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize("name", STREAMS)
def test_streams_are_cut_as_expected(name: str, size: int) -> None:
    """Fed whole, byte by byte and in pieces of seven, a stream gives the listed events and comments."""
    body = (FOLDER / f"{name}.sse").read_bytes()
    parser = SseParser()
    events = [event for start in range(0, len(body), size) for event in parser.feed(body[start : start + size])]
    expected = INDEX[name]["expect_events"]
    assert [(event.type, event.id, event.data.decode()) for event in events] == [(e["event"], e["id"], e["data"]) for e in expected]
    assert parser.comments == INDEX[name]["comments"]
    assert parser.retry_ms == next((event["retry"] for event in expected if event["retry"] is not None), None)


class Told:
    """What inspecting a case tells."""

    def __init__(self, lines: list[dict[str, Any]]) -> None:
        self.rows = [line for line in lines if line["table"] == "chassis_readings"]
        self.events = [line for line in lines if line["table"] == "events"]
        self.counters = next(line for line in lines if line["table"] == "counters")
        self.exchanges = [line for line in lines if line["table"] == "exchange"]

    def column(self, *names: str) -> list[Any]:
        rows = [tuple(row.get(name) for name in names) for row in self.rows]
        return [row[0] for row in rows] if len(names) == 1 else rows


@pytest.fixture
def tell(received_at_ns: int) -> Any:
    """Inspect a case by its number."""

    def inspect(number: str) -> Told:
        file = next(path for path in sorted(FOLDER.iterdir()) if path.name.startswith(number + "-"))
        inspected = event_streams if file.suffix == ".sse" else resources
        return Told(list(inspected([file], received_at_ns=received_at_ns)))

    return inspect


def test_01_multiline_json(tell: Any) -> None:
    """Pretty JSON over many data lines is one report."""
    assert tell("01").column("value") == [30.5]


def test_02_comments_without_blank_lines(tell: Any) -> None:
    """Comments around a report without space after the colon are signs of life, not events."""
    told = tell("02")
    assert told.column("value") == [30.5]
    assert (told.counters["events"], told.counters["comments"]) == (1, 2)


def test_03_crlf(tell: Any) -> None:
    """CRLF line ends give two events; the second report holds the same value of the same series under another name."""
    told = tell("03")
    assert (told.counters["events"], told.column("value")) == (2, [30.5])


@pytest.mark.parametrize("number", ["05", "06"])
def test_05_06_unicode(tell: Any, number: str) -> None:
    """Characters over chunks, and U+2028 or U+0085 inside a string, leave a report whole."""
    assert tell(number).column("value") == [30.5]


def test_07_truncated(tell: Any) -> None:
    """The event in which the stream ends is dropped with its id."""
    told = tell("07")
    assert (told.column("value"), told.counters["events"], told.counters["last_id"]) == ([30.5], 1, "4")


def test_08_no_final_blank(tell: Any) -> None:
    """Without a blank line nothing is dispatched."""
    told = tell("08")
    assert (told.rows, told.counters["events"], told.counters["last_id"]) == ([], 0, "")


def test_09_id_only(tell: Any) -> None:
    """A block of an id alone dispatches nothing and sets the last id; an event that says nothing is counted."""
    told = tell("09")
    assert (told.counters["events"], told.counters["last_id"], told.counters["counted"]) == (1, "42", {"unknown_payload": 1})


def test_11_retry(tell: Any) -> None:
    """`retry` is the least delay before the stream is opened again."""
    told = tell("11")
    assert (told.column("value"), told.counters["retry_s"], told.counters["last_id"]) == ([30.5], 15.0, "1001")


def test_13_repeated_ids(tell: Any) -> None:
    """Two payloads under one id are two events."""
    assert [json.loads(event["detail"])["message_id"] for event in tell("13").events] == ["A.X", "A.Y"]


def test_14_report_in_an_event(tell: Any) -> None:
    """A report nested in an event's Oem is read."""
    assert tell("14").column("quantity", "device", "value") == [("fan_rpm", "fan1a", 5040.0)]


def test_17_missing_members(tell: Any) -> None:
    """A record without MemberId and EventType is the XID that its error id names; a reference is to be fetched; the next event arrives."""
    told = tell("17")
    assert [(event["kind"], event["code"]) for event in told.events] == [("xid", 79)]
    assert told.counters["references"] == ["/redfish/v1/Systems/HGX_Baseboard_0/LogServices/EventLog/Entries/9"]
    assert (told.column("value"), told.counters["last_id"]) == ([30.5], "338")


def test_18_bad_json(tell: Any) -> None:
    """What is not JSON is counted, and the next event is read."""
    told = tell("18")
    assert (told.column("value"), told.counters["counted"]) == ([30.5], {"not_json": 1})


def test_19_html(tell: Any) -> None:
    """A web page gives no event, and its media type is refused before it is parsed."""
    assert tell("19").counters["events"] == 0
    assert judge(Asked.STREAM, 200, "text/html") is Outcome.WRONG_TYPE


def test_22_nan_and_stale(tell: Any) -> None:
    """`nan` is invalid, a stale value is kept with its flag, a good one is good; their own times serve."""
    assert tell("22").column("value", "quality", "device") == [(None, "invalid", "gpu0"), (32.9375, "stale", "gpu1"), (41.0, None, "gpu2")]


def test_23_durations(tell: Any) -> None:
    """Durations are seconds; an empty one is nothing."""
    assert tell("23").column("value", "quality") == [(62.5, None), (259200.000000001, None), (None, "blank")]


def test_24_words(tell: Any) -> None:
    """Words keep their text and get the number of their enumeration; elements of arrays keep their index, arrays their JSON."""
    told = tell("24")
    assert told.column("quantity", "value", "text")[:5] == [
        ("link_up", 1.0, "LinkUp"),
        ("row_remap_failed", 1.0, "true"),
        ("pcie_gen", 5.0, "Gen5"),
        ("throttle_reason_set", None, "SwPowerCap"),
        ("throttle_reason_set", None, '["Idle","AppClock"]'),
    ]
    assert told.rows[3]["sensor"].endswith("#/Oem/Nvidia/ThrottleReasons/0")
    active = [(row["quantity"], row["device"]) for row in told.rows[5:] if row["value"] == 1.0]
    assert active == [("throttle_sw_power", "gpu0")]


def test_25_missing_values(tell: Any) -> None:
    """An absent, a null and a `null` value are rows without value, each with its reason."""
    assert tell("25").column("value", "quality") == [(None, "absent"), (None, "blank"), (None, "blank")]


def test_28_timestamps(tell: Any, received_at_ns: int) -> None:
    """Good times are used, times without zone are UTC and marked, the rest is replaced by the time of receipt with the reason."""
    rows = tell("28").column("observed_at_ns", "time_quality")
    reasons = [(quality or "").partition(":")[0] for _, quality in rows]
    assert reasons == [
        "", "", "", "zone_missing", "", "clock_unset", "time_invalid", "clock_skew", "time_invalid", "time_absent", "zone_missing",
        "time_invalid",
    ]  # fmt: skip
    at_ns = 1_767_323_045_000_000_000
    own = [at_ns, at_ns + 678_000_000, at_ns + 21_600 * 10**9, at_ns, at_ns + 283_000_000, at_ns + 123_456_000]
    assert [at for (at, _), reason in zip(rows, reasons, strict=True) if reason in ("", "zone_missing")] == own
    assert {at for (at, _), reason in zip(rows, reasons, strict=True) if reason not in ("", "zone_missing")} == {received_at_ns}
    assert rows[5][1] == "clock_unset:1970-01-01T00:00:12.345+00:00"


def test_29_history(received_at_ns: int) -> None:
    """A report that appends, read twice, is three rows and not six."""
    file = FOLDER / "29-append-history.json"
    lines = list(resources([file, file], received_at_ns=received_at_ns))
    assert [line["value"] for line in lines if line["table"] == "chassis_readings"] == [103.0, 106.0, 107.0]


def test_30_identity(tell: Any) -> None:
    """With and without fragment is one series; a broken pointer is suspect; a wildcard and a value without name are rejected."""
    told = tell("30")
    assert told.column("sensor", "value", "quality") == [
        ("/Chassis/chassis/Sensors/temp0", 33.0, None),
        ("/Chassis/Tray_1/Power#/0/PowerConsumedWatts", 33.0, "suspect"),
    ]
    assert told.counters["counted"] == {"unmapped": 1, "merged": 1, "wildcard": 1, "no_identity": 1}


def test_31_dell(tell: Any) -> None:
    """The same metric id of two components is two series, each with its signal."""
    assert tell("31").column("sensor", "quantity", "device", "value") == [
        ("ThermalSensor:TemperatureReading:iDRAC.Embedded.1#SystemBoardInletTemp", "inlet_temp_c", "chassis", 23.0),
        ("ThermalSensor:TemperatureReading:Video.Slot.31-1", "gpu_temp_c", "gpu31", 61.0),
    ]


@pytest.mark.parametrize(
    ("number", "outcomes"),
    [
        ("35", ["ok", "ok", "ok"]),
        ("36", ["limit", "limit"]),
        ("37", ["ok", "ok", "unauthorized", "unauthorized", "ok", "ok"]),
        ("39", ["not_ready"]),
        ("44", ["ok"]),
        ("45", ["ok"]),
    ],
)
def test_answers_of_exchanges(tell: Any, number: str, outcomes: list[str]) -> None:
    """Each answer of an exchange has its meaning: a limit is no matter of credentials, a BMC that is not ready is transient."""
    exchanges = tell(number).exchanges
    assert [exchange["outcome"] for exchange in exchanges] == outcomes
    if number == "36":
        assert [exchange["retry_after_s"] for exchange in exchanges] == [30.0, None]


def test_every_case_is_tested() -> None:
    """The folder holds the cases of its index and no other, and each is named in a test."""
    assert {path.stem for path in FOLDER.iterdir()} - {"cases"} == set(INDEX)
    assert len(INDEX) == 29
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    numbers = [name[:2] for name in INDEX]
    assert [number for number in numbers if not any(form in tests for form in (f"_{number}_", f'"{number}"', f"ase {number}"))] == []
