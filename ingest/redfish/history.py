"""Remember what a BMC has said already, so that what it says again is passed on once.

A report that appends repeats its history at every read; NVIDIA computes stamps per request, so that one reading can carry stamps a
millisecond or two apart; BMCs resend their ring of events.
"""

from __future__ import annotations

from collections import OrderedDict

from ingest.schema import ChassisReading

_SAME_NS = 2_000_000
_MOST_EVENTS = 1024  # a ring of bmcweb has 200


class History:
    """What one BMC said: the newest values of each report and its latest events."""

    def __init__(self) -> None:
        self._reports: dict[str, dict[str, tuple[tuple[int, float | str | None], ...]]] = {}
        self._events: OrderedDict[tuple[str, ...], None] = OrderedDict()

    def fresh(self, report: str, readings: list[ChassisReading]) -> list[ChassisReading]:
        """Keep the readings that the report's last version did not hold; those without a time of the BMC are always fresh."""
        before = self._reports.get(report, {})
        now: dict[str, list[tuple[int, float | str | None]]] = {}
        kept = []
        for reading in readings:
            said = (reading.observed_at_ns, reading.value if reading.text is None else reading.text)
            if not _is_known(said, before.get(reading.sensor, ())):
                kept.append(reading)
            now.setdefault(reading.sensor, []).append(said)
        merged = {sensor: tuple(said) for sensor, said in now.items()}
        self._reports[report] = before | merged if len(merged) < len(before) else merged
        return kept

    def is_new_event(self, key: tuple[str, ...]) -> bool:
        """Tell whether an event was not seen before, and remember it."""
        is_new = key not in self._events
        self._events[key] = None
        self._events.move_to_end(key)
        if len(self._events) > _MOST_EVENTS:
            self._events.popitem(last=False)
        return is_new


def _is_known(said: tuple[int, float | str | None], before: tuple[tuple[int, float | str | None], ...]) -> bool:
    at_ns, value = said
    return any(at_ns == then_ns or (abs(at_ns - then_ns) <= _SAME_NS and value == then) for then_ns, then in before)
