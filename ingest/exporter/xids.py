"""XIDs as an exporter tells them: the sticky gauge of the last code, and the count within a window.

Both are hints beside the kernel log. The gauge gives one event when its value changes, at the scrape where that is seen; a code that
already stands there at the first scrape is of unknown age. A rise of the windowed count is that many events, a fall is the window
passing on, and a code that the count covers needs no event from the gauge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ingest.clock import NS

_MOST_AT_ONCE = 32  # more of one code within a scrape say nothing more


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """One XID seen on a page."""

    code: int
    is_of_unknown_age: bool = False
    detail: str


class XidWatch:
    """The XID series of one GPU as last seen."""

    def __init__(self) -> None:
        self._is_first = True
        self._last: int | None = None
        self._changed_at_ns: int | None = None
        self._counts: dict[int, int] = {}

    def follow(self, last: int | None, counts: Mapping[int, int], message: str | None, at_ns: int) -> list[Sighting]:
        """Take the gauge (None: no series) and the windowed counts of one page; tell what is new."""
        new = [] if self._is_first else list(self._risen(counts))
        if last is not None and last != self._last:
            if last and last not in counts:
                new.append(
                    Sighting(
                        code=last,
                        is_of_unknown_age=self._is_first,
                        detail=f"last XID of the exporter{', there at the first scrape' if self._is_first else ''}: {message or last}",
                    )
                )
            self._last = last
            self._changed_at_ns = None if self._is_first else at_ns
        self._counts = dict(counts)
        self._is_first = False
        return new

    def age_s(self, at_ns: int) -> float | None:
        """Tell for how long the gauge has stood at its XID; None without one, or when it stood there at the first page."""
        return (at_ns - self._changed_at_ns) / NS if self._last and self._changed_at_ns is not None else None

    def _risen(self, counts: Mapping[int, int]) -> Iterator[Sighting]:
        for code, count in counts.items():
            risen = count - self._counts.get(code, 0)
            for _ in range(min(risen, _MOST_AT_ONCE)):
                yield Sighting(code=code, detail=f"windowed count of the exporter rose by {risen}")
