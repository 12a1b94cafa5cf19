"""Hold what was recommended against what happened: failures announced and not, false alarms, node-hours drained and lost.

Pure: the ledger's recommendations and the truth go in, the account comes out. Nobody acted (shadow mode), so a drain that was
recommended is charged as if it had been done, and a failure that was announced counts as a loss that acting would have avoided.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

HOUR_NS = 3_600_000_000_000


@dataclass(frozen=True, kw_only=True)
class TrueFailure:
    """One failure of the emulated fleet, as its truth has it."""

    node: str
    unit: str
    mode: str
    is_visible: bool
    onset_ns: int | None
    failed_ns: int


@dataclass(frozen=True, kw_only=True)
class Recommended:
    """One recommendation as the ledger has it; `drain_ns` is when it first asked for a drain, None where it never did."""

    recommendation_id: str
    node: str
    opened_ns: int
    drain_ns: int | None
    resolved_ns: int | None
    strongest: str
    origin: str = "score"  # failure: the answer to a failure that has happened, which announces nothing
    budget: str
    p_fail: float | None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of one failure: announced `lead_h` before it happened, or missed with the reason."""

    failure: TrueFailure
    recommendation_id: str | None
    lead_h: float | None
    why_not: str | None


@dataclass(frozen=True, kw_only=True)
class Account:
    """The account of one live run; hours are node-hours."""

    verdicts: tuple[Verdict, ...]
    false_alarms: tuple[Recommended, ...]
    unresolved: tuple[Recommended, ...]
    drained_h: float
    lost_h: float
    avoidable_h: float

    @property
    def announced(self) -> int:
        """How many failures were announced."""
        return sum(verdict.lead_h is not None for verdict in self.verdicts)


def settle(
    failures: Iterable[TrueFailure],
    recommendations: Sequence[Recommended],
    *,
    ended_ns: int,
    horizon_h: float,
    drained_node_h: float,
    lost_per_failure_h: float,
) -> Account:
    """Draw up the account; an alarm is false when the node was seen for the whole horizon after it and did not fail."""
    verdicts = tuple(_verdict(failure, recommendations) for failure in sorted(failures, key=lambda failure: failure.failed_ns))
    drains = [recommended for recommended in recommendations if recommended.drain_ns is not None and recommended.origin != "failure"]
    quiet = [recommended for recommended in drains if not _came_true(recommended, verdicts, horizon_h)]
    seen_out = [recommended for recommended in quiet if _horizon_end(recommended, horizon_h) <= ended_ns]
    announced = sum(verdict.lead_h is not None for verdict in verdicts)
    return Account(
        verdicts=verdicts,
        false_alarms=tuple(seen_out),
        unresolved=tuple(recommended for recommended in quiet if recommended not in seen_out),
        drained_h=drained_node_h * len(drains),
        lost_h=lost_per_failure_h * len(verdicts),
        avoidable_h=lost_per_failure_h * announced,
    )


def _verdict(failure: TrueFailure, recommendations: Sequence[Recommended]) -> Verdict:
    on_node = [
        recommended for recommended in recommendations if recommended.node == failure.node and _is_open(recommended, failure.failed_ns)
    ]
    announcing = [recommended for recommended in on_node if _announces(recommended, failure)]
    if announcing:
        first = min(announcing, key=lambda recommended: recommended.drain_ns or 0)
        lead_h = (failure.failed_ns - (first.drain_ns or 0)) / HOUR_NS
        return Verdict(failure=failure, recommendation_id=first.recommendation_id, lead_h=lead_h, why_not=None)
    return Verdict(failure=failure, recommendation_id=None, lead_h=None, why_not=_why_not(failure, on_node))


def _announces(recommended: Recommended, failure: TrueFailure) -> bool:
    return recommended.origin != "failure" and recommended.drain_ns is not None and recommended.drain_ns < failure.failed_ns


def _is_open(recommended: Recommended, at_ns: int) -> bool:
    return recommended.opened_ns < at_ns and (recommended.resolved_ns is None or recommended.resolved_ns >= at_ns)


def _why_not(failure: TrueFailure, on_node: Sequence[Recommended]) -> str:
    if any(recommended.origin == "failure" for recommended in on_node):
        return "its node was still to be drained for an earlier failure"
    if any(recommended.budget == "denied" for recommended in on_node):
        return "a drain was wanted, the budget denied it"
    if on_node:
        return f"only {max(on_node, key=lambda recommended: recommended.opened_ns).strongest} was recommended"
    if not failure.is_visible or failure.onset_ns is None:
        return "it had no precursor"
    sign_h = (failure.failed_ns - failure.onset_ns) / HOUR_NS
    return f"its sign of {sign_h:.1f} h left the risk below the threshold"


def _came_true(recommended: Recommended, verdicts: Iterable[Verdict], horizon_h: float) -> bool:
    start = recommended.drain_ns or recommended.opened_ns
    end = max(_horizon_end(recommended, horizon_h), recommended.resolved_ns or 0)
    return any(verdict.failure.node == recommended.node and start <= verdict.failure.failed_ns <= end for verdict in verdicts)


def _horizon_end(recommended: Recommended, horizon_h: float) -> int:
    return (recommended.drain_ns or recommended.opened_ns) + int(horizon_h * HOUR_NS)
