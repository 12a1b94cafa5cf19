"""What a page as a whole says: which GPUs are missing, and whether its values are served from a cache whose source has died.

Missing is not failed. A GPU that is gone while its peers are there is said to be missing, once; when most GPUs vanish at once, or the
survivors have just got pods, the exporter is to blame (dcgm-exporter#569 drops idle GPUs) and nothing is said about the hardware.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from ingest.clock import NS
from ingest.exporter.text import GpuLabels

SCRAPES = 3  # a state that lasts this many scrapes is no accident


@dataclass
class _Seat:
    is_here: bool = True
    is_excused: bool = False
    is_announced: bool = False
    scrapes_back: int = SCRAPES
    in_pod: bool = False


@dataclass(frozen=True, kw_only=True)
class Absence:
    """GPUs that one page lacks: all that count as missing, and those of them that are missing since now."""

    missing: tuple[str, ...] = ()
    newly_missing: tuple[str, ...] = ()
    excused: tuple[str, ...] = ()


@dataclass
class Presence:
    """The GPUs that a node is known to have."""

    seats: dict[str, _Seat] = field(default_factory=dict)

    @classmethod
    def of(cls, expected: Iterable[str]) -> Presence:
        """Start with the GPUs that the node's inventory names."""
        return cls({uuid: _Seat() for uuid in expected})

    def judge(self, seen: Mapping[str, GpuLabels]) -> Absence:
        """Hold a page that names GPUs against those that are known."""
        gone = [uuid for uuid, seat in self.seats.items() if seat.is_here and uuid not in seen]
        were_here = sum(seat.is_here for seat in self.seats.values())
        if self._is_exporters_doing(gone, were_here, seen):
            for uuid in gone:
                self.seats[uuid].is_excused = True
        self.notice(seen)
        absent = [(uuid, seat) for uuid, seat in self.seats.items() if uuid not in seen]
        new = tuple(uuid for uuid, seat in absent if not seat.is_excused and not seat.is_announced)
        for uuid, seat in absent:
            seat.is_here, seat.scrapes_back = False, 0
            seat.is_announced |= uuid in new
        return Absence(
            missing=tuple(uuid for uuid, seat in absent if not seat.is_excused),
            newly_missing=new,
            excused=tuple(uuid for uuid, seat in absent if seat.is_excused),
        )

    def _is_exporters_doing(self, gone: list[str], were_here: int, seen: Mapping[str, GpuLabels]) -> bool:
        if not gone:
            return False
        most = len(gone) > 1 and 2 * len(gone) > were_here
        gained_pod = any(labels.in_pod and not self.seats[uuid].in_pod for uuid, labels in seen.items() if uuid in self.seats)
        only_pods = all(labels.in_pod for labels in seen.values()) and not any(self.seats[uuid].in_pod for uuid in gone)
        return most or (gained_pod and only_pods)

    def notice(self, seen: Mapping[str, GpuLabels]) -> None:
        """Take note of GPUs that are there, and conclude nothing about others."""
        for uuid, labels in seen.items():
            seat = self.seats.setdefault(uuid, _Seat())
            seat.is_here, seat.is_excused, seat.in_pod = True, False, labels.in_pod
            seat.scrapes_back += 1
            if seat.scrapes_back >= SCRAPES:  # back for good: its next absence is news again
                seat.is_announced = False


class Freshness:
    """Tell a page that lives from one that is served from a dead cache, by energy counters that stand still under load.

    An exporter refreshes its values every 30 s unless told otherwise, so a shorter standstill means nothing, and neither does one not
    much longer than this exporter has shown before. When anything else of the page has moved meanwhile, it lives, and the energy
    is given more scrapes.
    """

    def __init__(self, refresh_s: float = 30.0, idle_w: float = 50.0) -> None:
        self._patience_ns = int(refresh_s * NS)
        self._idle_w = idle_w
        self._energy: dict[str, int] = {}
        self._shape: Hashable = None
        self._scrapes_still = 0
        self._has_lived = False
        self.since_ns: int | None = None

    def forget(self) -> None:
        """Start afresh: the page was away."""
        self._energy = {}
        self.since_ns = None

    def is_stale(self, readings: Mapping[str, tuple[int | None, float | None]], shape: Hashable, at_ns: int) -> bool:
        """Judge by the (energy, power) of each GPU; `shape` is whatever else shows that the page was made anew."""
        working = {
            uuid: energy for uuid, (energy, power) in readings.items() if energy is not None and power is not None and power > self._idle_w
        }
        if not working or self.since_ns is None or any(energy != self._energy.get(uuid) for uuid, energy in working.items()):
            self._moved(at_ns)
        else:
            self._scrapes_still += 1
            if shape != self._shape:
                self._has_lived, self._scrapes_still = True, 0
        self._energy, self._shape = working, shape
        needed = SCRAPES if self._has_lived else 1
        since_ns = at_ns if self.since_ns is None else self.since_ns
        return self._scrapes_still >= needed and at_ns - since_ns >= self._patience_ns

    def _moved(self, at_ns: int) -> None:
        if self.since_ns is not None and self._scrapes_still:
            still_ns = min(at_ns - self.since_ns, 300 * NS)
            self._patience_ns = max(self._patience_ns, still_ns * 3 // 2)
        self.since_ns, self._scrapes_still, self._has_lived = at_ns, 0, False
