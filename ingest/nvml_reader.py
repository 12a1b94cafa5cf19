"""Reads one GPU: picks the way that this driver has for each signal, remembers what the model lacks, and never raises for a device.

A signal whose every way is refused is left out of later polls until the next cold poll asks again, so that "this model has no such
value" is said once an hour and not in every row.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pynvml as nvml

from ingest.nvml_calls import CALLS, GPU_IS_LOST, HARD_CODES, NO_SUCH_WAY, WHOLE_MACHINE, Batch, Handle, attempt, quality_of
from ingest.nvml_links import LinkReader
from ingest.nvml_protocol import LinkReading, Number, Reading, Seat
from ingest.nvml_signals import COLD, HOT, LINK_TOTALS, SIGNALS, TIERS, Field, Signal


class GpuLost(Exception):
    """The GPU no longer answers."""


class GpuReader:
    """One GPU and what is known of its capabilities."""

    def __init__(self, handle: Handle, seat: Seat) -> None:
        self.handle = handle
        self.seat = seat
        self._way: dict[Signal, int] = {}  # index of the way in use; past the last: the model lacks the signal
        self._batches: dict[str, tuple[tuple[Signal, ...], Batch]] = {}
        self._links = LinkReader()

    def read(self, tier: str, with_links: bool) -> Reading:
        """Read the columns of a tier; a GPU that is lost in the middle gives none of them."""
        started = time.perf_counter_ns()
        if tier == COLD:
            self._way.clear()
            self._batches.clear()
            self._links = LinkReader()
        poll = _Poll()
        try:
            self._read_signals(tier, poll)
            links = self._read_links(poll, with_links) if tier != HOT or with_links else ()
        except GpuLost:
            poll, links = _Poll.lost(self.columns(tier)), ()
        latency_us = (time.perf_counter_ns() - started) // 1000
        return Reading(self.seat, poll.code, latency_us, poll.values, poll.quality, links, tuple(sorted(poll.hard_codes)))

    def columns(self, tier: str) -> Iterator[str]:
        """Name the columns that this GPU has in a tier, as far as is known."""
        for signal in self._signals(tier):
            yield from signal.columns
        if tier != HOT and self._links.count:
            yield from LINK_TOTALS

    def _read_links(self, poll: _Poll, with_rows: bool) -> tuple[LinkReading, ...]:
        poll.note(self._links.read(self.handle))
        values, quality = self._links.totals()
        poll.values.update(values)
        poll.quality.update(quality)
        return self._links.readings() if with_rows else ()

    def _signals(self, tier: str) -> list[Signal]:
        return [s for s in SIGNALS if TIERS[s.tier] <= TIERS[tier] and self._way.get(s, 0) < len(s.ways)]

    def _read_signals(self, tier: str, poll: _Poll) -> None:
        left = [signal for signal in self._signals(tier) if not isinstance(self._current(signal), Field)]
        left += self._read_batch(tier, poll)
        for signal in left:
            while (way := self._current(signal)) is not None and not self._read_one(signal, way, poll):
                self._way[signal] = self._way.get(signal, 0) + 1
                self._batches.clear()
            if way is None:
                poll.refuse(signal, "not_supported")

    def _current(self, signal: Signal) -> Any:
        at = self._way.get(signal, 0)
        return signal.ways[at] if at < len(signal.ways) else None

    def _read_batch(self, tier: str, poll: _Poll) -> list[Signal]:
        """Read all signals whose way is a field in one call; gives back those whose field the driver does not have."""
        if tier not in self._batches:
            signals = tuple(signal for signal in self._signals(tier) if isinstance(self._current(signal), Field))
            self._batches[tier] = signals, Batch([(self._current(s).id, self._current(s).scope) for s in signals])
        signals, batch = self._batches[tier]
        refused = []
        code, values = attempt(lambda: list(batch.read(self.handle)))
        for signal, (rc, value) in zip(signals, values or [(code, 0.0)] * len(signals), strict=True):
            if rc in NO_SUCH_WAY:
                refused.append(signal)
            else:
                poll.take(signal, rc, (value * self._current(signal).factor,))
        return refused

    def _read_one(self, signal: Signal, way: Any, poll: _Poll) -> bool:
        """Read one signal by one way; False when the driver does not have this way."""
        raw: tuple[float, ...] | None
        if isinstance(way, Field):
            code, values = attempt(lambda: list(Batch([(way.id, way.scope)]).read(self.handle)))
            code, raw = (values[0][0], (values[0][1] * way.factor,)) if values else (code, ())
        else:
            code, raw = attempt(lambda: CALLS[way.name](self.handle))
        if code in NO_SUCH_WAY:
            return False
        poll.take(signal, code, raw or ())
        return True


class _Poll:
    """What one poll of one GPU has gathered."""

    def __init__(self) -> None:
        self.code: str | None = None
        self.values: dict[str, Number] = {}
        self.quality: dict[str, str] = {}
        self.hard_codes: set[int] = set()

    @classmethod
    def lost(cls, columns: Iterator[str]) -> _Poll:
        poll = cls()
        poll.code, poll.quality = "lost", dict.fromkeys(columns, "lost")
        return poll

    def take(self, signal: Signal, rc: int, values: tuple[float, ...]) -> None:
        if rc == 0:
            self.values.update((column, signal.type(value)) for column, value in zip(signal.columns, values, strict=True))
        else:
            self.note(rc)
            self.refuse(signal, quality_of(rc))

    def note(self, rc: int) -> None:
        """Look at a return code that says more than that one value is missing."""
        if rc == GPU_IS_LOST:
            raise GpuLost
        if rc in WHOLE_MACHINE:
            raise nvml.NVMLError(rc)
        if rc in HARD_CODES:
            self.hard_codes.add(rc)

    def refuse(self, signal: Signal, code: str) -> None:
        self.quality.update(dict.fromkeys(signal.columns, code))
