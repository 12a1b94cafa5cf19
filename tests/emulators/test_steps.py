"""Step functions by key, held against plain loops."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from emulators.layout import MS_NS, NS
from emulators.steps import Counter, Ramp, Spans, Steps

KEYS = 4
TIMES = st.integers(0, 200).map(lambda ms: ms * MS_NS)
events = st.lists(st.tuples(st.integers(0, KEYS - 1), TIMES, st.integers(1, 9)), max_size=30)


@given(events, TIMES)
def test_a_counter_counts_what_has_happened(happened: list[tuple[int, int, int]], at_ns: int) -> None:
    """The total of a key is the sum of its amounts at or before the time."""
    keys, times, amounts = ([event[i] for event in happened] for i in range(3))
    counter = Counter(np.array(keys, np.int64), np.array(times, np.int64), amounts, origin_ns=0, size=KEYS)
    wanted = [sum(amount for key, time, amount in happened if key == wanted and time <= at_ns) for wanted in range(KEYS)]
    assert counter.total(np.arange(KEYS), np.full(KEYS, at_ns)).tolist() == wanted


@given(st.lists(st.tuples(st.integers(0, KEYS - 1), st.integers(0, 20), st.integers(1, 5)), max_size=12), st.integers(0, 60))
def test_spans_hold_from_start_to_end(given_spans: list[tuple[int, int, int]], at: int) -> None:
    """A span holds from its start on and no longer at its end; elsewhere there is none."""
    end_of = dict.fromkeys(range(KEYS), 0)
    spans = []
    for key, gap, length in given_spans:  # laid one after the other per key
        start = end_of[key] + gap
        end_of[key] = start + length
        spans.append((key, start, start + length))
    keys, starts, ends = ([span[i] * (1 if i == 0 else MS_NS) for span in spans] for i in range(3))
    found = Spans(keys, starts, ends, origin_ns=0, size=KEYS).at(np.arange(KEYS), np.full(KEYS, at * MS_NS))
    wanted = [next((n for n, (k, s, e) in enumerate(spans) if k == key and s <= at < e), -1) for key in range(KEYS)]
    assert found.tolist() == wanted


def test_a_ramp_integrates_its_rates_per_key() -> None:
    """Two keys with their own rates: 3/s then 1/s on the first, 2/s on the second."""
    times = np.array([0, 10, 0]) * NS
    steps = Steps([0, 0, 1], times, origin_ns=0, size=2)
    ramp = Ramp(steps, times, np.array([3.0, 1.0, 2.0]))
    keys, at = np.array([0, 0, 0, 1, 1]), np.array([4, 10, 16, 0, 16]) * NS
    grown = ramp.total(steps.last(keys, at), at)
    start = ramp.total(steps.last(keys, np.zeros(5, np.int64)), np.zeros(5, np.int64))
    assert (grown - start).tolist() == [12.0, 30.0, 36.0, 0.0, 32.0]


def test_of_two_steps_at_one_instant_the_later_given_holds() -> None:
    """An end and a start at the same time leave the start."""
    steps = Steps([0, 0], [5 * NS, 5 * NS], origin_ns=0, size=1)
    assert steps.order[steps.last(np.array([0]), np.array([5 * NS]))].tolist() == [1]
