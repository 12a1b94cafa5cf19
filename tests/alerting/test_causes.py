"""Every cause of a node keeps its own clock, over alternation, silence, repair and restart."""

from __future__ import annotations

from alerting.causes import Cause, CauseKey, is_active, remember, repair
from alerting.rules import REMAP_FAILURE, XIDS, Finding, Kind, RulePolicy

HOUR = 3_600_000_000_000
NOW = 500_000 * HOUR
POLICY = RulePolicy()


def said(code: str, at_ns: int, kind: Kind = "failure", holds: bool = True) -> Finding:
    response = XIDS[48] if kind == "failure" else REMAP_FAILURE
    return Finding(node="n", code=code, kind=kind, component="g", at_ns=at_ns, response=response, holds=holds)


def told(known: dict[CauseKey, Cause], *findings: Finding, now_ns: int = NOW) -> dict[CauseKey, Cause]:
    return {**known, **remember(known, findings, POLICY, now_ns)}


def test_alternating_causes_keep_their_start() -> None:
    """Two causes that alternate every 30 s for an hour keep one start each."""
    known: dict[CauseKey, Cause] = {}
    for turn in range(120):
        at_ns = NOW + turn * 30_000_000_000
        known = told(known, said("xid.48" if turn % 2 else "xid.95", at_ns), now_ns=at_ns)
    assert {cause.code: cause.first_seen_ns - NOW for cause in known.values()} == {"xid.95": 0, "xid.48": 30_000_000_000}


def test_replayed_events_change_nothing() -> None:
    """After a restart the same events are read again: no cause starts anew, not even one that is over."""
    known = told({}, said("xid.48", NOW))
    assert remember(known, [said("xid.48", NOW)], POLICY, NOW + HOUR) == {}
    repaired = {**known, **repair(known.values(), "n", NOW + HOUR)}
    assert remember(repaired, [said("xid.48", NOW)], POLICY, NOW + 2 * HOUR) == {}


def test_failure_ends_by_repair_or_hold() -> None:
    """A failure counts until a repair is told, at most 24 h after its last sign."""
    (cause,) = told({}, said("xid.48", NOW)).values()
    assert is_active(cause, POLICY, NOW + 23 * HOUR)
    assert not is_active(cause, POLICY, NOW + 24 * HOUR)
    (repaired,) = repair([cause], "n", NOW + HOUR).values()
    assert not is_active(repaired, POLICY, NOW + HOUR)


def test_failure_after_repair_is_a_new_one() -> None:
    """The next failure of the same kind starts its own clock."""
    known = told({}, said("xid.48", NOW))
    known |= repair(known.values(), "n", NOW + HOUR)
    (again,) = told(known, said("xid.48", NOW + 5 * HOUR), now_ns=NOW + 5 * HOUR).values()
    assert (again.first_seen_ns, again.cleared_ns) == (NOW + 5 * HOUR, None)


def test_silence_takes_no_criterion_back() -> None:
    """A criterion stands without further polls; two hours after the hardware denies it, it is over."""
    known = told({}, said("vendor.remap_failure", NOW, "criterion"))
    (cause,) = known.values()
    assert is_active(cause, POLICY, NOW + 1000 * HOUR)
    (denied,) = told(known, said("vendor.remap_failure", NOW + HOUR, "criterion", holds=False)).values()
    assert is_active(denied, POLICY, NOW + 2 * HOUR)
    assert not is_active(denied, POLICY, NOW + 3 * HOUR)


def test_flapping_criterion_keeps_its_start() -> None:
    """A criterion that comes back within its hold is the same one."""
    known = told({}, said("c", NOW, "criterion"), said("c", NOW + HOUR, "criterion", holds=False), said("c", NOW + 2 * HOUR, "criterion"))
    (cause,) = known.values()
    assert (cause.first_seen_ns, cause.is_cleared) == (NOW, False)


def test_healthy_flags_are_no_cause() -> None:
    """A criterion that never held is not remembered."""
    assert told({}, said("c", NOW, "criterion", holds=False)) == {}
