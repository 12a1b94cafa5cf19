"""What goes wrong with the telemetry itself of an emulated fleet, apart from any failure: loss, gaps, stale values, duplicates, skew.

No rate of these is published: they are guesses, and on. Everything is a function of (seed, node, time slot).
"""

from __future__ import annotations

import numpy as np

from emulators import draws
from emulators.draws import Flags, Ints
from emulators.layout import MS_NS, NS, WorldSpec

LOSS_LOW, LOSS_HIGH = 0.001, 0.010
GAPS_PER_DAY = 1 / 12
GAP_MEDIAN_SLOTS, GAP_SIGMA, GAP_MOST_SLOTS = 5.0, 1.1, 72
STALE_SHARE, DUPLICATE_SHARE = 0.0005, 0.0003
SKEW_NS = 2 * NS
_DAY_S = 86_400


class Defects:
    """Telemetry defects of a fleet; nodes and slots (polls since the start) are arrays that broadcast."""

    def __init__(self, spec: WorldSpec) -> None:
        self._spec = spec
        self._key = draws.key_of(spec.seed, "defects")
        self._slots_per_day = _DAY_S // spec.cadence_s

    def is_lost(self, nodes: Ints, slots: Ints) -> Flags:
        """Tell which polls of a node gave nothing: lost one by one, or in gaps of minutes to hours."""
        if not self._spec.defects:
            return np.zeros(np.broadcast_shapes(np.shape(nodes), np.shape(slots)), bool)
        loss = LOSS_LOW + (LOSS_HIGH - LOSS_LOW) * draws.uniform(self._key, nodes, 1)
        lost: Flags = (draws.uniform(self._key, nodes, slots, 2) < loss) | self.is_gap(nodes, slots)
        return lost

    def is_gap(self, nodes: Ints, slots: Ints) -> Flags:
        """Tell which polls fall into a gap of the node's telemetry."""
        if not self._spec.defects:
            return np.zeros(np.broadcast_shapes(np.shape(nodes), np.shape(slots)), bool)
        day, of_day = np.divmod(slots, self._slots_per_day)
        inside: Flags = self._gap_of_day(nodes, day, of_day) | self._gap_of_day(nodes, day - 1, of_day + self._slots_per_day)
        return inside

    def _gap_of_day(self, nodes: Ints, day: Ints, slot: Ints) -> Flags:
        has_gap = draws.uniform(self._key, nodes, day, 3) < GAPS_PER_DAY
        start = (self._slots_per_day * draws.uniform(self._key, nodes, day, 4)).astype(np.int64)
        length = np.minimum(GAP_MEDIAN_SLOTS * np.exp(GAP_SIGMA * draws.normal(self._key, nodes, day, 5)), GAP_MOST_SLOTS)
        inside: Flags = has_gap & (slot >= start) & (slot < start + length)
        return inside

    def is_stale(self, nodes: Ints, slots: Ints) -> Flags:
        """Tell which polls repeat the values of the poll before."""
        stale: Flags = self._spec.defects & (draws.uniform(self._key, nodes, slots, 6) < STALE_SHARE)
        return stale

    def is_doubled(self, nodes: Ints, slots: Ints) -> Flags:
        """Tell which polls are delivered twice."""
        doubled: Flags = self._spec.defects & (draws.uniform(self._key, nodes, slots, 7) < DUPLICATE_SHARE)
        return doubled

    def skew_ns(self, nodes: Ints, slots: Ints) -> Ints:
        """Tell how far the node's clock is off: within 2 s, changing in weekly steps."""
        if not self._spec.defects:
            return np.zeros(np.broadcast_shapes(np.shape(nodes), np.shape(slots)), np.int64)
        week = slots // (7 * self._slots_per_day)
        return (SKEW_NS * (2.0 * draws.uniform(self._key, nodes, week, 8) - 1.0)).astype(np.int64) // MS_NS * MS_NS

    def jitter_ns(self, nodes: Ints, slots: Ints) -> Ints:
        """Tell how long after its due time a poll is made: 3 to 18 s."""
        return ((3.0 + 15.0 * draws.uniform(self._key, nodes, slots, 9)) * 1000).astype(np.int64) * MS_NS

    def latency_ns(self, nodes: Ints, slots: Ints) -> Ints:
        """Tell how long the answer takes to arrive: lognormal, median 80 ms, at most 2 s."""
        seconds = np.minimum(0.08 * np.exp(0.7 * draws.normal(self._key, nodes, slots, 10)), 2.0)
        return (seconds * 1000).astype(np.int64) * MS_NS + MS_NS
