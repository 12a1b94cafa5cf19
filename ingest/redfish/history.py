"""Remember what a BMC has said already, so that what it says again is passed on once, and what it stops saying is noticed once.

A report that appends repeats its history at every read, and one sensor may be in several reports; NVIDIA computes stamps per request,
so that one reading can carry stamps a millisecond or two apart; BMCs resend their ring of events.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from operator import itemgetter
from typing import NamedTuple

import msgspec

from ingest.schema import ChassisReading

_SAME_NS = 2_000_000
_LONG = 16  # readings of one series in one report, from which on they are looked up by an index
# Rings of BMCs hold 200 (bmcweb) to 1,000 events. XXX: a larger ring than this that is sent again counts as new again.
MOST_EVENTS = 2000
# An HGX board has 15 reports with 6,000 series, a Dell 30 reports; these bound a BMC with ever new ids.
MOST_REPORTS, MOST_SERIES = 64, 50_000

_Said = tuple[int, float | str | None]


class _Known(msgspec.Struct, frozen=True):
    said: tuple[_Said, ...]
    quantity: str
    device: str | None
    unit: str | None


class News(NamedTuple):
    """Readings that are new, one with quality `absent` for each series that was there and is not any more, and the series forgotten."""

    fresh: list[ChassisReading]
    gone: list[ChassisReading]
    forgotten: int = 0


class History:
    """What one BMC said: the last version of each report and the latest events.

    Bounded by `most_reports` and `most_series` of all reports together: what was heard longest ago is forgotten first.
    """

    def __init__(self, *, most_reports: int = MOST_REPORTS, most_series: int = MOST_SERIES) -> None:
        self._most_reports = most_reports
        self._most_series = most_series
        self._reports: dict[str, dict[str, _Known]] = {}  # heard longest ago first
        self._series = 0  # in all of them
        self._events = array("q")  # by hash: of a thousand BMCs 16 MB, where keys would take gigabytes; a search takes 20 µs
        self._oldest_event = 0  # its place, once all places are taken

    def take(self, report: str, readings: list[ChassisReading], *, has_gaps: bool = False) -> News:
        """Compare a report with its last version and those of the others, and remember it.

        A reading without a time of its own is not known from other reports: nothing says that it is the same one. A series is gone when no
        report has it any more; one that leaves out what has not changed (`has_gaps`) lacks nothing, nor does an empty one.
        """
        before = self._reports.pop(report, {})
        others = list(self._reports.values())
        now: dict[str, _Known] = {}
        longer: dict[str, list[_Said]] = {}  # of series with several readings
        lookup = _Lookup()
        kept = []
        for reading in readings:
            sensor, said = reading.sensor, (reading.observed_at_ns, reading.value if reading.text is None else reading.text)
            earlier = before.get(sensor)
            find = _is_known if earlier is None or len(earlier.said) <= _LONG else lookup.is_known
            is_known = earlier is not None and find(said, earlier.said)
            if not is_known and not (others and _has_own_time(reading) and _is_told(sensor, said, others, lookup)):
                kept.append(reading)
            if sensor in now:
                longer.setdefault(sensor, [*now[sensor].said]).append(said)
            else:
                now[sensor] = _Known((said,), reading.quantity, reading.device, reading.unit)
        for sensor, several in longer.items():
            now[sensor] = msgspec.structs.replace(now[sensor], said=tuple(several))
        if not readings or has_gaps:
            known_before = len(before)
            return News(kept, [], self._remember(report, known_before, _merged(before, now)))
        gone = sorted(
            sensor for sensor in before.keys() - now.keys() if _is_due(before[sensor]) and not any(sensor in other for other in others)
        )
        forgotten = self._remember(report, len(before), now)
        return News(kept, [_absent(sensor, before[sensor], readings[0]) for sensor in gone], forgotten)

    def _remember(self, report: str, known_before: int, now: dict[str, _Known]) -> int:
        """Remember a report's version in place of one of `known_before` series; returns how many series were forgotten for it."""
        self._reports[report] = now
        self._series += len(now) - known_before
        forgotten = 0
        while len(self._reports) > self._most_reports or (self._series > self._most_series and len(self._reports) > 1):
            oldest = self._reports.pop(next(iter(self._reports)))
            self._series -= len(oldest)
            forgotten += len(oldest)
        while self._series > self._most_series:
            del now[next(iter(now))]
            self._series -= 1
            forgotten += 1
        return forgotten

    def is_new_event(self, key: tuple[str, ...] | None) -> bool:
        """Tell whether an event was not seen before, and remember it; one without a key is always new."""
        if key is None:
            return True
        mark = hash(key)
        if mark in self._events:
            return False
        if len(self._events) < MOST_EVENTS:
            self._events.append(mark)
        else:
            self._events[self._oldest_event] = mark
            self._oldest_event = (self._oldest_event + 1) % MOST_EVENTS
        return True


def _merged(before: dict[str, _Known], now: dict[str, _Known]) -> dict[str, _Known]:
    """Join two versions, with what was just heard last."""
    for sensor in now:
        before.pop(sensor, None)
    before.update(now)
    return before


def _is_known(said: _Said, before: tuple[_Said, ...]) -> bool:
    if said in before:
        return True
    at_ns, value = said
    for then_ns, then in before:  # noqa: SIM110  # thousands of times a second, where a generator costs three times as much
        if at_ns == then_ns or (value == then and abs(at_ns - then_ns) <= _SAME_NS):
            return True
    return False


class _Lookup:
    """Looks up what was said; of long histories by an index, since to go through them for each of their readings takes seconds."""

    def __init__(self) -> None:
        self._indexes: dict[int, tuple[tuple[_Said, ...], _Index]] = {}  # by identity of the history, which is kept alive beside it

    def is_known(self, said: _Said, before: tuple[_Said, ...], *, only_alike: bool = False) -> bool:
        """Tell whether a reading is known; if `only_alike`, from readings that have a value, or none, like it."""
        if len(before) <= _LONG:
            if only_alike:
                before = tuple(each for each in before if (each[1] is None) == (said[1] is None))
            return _is_known(said, before)
        found = self._indexes.get(id(before))
        if found is None:
            found = self._indexes[id(before)] = (before, _Index(before))
        return found[1].has(said, only_alike)


class _Index:
    """A long history by time and by value."""

    def __init__(self, said: tuple[_Said, ...]) -> None:
        self._times = {is_none: {at_ns for at_ns, value in said if (value is None) == is_none} for is_none in (False, True)}
        self._of_value: dict[float | str | None, list[int]] = {}
        for at_ns, value in sorted(said, key=itemgetter(0)):
            self._of_value.setdefault(value, []).append(at_ns)

    def has(self, said: _Said, only_alike: bool) -> bool:
        """Tell whether a reading is among them, as `_is_known` does."""
        at_ns, value = said
        if at_ns in self._times[value is None] or (not only_alike and at_ns in self._times[value is not None]):
            return True
        times = self._of_value.get(value, [])
        after = bisect_left(times, at_ns - _SAME_NS)
        return after < len(times) and times[after] <= at_ns + _SAME_NS


def _has_own_time(reading: ChassisReading) -> bool:
    return reading.observed_at_ns != reading.received_at_ns


def _is_told(sensor: str, said: _Said, versions: list[dict[str, _Known]], lookup: _Lookup) -> bool:
    """Tell whether another report has said it; one that had no value does not stand for one that has."""
    tellers = (version[sensor].said for version in versions if sensor in version)
    return any(lookup.is_known(said, teller, only_alike=True) for teller in tellers)


def _is_due(known: _Known) -> bool:
    """Tell whether a series ought to be there: elements of a set of reasons come and go."""
    return known.quantity != "throttle_reason_set"


def _absent(sensor: str, known: _Known, like: ChassisReading) -> ChassisReading:
    return msgspec.structs.replace(
        like,
        observed_at_ns=like.received_at_ns,
        sensor=sensor,
        quantity=known.quantity,
        device=known.device,
        unit=known.unit,
        value=None,
        text=None,
        quality="absent",
        time_quality="time_absent",
    )
