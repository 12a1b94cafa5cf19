"""Functions of time that change in steps, one per key (a node, a seat, a link), evaluated for whole arrays at once.

Times are UTC nanoseconds; a step holds from its own instant on and counts to the millisecond.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emulators.draws import Floats, Ints
from emulators.layout import MS_NS

_SPAN_MS = 1 << 41  # 69 years: keys up to 4 million fit into an int64


class Steps:
    """Instants per key, in order; `order` is how the caller's arrays must be sorted to match."""

    def __init__(self, keys: Any, times_ns: Any, *, origin_ns: int, size: int) -> None:
        self._origin_ns = origin_ns
        codes = self._codes(np.asarray(keys, np.int64), np.asarray(times_ns, np.int64))
        self.order: Ints = np.argsort(codes, kind="stable")
        self._sorted: Ints = codes[self.order]
        self.first: Ints = np.searchsorted(self._sorted, np.arange(size + 1, dtype=np.int64) * _SPAN_MS)
        self.is_touched = np.diff(self.first) > 0

    def last(self, keys: Any, times_ns: Any) -> Ints:
        """Give the position of the last step at or before each time in the sorted order; `first[key] - 1` where there is none."""
        found: Ints = np.searchsorted(self._sorted, self._codes(keys, times_ns), side="right") - 1
        return found

    def _codes(self, keys: Any, times_ns: Any) -> Any:
        return keys * _SPAN_MS + (times_ns - self._origin_ns) // MS_NS


class Counter:
    """A counter per key that grows at given instants by given amounts."""

    def __init__(self, keys: Any, times_ns: Any, amounts: Any, *, origin_ns: int, size: int) -> None:
        self.steps = Steps(keys, times_ns, origin_ns=origin_ns, size=size)
        ordered = np.asarray(amounts, np.int64)[self.steps.order]
        self._sums: Ints = np.concatenate([[0], np.cumsum(ordered)])

    def total(self, keys: Ints, times_ns: Ints) -> Ints:
        """Count since the beginning of the world; keys and times broadcast."""
        keys, times_ns = np.broadcast_arrays(keys, times_ns)
        counted = np.zeros(keys.shape, np.int64)
        some = self.steps.is_touched[keys]
        if some.any():
            picked = keys[some]
            last = self.steps.last(picked, times_ns[some])
            counted[some] = self._sums[last + 1] - self._sums[self.steps.first[picked]]
        return counted


class Spans:
    """Stretches of time per key that do not overlap, each with the number it was given by."""

    def __init__(self, keys: Any, starts_ns: Any, ends_ns: Any, *, origin_ns: int, size: int, numbers: Any = None) -> None:
        self._steps = Steps(keys, starts_ns, origin_ns=origin_ns, size=size)
        self._numbers: Ints = self._steps.order if numbers is None else np.asarray(numbers, np.int64)[self._steps.order]
        self._ends_ns: Ints = np.asarray(ends_ns, np.int64)[self._steps.order]

    def at(self, keys: Ints, times_ns: Ints) -> Ints:
        """Give the number of the span that holds at each time, -1 where none does."""
        keys, times_ns = np.broadcast_arrays(keys, times_ns)
        found = np.full(keys.shape, -1, np.int64)
        some = self._steps.is_touched[keys]
        if some.any():
            picked, at = keys[some], times_ns[some]
            last = self._steps.last(picked, at)
            is_inside = (last >= self._steps.first[picked]) & (at < self._ends_ns[last])
            found[some] = np.where(is_inside, self._numbers[last], -1)
        return found


class Ramp:
    """A quantity per key that grows linearly between instants: the integral of a step function."""

    def __init__(self, steps: Steps, times_ns: Ints, rates: Floats) -> None:
        """Integrate `rates` (per second, in the order the steps were given) over time from each key's first step on."""
        self._steps = steps
        self._times_ns: Ints = times_ns[steps.order]
        self._rates: Floats = rates[steps.order]
        gaps = np.diff(self._times_ns, append=self._times_ns[-1:]) / 1e9
        gaps[steps.first[1:-1][steps.first[1:-1] > 0] - 1] = 0.0  # no integral from one key's last step to the next key's first
        self._sums: Floats = np.concatenate([[0.0], np.cumsum(gaps * self._rates)[:-1]])

    def total(self, last: Ints, times_ns: Ints) -> Floats:
        """Give the integral up to each time, from the position of the last step before it (`Steps.last`)."""
        grown: Floats = self._sums[last] + self._rates[last] * ((times_ns - self._times_ns[last]) / 1e9)
        return grown
