"""Which events of a log the lake holds already: a collector that starts again reads its logs from the start and tells everything anew.

A record of a kernel log is known by its node, boot and sequence number; a line without a number by its stamp and text. As with `marks`, the
partitions of an event's own date are read once, when an event of that date comes.
"""

from __future__ import annotations

from collections.abc import Hashable
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb

from ingest.clock import NS
from ingest.lake import Lake
from ingest.schema import EVENTS, Event

_DAY_NS = 86_400 * NS
_RE_READ = "kernel_log"
_HELD = f"select node, boot_id, kernel_seq, code, detail, epoch_us(observed_at) as at_us from events where source = '{_RE_READ}'"


class KnownEvents:
    """The events of kernel logs that are in the lake or on their way into it."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._days: set[int] = set()
        self._known: set[Hashable] = set()

    def pass_new(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        """Give the events that are new, and from then on know them."""
        return tuple(event for event in events if event.source != _RE_READ or self._is_new(event))

    def forget(self) -> None:
        """Read everything again: what was passed was perhaps not written."""
        self._days.clear()
        self._known.clear()

    def _is_new(self, event: Event) -> bool:
        day = event.observed_at_ns // _DAY_NS
        if day not in self._days:
            self._read(day)
        identity = _identity((event.node, event.boot_id, event.kernel_seq, event.code, event.detail, event.observed_at_ns // 1000))
        if identity in self._known:
            return False
        self._known.add(identity)
        return True

    def _read(self, day: int) -> None:
        date = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day)
        with duckdb.connect() as connection:
            self._lake.attach(connection, EVENTS, since=date, until=date)
            self._known.update(_identity(row) for row in connection.execute(_HELD).fetchall())
        self._days.add(day)


def _identity(record: tuple[Any, ...]) -> Hashable:
    node, boot_id, kernel_seq, code, detail, observed_us = record
    if boot_id is not None and kernel_seq is not None:
        return node, boot_id, kernel_seq, code
    return node, observed_us, code, detail
