"""What a BMC repeats is passed on once; what it stops saying is noticed once."""

from __future__ import annotations

from ingest.redfish.history import History
from ingest.schema import ChassisReading


def reading(at_ns: int, value: float | None, sensor: str = "s", quantity: str = "power_w") -> ChassisReading:
    return ChassisReading(
        node="n",
        observed_at_ns=at_ns,
        received_at_ns=10**12,
        source="redfish",
        sensor=sensor,
        quantity=quantity,
        device="chassis",
        value=value,
    )


def test_history_read_twice_is_three_rows() -> None:
    """A report that appends gives its older values once, and then only what was added, even when the clock was set back."""
    history = History()
    rows = [reading(10**9, 103), reading(2 * 10**9, 106), reading(3 * 10**9, 107)]
    assert history.take("r", rows).fresh == rows
    assert history.take("r", rows).fresh == []
    assert history.take("r", [*rows[1:], reading(5 * 10**8, 99)]).fresh == [reading(5 * 10**8, 99)]


def test_stamp_that_trembles_is_the_same_sample() -> None:
    """An unchanged value within 2 ms of its last stamp is known; a changed one, or one later, is new."""
    history = History()
    history.take("r", [reading(10**9, 5)])
    assert history.take("r", [reading(10**9 + 2_000_000, 5)]).fresh == []
    assert len(history.take("r", [reading(10**9 + 3_000_000, 6)]).fresh) == 1
    assert len(history.take("r", [reading(10**9 + 6_000_000, 6)]).fresh) == 1


def test_series_that_vanishes_is_absent_once() -> None:
    """A series that a report no longer holds gives one row `absent`, with its quantity and device, and then nothing."""
    history = History()
    history.take("r", [reading(1, 5, "a"), reading(1, 5, "b", "fan_rpm")])
    gone = history.take("r", [reading(2 * 10**9, 5, "a")]).gone
    assert [(row.sensor, row.quantity, row.device, row.value, row.quality) for row in gone] == [("b", "fan_rpm", "chassis", None, "absent")]
    assert history.take("r", [reading(3 * 10**9, 5, "a")]).gone == []


def test_report_that_leaves_out_what_is_unchanged_lacks_nothing() -> None:
    """Suppressed repetitions, an empty report and cleared throttle reasons are not absence."""
    history = History()
    history.take("r", [reading(1, 5, "a"), reading(1, 5, "b")])
    assert history.take("r", [reading(2 * 10**9, 5, "a")], has_gaps=True).gone == []
    assert history.take("r", []).gone == []
    history.take("q", [reading(1, 5, "a"), reading(1, None, "t/0", "throttle_reason_set")])
    assert history.take("q", [reading(2 * 10**9, 5, "a")]).gone == []


def test_memory_of_events_is_bounded() -> None:
    """Only the latest events are remembered."""
    history = History()
    for number in range(3000):
        assert history.is_new_event((str(number),))
    assert not history.is_new_event(("2999",))
    assert history.is_new_event(("0",))
