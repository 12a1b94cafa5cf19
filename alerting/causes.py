"""Remember what hard signals said: every cause of a node keeps its own start, however often others come and go between.

A failure is active until a repair is known, or until its hold has passed without another sign. A criterion is active until the
hardware itself takes it back and the hold has passed; silence takes nothing back. A reboot or repair clears both: what still holds
will be found again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from alerting.rules import Finding, Kind, Response, RulePolicy

CauseKey = tuple[str, str, str]  # node, code, component


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One reason why a node may have to leave service, with its clocks."""

    node: str
    code: str
    kind: Kind
    component: str | None
    response: Response
    first_seen_ns: int
    last_seen_ns: int
    cleared_ns: int | None = None

    @property
    def key(self) -> CauseKey:
        """Identity of the cause over restarts."""
        return (self.node, self.code, self.component or "")

    @property
    def is_cleared(self) -> bool:
        """Claims that it was taken back or repaired after its last sign."""
        return self.cleared_ns is not None and self.cleared_ns >= self.last_seen_ns


def is_active(cause: Cause, policy: RulePolicy, now_ns: int) -> bool:
    """Claim that the cause still speaks for taking the node out."""
    if cause.kind == "failure" or cause.component is None:  # a criterion of no known GPU cannot be taken back by one
        return not cause.is_cleared and now_ns - cause.last_seen_ns < policy.failure_hold_h * 3600e9
    return not cause.is_cleared or now_ns - (cause.cleared_ns or 0) < policy.criterion_hold_h * 3600e9


def remember(known: Mapping[CauseKey, Cause], found: Iterable[Finding], policy: RulePolicy, now_ns: int) -> dict[CauseKey, Cause]:
    """Give the causes that change by what was found; an event that was already told, for example before a restart, changes nothing."""
    changed: dict[CauseKey, Cause] = {}
    for finding in sorted(found, key=lambda finding: finding.at_ns):
        key = (finding.node, finding.code, finding.component or "")
        before = changed.get(key) or known.get(key)
        after = _told(before, finding, policy, now_ns)
        if after is not None and after is not before:
            changed[key] = after
    return changed


def repair(known: Iterable[Cause], node: str, at_ns: int) -> dict[CauseKey, Cause]:
    """Give the node's causes as cleared by a repair or reboot at `at_ns`."""
    return {
        cause.key: replace(cause, cleared_ns=at_ns)
        for cause in known
        if cause.node == node and not cause.is_cleared and cause.last_seen_ns <= at_ns
    }


def _told(before: Cause | None, finding: Finding, policy: RulePolicy, now_ns: int) -> Cause | None:
    if before is None:
        return _new(finding) if finding.holds else None
    if finding.at_ns <= max(before.last_seen_ns, before.cleared_ns or 0):
        return before
    if not finding.holds:
        return before if before.is_cleared else replace(before, cleared_ns=finding.at_ns)
    if not is_active(before, policy, now_ns):
        return _new(finding)
    return replace(before, last_seen_ns=finding.at_ns, response=finding.response)


def _new(finding: Finding) -> Cause:
    return Cause(
        node=finding.node,
        code=finding.code,
        kind=finding.kind,
        component=finding.component,
        response=finding.response,
        first_seen_ns=finding.at_ns,
        last_seen_ns=finding.at_ns,
    )
