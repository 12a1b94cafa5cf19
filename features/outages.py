"""From signs of failure to outages: one event has one mode and one unit, however many signs it raises.

Within an outage everything that the node says belongs to the same event. The mode and the unit come from the sign that is to be believed
most (see failure_signs.sql): a replaced part, then a confirmed outcome, then an event that names its mode, then a suspected outcome.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from features.modes import GPU_MODES

REPAIRS = frozenset({"part_replaced", "reset_fixed", "reboot_fixed"})
_CONFIRMED = 3
_UNUSABLE = frozenset({"failed_while_drained"})


@dataclass(frozen=True, kw_only=True)
class Sign:
    """One thing that says that hardware has failed, or what was repaired."""

    node: str
    gpu_uuid: str | None
    happened_at: datetime
    known_at: datetime
    mode: str
    rank: int
    kind: str
    is_ours: bool = False

    @property
    def unit(self) -> str:
        """Name the unit that the sign is about."""
        return self.gpu_uuid or self.node


@dataclass(frozen=True, kw_only=True)
class Outage:
    """A node is out of service from `started_at` to `ended_at`; `unit` failed where `reason` is failure."""

    node: str
    started_at: datetime
    ended_at: datetime
    known_at: datetime
    reason: str  # failure, maintenance, drained_by_us, decommissioned
    unit: str | None = None
    mode: str | None = None
    rank: int = 0

    @property
    def is_confirmed(self) -> bool:
        """Tell whether an outcome names the mode."""
        return self.rank >= _CONFIRMED


@dataclass(frozen=True)
class Presence:
    """When a node was seen: spans of telemetry, and single moments (jobs that started, inserts, repairs), sorted."""

    spans: Sequence[tuple[datetime, datetime]] = ()
    moments: Sequence[datetime] = ()
    settle: timedelta = timedelta(hours=1)
    repair: timedelta = timedelta(days=1)

    def back_after(self, at: datetime) -> datetime:
        """Tell when the node is in service again after a failure at `at`; `datetime.max` while telemetry still waits for it."""
        settled = at + self.settle
        following = bisect_right(self.moments, at)
        seen = list(self.moments[following : following + 1])
        last = bisect_right(self.spans, (settled, settled)) - 1
        if last >= 0 and settled < self.spans[last][1]:
            seen.append(settled)
        elif last + 1 < len(self.spans):
            seen.append(max(settled, self.spans[last + 1][0]))
        if seen:
            return min(seen)
        return datetime.max.replace(tzinfo=at.tzinfo) if self.spans else at + self.repair


def find_outages(signs: Iterable[Sign], planned: Iterable[Outage], presence: Presence) -> list[Outage]:
    """Find the outages of one node, in order and without overlap."""
    found: list[Outage] = []
    for at, item in sorted([(sign.happened_at, sign) for sign in signs] + [(outage.started_at, outage) for outage in planned], key=_order):
        current = found[-1] if found and at < found[-1].ended_at else None
        if isinstance(item, Outage):
            if current is None:
                found.append(replace(item, ended_at=item.ended_at if item.ended_at > item.started_at else presence.back_after(at)))
        elif item.kind in REPAIRS:
            _learn(found, item)
        elif current is not None:
            found[-1] = _joined(current, item, presence)
        elif item.kind not in _UNUSABLE and not (item.is_ours and item.kind != "failed_in_service"):
            found.append(_opened(item, presence))
    return found


def _order(entry: tuple[datetime, Sign | Outage]) -> tuple[datetime, int]:
    """Take what was planned before what failed, and the most believed of simultaneous signs first."""
    at, item = entry
    return at, -1 if isinstance(item, Outage) else 9 - item.rank


def _opened(sign: Sign, presence: Presence) -> Outage:
    return Outage(
        node=sign.node,
        started_at=sign.happened_at,
        ended_at=presence.back_after(sign.happened_at),
        known_at=sign.known_at,
        reason="failure",
        unit=sign.unit,
        mode=sign.mode,
        rank=sign.rank,
    )


def _joined(outage: Outage, sign: Sign, presence: Presence) -> Outage:
    """Let a further sign of the event prolong the outage and, where it is believed more, say what failed."""
    if outage.reason != "failure":
        return outage
    if sign.unit == outage.unit:
        outage = replace(outage, ended_at=max(outage.ended_at, presence.back_after(sign.happened_at)))
    outage = replace(outage, known_at=min(outage.known_at, sign.known_at))
    return _believed(outage, sign)


def _learn(found: list[Outage], repair: Sign) -> None:
    """Let a repair say what had failed in the newest outage of its unit, or of its node."""
    for index in range(len(found) - 1, -1, -1):
        outage = found[index]
        if outage.reason == "failure" and outage.unit in (repair.unit, repair.node):
            found[index] = _believed(outage, repair)
            return


def _believed(outage: Outage, sign: Sign) -> Outage:
    if sign.rank <= outage.rank:
        return outage
    unit = outage.unit
    if sign.rank >= _CONFIRMED:
        unit = sign.gpu_uuid or (unit if sign.mode in GPU_MODES else sign.node)
    return replace(outage, mode=sign.mode, rank=sign.rank, unit=unit)
