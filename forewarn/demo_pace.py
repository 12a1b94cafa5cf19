"""Paces the fleet of the demo: time stands while polls, devices or scores are behind; a slow machine makes it longer, not different."""

from __future__ import annotations

from forewarn.analysis import scored_until
from ingest.clock import NS, SharedClock, datetime_of, ns_of
from ingest.errors import ForewarnError
from ingest.lake import Lake

_BEHIND_NS = 90 * NS  # fleet time by which a poll, or a change of the devices, may be late: changes are due 180 s after polls
_PATIENCE_S = 10.0  # wall time for which a single one is waited for: one that hangs is part of what happens to fleets
_SCORES_BEHIND_NS = 9000 * NS  # fleet time by which the newest scores may be behind
_SCORES_PATIENCE_S = 120.0  # wall time for which scores are waited for
_SCORES_EVERY_S = 1.0  # wall time between two looks at how far the scores are


class Pacer:
    """Lets the shared time stand and go; `epoch_ns` is when the fleet began to live."""

    def __init__(self, clock: SharedClock, lake: Lake, epoch_ns: int) -> None:
        self._clock = clock
        self._lake = lake
        self._scored_ns = self._epoch_ns = epoch_ns
        self._looked_s = float("-inf")
        self._waits_since_s: float | None = None
        self._late: tuple[int, float] = (0, 0.0)  # when that was due which time waits for, and since when it does

    def keep(self, now_s: float) -> int:
        """Let time stand or go on, `now_s` by the monotonic clock; gives fleet time. Raises ForewarnError where scores do not come."""
        at_ns = self._clock.now_ns()
        if self._scores_are_behind(at_ns, now_s) or self._something_is_late(at_ns, now_s):
            self._clock.stand()
        else:
            self._clock.go()
        return at_ns

    def _scores_are_behind(self, at_ns: int, now_s: float) -> bool:
        if now_s - self._looked_s >= _SCORES_EVERY_S:
            scored = scored_until(self._lake)
            self._looked_s, self._scored_ns = now_s, ns_of(scored) if scored else self._epoch_ns
        if at_ns - self._scored_ns < _SCORES_BEHIND_NS:
            self._waits_since_s = None
            return False
        self._waits_since_s = now_s if self._waits_since_s is None else self._waits_since_s
        if now_s - self._waits_since_s > _SCORES_PATIENCE_S:
            raise ForewarnError(f"no scores of {datetime_of(at_ns)} after {_SCORES_PATIENCE_S:.0f} s: see the logs of forewarn up")
        return True

    def _something_is_late(self, at_ns: int, now_s: float) -> bool:
        expected_ns = self._clock.expected_ns
        if at_ns - expected_ns < _BEHIND_NS:
            return False
        if self._late[0] != expected_ns:
            self._late = expected_ns, now_s
        return now_s - self._late[1] < _PATIENCE_S
