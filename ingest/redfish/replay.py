"""Tell what a stream replays from what happens.

After a stream was opened, BMCs send again what may have been missed, or all that they remember. That lasts until no event has come for
`REPLAY_S`, or has lasted `MOST_REPLAY_S` where events never cease (heartbeats). Only time in which the stream was read counts.
"""

from __future__ import annotations

REPLAY_S = 30.0
MOST_REPLAY_S = 600.0


class Replay:
    """The replay of one stream; times are seconds of reading, from any origin."""

    def __init__(self, opened_s: float, *, lull_s: float = REPLAY_S) -> None:
        self._opened_s = self._last_s = opened_s
        self._lull_s = lull_s
        self._is_over = False

    def is_over_at(self, now_s: float) -> bool:
        """Note that an event came and tell whether it has just happened; once over, a replay stays so."""
        if now_s - self._last_s >= self._lull_s or now_s - self._opened_s >= MOST_REPLAY_S:
            self._is_over = True
        self._last_s = now_s
        return self._is_over
