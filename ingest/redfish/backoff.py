"""How long to wait before the next attempt: full jitter below a bound that doubles, never less than the peer asked for."""

from __future__ import annotations

import random

RETRY_FIELD_S = (1.0, 300.0)  # clamp of a stream's `retry:`


class Backoff:
    """Delays of one thing that is tried again and again; reset it by a success that means something, never by a mere 200."""

    def __init__(self, rng: random.Random, *, first_s: float = 1.0, most_s: float = 60.0) -> None:
        self._rng = rng
        self._first_s = first_s
        self._most_s = most_s
        self._bound_s = first_s

    def next_s(self, at_least_s: float = 0.0) -> float:
        """Draw the next delay."""
        delay_s = self._rng.uniform(0.0, self._bound_s)
        self._bound_s = min(self._bound_s * 2, self._most_s)
        return max(delay_s, at_least_s)

    def reset(self) -> None:
        """Start from the first delay again."""
        self._bound_s = self._first_s


def clamp_retry_s(retry_ms: int | None) -> float:
    """Read a stream's `retry` field as a lower bound of the delay; absurd values occur."""
    least_s, most_s = RETRY_FIELD_S
    return 0.0 if retry_ms is None else max(min(retry_ms, most_s * 1000) / 1000, least_s)
