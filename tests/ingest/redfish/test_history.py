"""What a BMC repeats is passed on once; what it stops saying is noticed once."""

from __future__ import annotations

import pickle
import sys
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

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


def test_reading_in_two_reports_is_one_row() -> None:
    """What one report has said of a sensor at a time, another does not say again; another time, value, sensor or BMC is news."""
    history = History()
    rows = [reading(10**9, 5, "a"), reading(2 * 10**9, 6, "a")]
    assert history.take("long", rows).fresh == rows
    assert history.take("short", [reading(2 * 10**9, 6, "a")]).fresh == []
    assert history.take("third", [reading(10**9, 5, "a"), reading(10**9, 5, "b")]).fresh == [reading(10**9, 5, "b")]
    assert len(history.take("short", [reading(3 * 10**9, 6, "a")]).fresh) == 1
    assert len(History().take("short", [reading(10**9, 5, "a")]).fresh) == 1


def test_report_without_value_or_time_does_not_stand_for_another() -> None:
    """A value is not dropped for a report that had none at that time, nor for the same time of receipt."""
    history = History()
    history.take("one", [reading(10**9, None, "a"), reading(10**12, 5, "b")])
    assert len(history.take("two", [reading(10**9, 5, "a"), reading(10**12, 5, "b")]).fresh) == 2


def test_memory_of_readings_is_that_of_the_last_versions() -> None:
    """However long a report is read, what is remembered of it does not grow."""
    history, sizes = History(), []
    for second in range(1, 200):
        history.take("r", [reading(second * 10**9, second, name) for name in "abc"])
        sizes.append(len(pickle.dumps(history)))
    assert max(sizes) - sizes[0] < 100


def test_series_that_vanishes_is_absent_once() -> None:
    """A series that a report no longer holds gives one row `absent`, with its quantity and device, and then nothing."""
    history = History()
    history.take("r", [reading(1, 5, "a"), reading(1, 5, "b", "fan_rpm")])
    gone = history.take("r", [reading(2 * 10**9, 5, "a")]).gone
    assert [(row.sensor, row.quantity, row.device, row.value, row.quality) for row in gone] == [("b", "fan_rpm", "chassis", None, "absent")]
    assert history.take("r", [reading(3 * 10**9, 5, "a")]).gone == []


def test_series_that_another_report_has_is_not_gone() -> None:
    """A series is absent when the last report that held it does so no longer."""
    history = History()
    history.take("q", [reading(1, 5, "a"), reading(1, 5, "b")])
    history.take("r", [reading(1, 5, "a"), reading(1, 5, "b")])
    assert history.take("q", [reading(2 * 10**9, 5, "a")]).gone == []
    assert [row.sensor for row in history.take("r", [reading(3 * 10**9, 5, "a")]).gone] == ["b"]


def test_report_that_leaves_out_what_is_unchanged_lacks_nothing() -> None:
    """Suppressed repetitions, an empty report and cleared throttle reasons are not absence."""
    history = History()
    history.take("r", [reading(1, 5, "a"), reading(1, 5, "b")])
    assert history.take("r", [reading(2 * 10**9, 5, "a")], has_gaps=True).gone == []
    assert history.take("r", []).gone == []
    history.take("q", [reading(1, 5, "a"), reading(1, None, "t/0", "throttle_reason_set")])
    assert history.take("q", [reading(2 * 10**9, 5, "a")]).gone == []


def test_memory_of_events_is_bounded() -> None:
    """Only the latest 2,000 events are remembered."""
    history = History()
    for number in range(3000):
        assert history.is_new_event((str(number),))
    assert not history.is_new_event(("2999",))
    assert history.is_new_event(("0",))


def test_ring_sent_twice_is_new_once() -> None:
    """A ring of 500 events, or of 2,000, that is sent again holds nothing new."""
    for size in (500, 2000):
        history = History()
        assert [sum(history.is_new_event((str(number),)) for number in range(size)) for _ in range(3)] == [size, 0, 0]


def test_memory_of_events_is_small() -> None:
    """What is remembered of 2,000 events takes below 20 kB, for a thousand BMCs 20 MB."""
    history = History()
    for number in range(10_000):
        history.is_new_event((str(number),))
    assert len(history._events) == 2000
    assert sys.getsizeof(history._events) < 20_000


def test_reports_heard_longest_ago_are_forgotten_and_counted() -> None:
    """Of ever new reports the latest are remembered; the series of the others are counted, and fresh when they come again."""
    history = History(most_reports=3)
    forgotten = [
        history.take(f"r{number}", [reading(10**9, 5, f"{number}a"), reading(10**9, 5, f"{number}b")]).forgotten for number in range(5)
    ]
    assert forgotten == [0, 0, 0, 2, 2]
    assert history.take("r2", [reading(10**9, 5, "2a"), reading(10**9, 5, "2b")]).fresh == []
    assert len(history.take("r0", [reading(10**9, 5, "0a"), reading(10**9, 5, "0b")]).fresh) == 2


def test_series_of_all_reports_are_bounded() -> None:
    """The reports heard longest ago go when there are too many series; one that has more by itself keeps its last."""
    history = History(most_series=4)
    assert history.take("r", [reading(10**9, 5, name) for name in "abc"]).forgotten == 0
    assert history.take("q", [reading(10**9, 5, name) for name in "xyz"]).forgotten == 3
    news = history.take("p", [reading(10**9, 5, name) for name in "123456"])
    assert (len(news.fresh), news.gone, news.forgotten) == (6, [], 3 + 2)
    again = history.take("p", [reading(10**9, 5, name) for name in "123456"])
    assert ([row.sensor for row in again.fresh], again.gone, again.forgotten) == (["1", "2"], [], 2)


def test_report_that_leaves_out_what_is_unchanged_does_not_grow_for_ever() -> None:
    """Of a report with ever new series those heard last are remembered."""
    history, sizes, forgotten = History(most_series=100), [], 0
    for second in range(1, 200):
        rows = [reading(second * 10**9, 5, "always"), *(reading(second * 10**9, 5, f"{second}.{number}") for number in range(10))]
        forgotten += history.take("r", rows, has_gaps=True).forgotten
        sizes.append(len(pickle.dumps(history)))
    assert max(sizes[20:]) - sizes[20] < 500
    assert forgotten == 199 * 10 + 1 - 100
    assert history.take("r", [reading(199 * 10**9, 5, "always")], has_gaps=True).fresh == []


def test_memory_of_ever_new_reports_is_bounded() -> None:
    """300 reports of 1,000 series each, all of them new, leave no more than the bound of 50,000 series."""
    history = History()
    forgotten = sum(
        history.take(f"r{number}", [reading(10**9, 5, f"{number}.{series}") for series in range(1000)]).forgotten for number in range(300)
    )
    assert forgotten == 300_000 - 50_000


times_and_values = st.lists(st.tuples(st.integers(0, 8).map(lambda ms: ms * 1_000_000), st.sampled_from([None, 5.0, 6.0])), max_size=30)


@given(times_and_values, times_and_values, st.sampled_from(["r", "other"]))
def test_long_history_is_looked_up_like_a_short_one(before: list[Any], after: list[Any], report: str) -> None:
    """How many readings a series has in a report decides nothing: what is known is known from each of them."""
    history, padded = History(), History()
    far = [reading(10**12 + number * 10**9, 7, "a") for number in range(40)]
    rows, news = ([reading(10**9 + at_ns, number, "a") for at_ns, number in said] for said in (before, after))
    history.take("r", rows)
    padded.take("r", rows + far)
    assert padded.take(report, news).fresh == history.take(report, news).fresh


def test_report_of_one_series_without_end_is_taken_in_time() -> None:
    """20,000 readings of one series, sent again with one more, take a few times as long as 1,000 and not 400 times."""

    def taken_s(count: int) -> float:
        history, rows = History(), [reading(second * 10**9, second % 97, "a") for second in range(count)]
        started_s = time.process_time()
        history.take("r", rows)
        assert len(history.take("r", [*rows, reading(count * 10**9, 1, "a")]).fresh) == 1
        return time.process_time() - started_s

    assert taken_s(20_000) < 100 * min(taken_s(1000) for _ in range(3))
