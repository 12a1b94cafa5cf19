"""Tell a quiet stream from a dead one by what this BMC was seen to do."""

from __future__ import annotations

import random

MOST_PROBES = 3
COMMENT_PERIODS, LEAST_SILENCE_S = 3.0, 30.0
# Dell ends a stream that carried nothing for an hour and wants to be left alone for a while.
IDLE_S = 1800.0
IDLE_DELAY_S = (20.0, 30.0)


class Liveness:
    """Signs of life of one stream, by wall time in seconds."""

    def __init__(self, now_s: float, *, least_silence_s: float = LEAST_SILENCE_S) -> None:
        self._heard_s = now_s
        self._least_silence_s = least_silence_s
        self._commented_s: float | None = None
        self._comment_period_s: float | None = None
        self._failed_probes = 0

    def heard(self, now_s: float, *, comments: int) -> None:
        """Note that bytes came, with so many comments among them."""
        self._heard_s = now_s
        self._failed_probes = 0
        if comments:
            if self._commented_s is not None:
                self._comment_period_s = max(self._comment_period_s or 0.0, now_s - self._commented_s)
            self._commented_s = now_s

    def probed(self, *, is_alive: bool) -> None:
        """Note the result of a probe; raises TimeoutError when the last three failed."""
        self._failed_probes = 0 if is_alive else self._failed_probes + 1
        if self._failed_probes >= MOST_PROBES:
            raise TimeoutError

    def misses_comments(self, now_s: float) -> bool:
        """Tell whether a BMC that used to send comments has stopped."""
        if self._comment_period_s is None:
            return False
        return now_s - self._heard_s > max(COMMENT_PERIODS * self._comment_period_s, self._least_silence_s)

    def least_delay_s(self, now_s: float, rng: random.Random) -> float:
        """Tell how long to wait at least before the stream is opened again."""
        return rng.uniform(*IDLE_DELAY_S) if now_s - self._heard_s > IDLE_S else 0.0
