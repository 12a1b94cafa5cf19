"""Reads one GPU: picks the way that this driver has for each signal, remembers what the model lacks, and never raises for a device.

A signal whose every way is refused is left out of later polls until the next cold poll asks again, so that "this model has no such
value" is said once an hour and not in every row.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pynvml as nvml

from ingest.nvml.calls import CALLS, Batch, Handle, Values, attempt
from ingest.nvml.codes import GPU, MACHINE, code_of, is_no_way
from ingest.nvml.further import BER_FIELDS, FURTHER, unpack_ber
from ingest.nvml.links import LinkReader
from ingest.nvml.protocol import LinkReading, Number, Reading, Seat
from ingest.nvml.signals import COLD, HOT, LINK_TOTALS, SIGNALS, TIERS, Call, Field, Signal


class GpuLost(Exception):
    """The GPU no longer answers."""


@dataclass(eq=False)
class _Asked:
    """A signal and which of its ways is in use."""

    signal: Signal
    is_column: bool
    way_at: int = 0

    @property
    def way(self) -> Field | Call | None:
        """The way in use; None when all were refused."""
        return self.signal.ways[self.way_at] if self.way_at < len(self.signal.ways) else None


class _Plan(NamedTuple):
    """How one tier is read: fields in one batch, and calls one by one."""

    fields: tuple[tuple[_Asked, float], ...]  # with the factor of each
    batch: Batch | None
    calls: tuple[_Asked, ...]


class GpuReader:
    """One GPU and what is known of its capabilities."""

    def __init__(self, handle: Handle, seat: Seat) -> None:
        self.handle = handle
        self.seat = seat
        self.forget()

    def forget(self) -> None:
        """Ask for everything again: a driver was loaded, or an hour has passed."""
        self._asked = [_Asked(signal, is_column=True) for signal in SIGNALS] + [_Asked(signal, is_column=False) for signal in FURTHER]
        self._plans: dict[str, _Plan] = {}
        self._links = LinkReader(tuple(BER_FIELDS))

    def read(self, tier: str, with_links: bool) -> Reading:
        """Read the signals of a tier; a GPU that is lost in the middle gives none of them."""
        started = time.perf_counter_ns()
        if TIERS[tier] >= TIERS[COLD]:
            self.forget()
        poll = _Poll()
        try:
            self._read_signals(tier, poll)
            links = self._read_links(poll, with_links) if tier != HOT or with_links else ()
        except GpuLost:
            poll, links = _Poll.lost(self.columns(tier)), ()
        latency_us = (time.perf_counter_ns() - started) // 1000
        return Reading(self.seat, poll.code, latency_us, poll.values, poll.quality, links, tuple(sorted(poll.news)))

    def columns(self, tier: str) -> Iterator[str]:
        """Name the columns of gpu_samples that this GPU has in a tier, as far as is known."""
        for asked in self._asked:
            if asked.is_column and asked.way is not None and TIERS[asked.signal.tier] <= TIERS[tier]:
                yield from asked.signal.columns
        if tier != HOT and self._links.count:
            yield from LINK_TOTALS

    def _read_signals(self, tier: str, poll: _Poll) -> None:
        plan = self._plans.get(tier) or self._make_plan(tier)
        refused = [asked for asked in plan.calls if not _read_call(self.handle, asked, poll)]
        if plan.batch is not None:
            refused += _read_batch(self.handle, plan.fields, plan.batch, poll)
        for asked in refused:
            self._try_next_ways(asked, poll)
        if refused:
            self._plans.clear()

    def _make_plan(self, tier: str) -> _Plan:
        due = [asked for asked in self._asked if TIERS[asked.signal.tier] <= TIERS[tier]]
        fields = [(asked, way) for asked in due if isinstance(way := asked.way, Field)]
        batch = Batch([(way.id, way.scope) for _, way in fields]) if fields else None
        calls = tuple(asked for asked in due if isinstance(asked.way, Call))
        plan = self._plans[tier] = _Plan(tuple((asked, way.factor) for asked, way in fields), batch, calls)
        return plan

    def _try_next_ways(self, asked: _Asked, poll: _Poll) -> None:
        """Go through the ways that are left, so that a retired call leaves no gap."""
        while True:
            asked.way_at += 1
            way = asked.way
            if way is None:
                poll.refuse(asked, "not_supported")
                return
            if isinstance(way, Call):
                is_read = _read_call(self.handle, asked, poll)
            else:
                is_read = not _read_batch(self.handle, [(asked, way.factor)], Batch([(way.id, way.scope)]), poll)
            if is_read:
                return

    def _read_links(self, poll: _Poll, with_rows: bool) -> tuple[LinkReading, ...]:
        poll.note(self._links.read(self.handle))
        values, quality = self._links.totals()
        poll.values.update(values)
        poll.quality.update(quality)
        for field, name in BER_FIELDS.items():
            if words := self._links.further(field):
                poll.values[name] = max(unpack_ber(word) for word in words)
        if poll.values.get("mig_mode"):  # NVML reports the links of a MIG-enabled GPU as down, which they are not
            poll.values.pop("nvlink_active", None)
            poll.quality["nvlink_active"] = "not_supported"
        return self._links.readings(is_state_known=not poll.values.get("mig_mode")) if with_rows else ()


def _read_call(handle: Handle, asked: _Asked, poll: _Poll) -> bool:
    """Read by a named call; False when the driver does not have it."""
    way = asked.way
    assert isinstance(way, Call), "BUG: a field is not called"
    rc, values = attempt(lambda: tuple(value if value is None else asked.signal.type(value) for value in CALLS[way.name](handle)))
    if rc and is_no_way(rc):
        return False
    poll.take(asked, rc, values or ())
    if not rc:
        poll.quality.update(way.marks)
    return True


def _read_batch(handle: Handle, fields: Sequence[tuple[_Asked, float]], batch: Batch, poll: _Poll) -> list[_Asked]:
    """Read many fields in one call; gives back those that the driver does not have."""
    code, values = attempt(lambda: list(batch.read(handle)))
    refused = []
    for (asked, factor), (rc, value) in zip(fields, values or [(code, 0.0)] * len(fields), strict=True):
        if rc and is_no_way(rc):
            refused.append(asked)
        else:
            poll.take(asked, rc, (value * factor,))
    return refused


class _Poll:
    """What one poll of one GPU has gathered."""

    def __init__(self) -> None:
        self.code: str | None = None
        self.values: dict[str, Number] = {}
        self.quality: dict[str, str] = {}
        self.news: set[int] = set()

    @classmethod
    def lost(cls, columns: Iterator[str]) -> _Poll:
        poll = cls()
        poll.code, poll.quality = "lost", dict.fromkeys(columns, "lost")
        return poll

    def take(self, asked: _Asked, rc: int, values: Values) -> None:
        if rc:
            self.note(rc)
            self.refuse(asked, code_of(rc).quality)
            return
        for column, value in zip(asked.signal.columns, values, strict=True):
            if value is not None:
                self.values[column] = asked.signal.type(value)

    def note(self, rc: int) -> None:
        """Look at a return code that says more than that one value is missing."""
        code = code_of(rc) if rc else None
        if code is None:
            return
        if code.about == GPU:
            raise GpuLost
        if code.about == MACHINE:
            raise nvml.NVMLError(rc)
        if code.is_news:
            self.news.add(rc)

    def refuse(self, asked: _Asked, code: str) -> None:
        self.quality.update(dict.fromkeys(asked.signal.columns, code))
