"""What a node's probabilities per horizon say about the time between: a hazard that is constant within each horizon bin.

F(h) = 1 - exp(-cumulative(h)); beyond the last horizon the last rate goes on (mathematics: docs/method.md, section on the hazard model).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_SURE = 1.0 - 1e-9  # a probability of 1 has no finite rate


@dataclass(frozen=True)
class Hazard:
    """Failure rate per hour in consecutive bins; `ends_h` are the horizons in hours, ascending."""

    ends_h: tuple[float, ...]
    rates_per_h: tuple[float, ...]

    @classmethod
    def from_probabilities(cls, points: Iterable[tuple[float, float]]) -> Hazard:
        """Derive the rates from (hours, probability of failing within them); a probability that falls counts as no rate."""
        ends, rates = [], []
        start, before = 0.0, 0.0
        for hours, p_fail in sorted(points):
            cumulative = max(before, -math.log1p(-min(p_fail, _SURE)))
            ends.append(hours)
            rates.append((cumulative - before) / (hours - start))
            start, before = hours, cumulative
        return cls(tuple(ends), tuple(rates))

    @classmethod
    def constant(cls, rate_per_h: float, until_h: float) -> Hazard:
        """Give one rate for all times."""
        return cls((until_h,), (rate_per_h,))

    def cumulative(self, hours: float) -> float:
        """Integrate the rate from now to `hours`."""
        return sum(width * rate for width, rate in self._bins(hours))

    def p_fail(self, hours: float) -> float:
        """Give the probability of failing within `hours`."""
        return -math.expm1(-self.cumulative(hours))

    def p_before_boundary(self, boundary_rate_per_h: float, until_h: float) -> float:
        """Give the probability that the failure comes before a free boundary (a Poisson arrival) and before `until_h`."""
        total, alive = 0.0, 1.0
        for width, rate in self._bins(until_h):
            if (either := rate + boundary_rate_per_h) > 0:
                total += alive * rate / either * -math.expm1(-either * width)
                alive *= math.exp(-either * width)
        return total

    def time_of(self, share: float) -> float:
        """Give the hour by which `share` of the failures within the last horizon have come; the last horizon where none come."""
        wanted = -math.log1p(-share * self.p_fail(self.ends_h[-1]))
        start, before = 0.0, 0.0
        for end, rate in zip(self.ends_h, self.rates_per_h, strict=True):
            after = before + rate * (end - start)
            if rate > 0 and after >= wanted:
                return start + (wanted - before) / rate
            start, before = end, after
        return self.ends_h[-1]

    def away_from(self, base: Hazard, factor: float) -> Hazard:
        """Stretch the excess over a base hazard of the same bins by `factor`; a rate never falls below zero."""
        pairs = zip(self.rates_per_h, base.rates_per_h, strict=True)
        return Hazard(self.ends_h, tuple(max(0.0, low + factor * (rate - low)) for rate, low in pairs))

    def _bins(self, until_h: float) -> Sequence[tuple[float, float]]:
        bins: list[tuple[float, float]] = []
        start = 0.0
        for end, rate in zip(self.ends_h, self.rates_per_h, strict=True):
            if start >= until_h:
                return bins
            bins.append((min(end, until_h) - start, rate))
            start = end
        if start < until_h:
            bins.append((until_h - start, self.rates_per_h[-1]))
        return bins
