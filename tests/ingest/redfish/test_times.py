"""The event time is the BMC's own where that can be used, and else the time of receipt with the reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.clock import NS, parse_time
from ingest.redfish.times import EventTime, find_time, read_time

NOW = parse_time("2026-01-02T12:00:00Z")
AT = parse_time("2026-01-02T03:04:05Z")


@pytest.mark.parametrize(
    ("stamp", "time"),
    [
        ("2026-01-02T03:04:05Z", EventTime(AT)),
        ("2026-01-02T03:04:05.678+00:00", EventTime(AT + 678_000_000)),
        ("2026-01-02T03:04:05.283000000Z", EventTime(AT + 283_000_000)),
        ("2026-01-02T03:04:05.123456789Z", EventTime(AT + 123_456_789)),
        ("2026-01-01T21:04:05-0600", EventTime(AT)),
        ("2026-01-02T03:04:05+0000", EventTime(AT)),
        ("2026-01-02T03:04:05", EventTime(AT, "zone_missing:2026-01-02T03:04:05")),
        ("2026-01-02 03:04:05.123456", EventTime(AT + 123_456_000, "zone_missing:2026-01-02 03:04:05.123456")),
        ("1970-01-01T00:00:12.345+00:00", EventTime(NOW, "clock_unset:1970-01-01T00:00:12.345+00:00")),
        ("2106-02-07T06:28:15Z", EventTime(NOW, "clock_skew:2106-02-07T06:28:15Z")),
        ("0000-00-00T00:00:00+00:00", EventTime(NOW, "time_invalid:0000-00-00T00:00:00+00:00")),
        ("2026-01-02T24:00:00Z", EventTime(NOW, "time_invalid:2026-01-02T24:00:00Z")),
        ("", EventTime(NOW, "time_invalid:")),
        ("yesterday", EventTime(NOW, "time_invalid:yesterday")),
        (1767323045, EventTime(NOW, "time_invalid:1767323045")),
        (None, EventTime(NOW, "time_absent")),
    ],
)
def test_forms_of_a_stamp(stamp: object, time: EventTime) -> None:
    """Each form that vendors send is used or replaced as the design's table says."""
    assert find_time((stamp,), NOW) == time


def test_own_stamp_goes_before_that_of_the_report() -> None:
    """A value's own time rules; the report's serves where there is none."""
    assert find_time(("2026-01-02T03:04:05Z", "2026-01-02T03:00:00Z"), NOW) == EventTime(AT)
    assert find_time((None, "2026-01-02T03:04:05Z"), NOW) == EventTime(AT)


def test_a_day_ahead_is_the_limit() -> None:
    """A clock may be a day ahead of the collector's, not more."""
    assert find_time(("2026-01-03T12:00:00Z",), NOW) == EventTime(NOW + 86_400 * NS)
    assert find_time(("2026-01-03T12:00:01Z",), NOW).at_ns == NOW


@given(st.text(max_size=40))
def test_any_text_is_a_time_or_none(text: str) -> None:
    """No text raises."""
    at_ns, _ = read_time(text)
    assert at_ns is None or isinstance(at_ns, int)
