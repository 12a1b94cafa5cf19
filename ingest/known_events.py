"""Which events of a log the lake holds already: a collector that starts again reads its logs from the start and tells everything anew.

A record of a kernel log is known by its node, boot and sequence number; a line without a number by its stamp and text. As with `marks`, the
partitions of an event's own date are read once, when an event of that date comes. Only so many dates are kept: the one that was not asked
for the longest goes, and is read again when it is asked for. A date with events that are passed and not yet in the lake never goes.
"""

from __future__ import annotations

from collections.abc import Hashable
from datetime import UTC, datetime, timedelta
from typing import Any

from ingest.clock import NS
from ingest.lake import Lake
from ingest.schema import EVENTS, Event

_DAY_NS = 86_400 * NS
_RE_READ = "kernel_log"
_HELD = f"select node, boot_id, kernel_seq, code, detail, epoch_us(observed_at) as at_us from events where source = '{_RE_READ}'"


class KnownEvents:
    """The events of kernel logs that are in the lake or on their way into it; `max_dates` bounds what is kept of the lake."""

    def __init__(self, lake: Lake, *, max_dates: int = 40) -> None:
        self._lake = lake
        self._max_dates = max_dates
        self._known: dict[int, set[Hashable]] = {}  # by day, the one asked for last at the end
        self._on_their_way: set[int] = set()

    def pass_new(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        """Give the events that are new, and from then on know them."""
        return tuple(event for event in events if event.source != _RE_READ or self._is_new(event))

    def settle(self) -> None:
        """Take note that everything that was passed is in the lake."""
        self._on_their_way.clear()
        self._bound()

    def forget(self) -> None:
        """Read everything again: what was passed was perhaps not written."""
        self._known.clear()
        self._on_their_way.clear()

    @property
    def dates(self) -> int:
        """Count the dates that are kept."""
        return len(self._known)

    def _is_new(self, event: Event) -> bool:
        day = event.observed_at_ns // _DAY_NS
        known = self._known[day] = self._known.pop(day) if day in self._known else self._read(day)
        self._bound(needed=day)
        identity = _identity((event.node, event.boot_id, event.kernel_seq, event.code, event.detail, event.observed_at_ns // 1000))
        if any(identity in held for held in self._known.values()):
            return False
        known.add(identity)
        self._on_their_way.add(day)
        return True

    def _read(self, day: int) -> set[Hashable]:
        date = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day)
        with self._lake.reading() as connection:
            self._lake.attach(connection, EVENTS, since=date, until=date)
            return {_identity(row) for row in connection.execute(_HELD).fetchall()}

    def _bound(self, needed: int | None = None) -> None:
        spare = [day for day in self._known if day not in self._on_their_way and day != needed]
        for day in spare[: max(0, len(self._known) - self._max_dates)]:
            del self._known[day]


def _identity(record: tuple[Any, ...]) -> Hashable:
    node, boot_id, kernel_seq, code, detail, observed_us = record
    if boot_id is not None and kernel_seq is not None:
        return node, boot_id, kernel_seq, code
    return node, observed_us, code, detail
