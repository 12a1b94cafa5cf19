"""From what is wanted to what is said: open, update, hold or resolve one recommendation per node; pure.

    nothing ──wanted──► open ──┬─ severer action or earlier deadline: update at once
                               ├─ other change: update, at most one per 10 minutes
                               ├─ the model abstains: hold; never released by silence
                               ├─ clear (half the opening excess) held for 2 h: resolved `risk_cleared`
                               └─ failed · repaired · dismissed by an operator · silent too long: resolved with that reason

A milder action replaces a severer one only after the same hold, so that a score around its threshold says one thing a day, not many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from alerting.policy import Origin, Wanted
from alerting.schema import Action, BudgetVerdict, ResolvedBecause, Urgency

HOUR_NS = 3_600_000_000_000


@dataclass(frozen=True, kw_only=True)
class LifecycleSettings:
    """How steady recommendations are."""

    opens_from: Action = Action.AVOID_NEW_GANGS
    hold_h: float = 2.0  # clear or milder for so long before it is said
    update_gap_s: float = 600.0
    p_change: float = 0.25  # relative change of the probability that is worth an update
    lives_h: float = 6.0  # a consumer must not start to act later than this after a revision
    silent_h: float = 72.0  # abstaining for so long ends a recommendation, without release
    dismissed_h: float = 24.0  # what an operator dismissed does not come back, unless severer, for so long


@dataclass(frozen=True, kw_only=True)
class OpenRecommendation:
    """What the ledger remembers of a recommendation that is open."""

    recommendation_id: str
    node: str
    revision: int
    origin: Origin
    action: Action
    urgency: Urgency
    p_fail: float
    opened_at_ns: int
    updated_at_ns: int
    expires_at_ns: int
    act_by_ns: int | None = None
    budget: BudgetVerdict = "not_applicable"
    granted_at_ns: int | None = None
    is_held_out: bool = False  # left in service at random
    clear_since_ns: int | None = None
    milder_since_ns: int | None = None
    silent_since_ns: int | None = None


@dataclass(frozen=True, kw_only=True)
class News:
    """What happened to a node that a recommendation has to answer to."""

    failed_at_ns: int | None = None  # start of its newest failure
    repaired_at_ns: int | None = None
    outcome_id: str | None = None
    is_dismissed: bool = False  # an operator rejected the open recommendation
    dismissed_action: Action | None = None  # of an earlier one, dismissed not long ago
    is_foreign_drain: bool = False  # somebody else had drained the node: nothing of ours to give back


@dataclass(frozen=True, kw_only=True)
class Step:
    """What to say about one node now; `open` is the memory to keep when nothing or an update is said."""

    says: Literal["nothing", "opened", "updated", "resolved", "hold"]
    why: str = ""
    action: Action = Action.NONE
    open: OpenRecommendation | None = None
    resolution: ResolvedBecause | None = None
    release: bool = False


NOTHING = Step(says="nothing")


def step(open_: OpenRecommendation | None, wanted: Wanted | None, news: News, settings: LifecycleSettings, now_ns: int) -> Step:
    """Decide what to say about a node; `wanted` is None where the model abstains."""
    if open_ is None:
        return _opening(wanted, news, settings)
    ended = _ended(open_, news, settings, now_ns)
    if ended:
        return ended
    if wanted is None:
        return _silent(open_, now_ns)
    memory = _clocks(open_, wanted, settings, now_ns)
    if urgent := _more_urgent(memory, wanted, now_ns):
        return Step(says="updated", why=urgent, action=wanted.action, open=memory)
    if _held(memory.clear_since_ns, settings, now_ns):
        return _resolve(memory, "risk_cleared", "cleared", news)
    return _lesser_change(memory, wanted, settings, now_ns)


def with_budget(said: Step, verdict: BudgetVerdict, settings: LifecycleSettings, now_ns: int) -> Step:
    """Turn a hold into an update where the budget's answer has changed."""
    if said.says != "hold" or said.why == "abstained" or said.open is None or said.open.budget == verdict:
        return said
    if _too_soon(said.open, settings, now_ns):
        return said
    return replace(said, says="updated", why="budget")


def _opening(wanted: Wanted | None, news: News, settings: LifecycleSettings) -> Step:
    if wanted is None or wanted.action.severity < max(settings.opens_from.severity, Action.WATCH.severity):
        return NOTHING
    if news.dismissed_action and wanted.action.severity <= news.dismissed_action.severity:
        return NOTHING
    return Step(says="opened", why=wanted.origin, action=wanted.action)


def _ended(open_: OpenRecommendation, news: News, settings: LifecycleSettings, now_ns: int) -> Step | None:
    same_incident_ns = int(settings.hold_h * HOUR_NS) if open_.origin == "failure" else 0
    if news.failed_at_ns and news.failed_at_ns >= open_.opened_at_ns + same_incident_ns:
        return _resolve(open_, "failed", "failed", news)
    if news.repaired_at_ns and news.repaired_at_ns >= open_.opened_at_ns:
        return _resolve(open_, "completed", "outcome", news)
    if news.is_dismissed:
        return _resolve(open_, "dismissed", "operator", news)
    if open_.silent_since_ns and now_ns - open_.silent_since_ns >= settings.silent_h * HOUR_NS:
        return _resolve(open_, "telemetry_lost", "silent", news)
    return None


def _resolve(open_: OpenRecommendation, because: ResolvedBecause, why: str, news: News) -> Step:
    gives_back = because in ("risk_cleared", "completed", "dismissed", "expired") and not news.is_foreign_drain
    return Step(says="resolved", why=why, action=open_.action, open=open_, resolution=because, release=gives_back)


def _silent(open_: OpenRecommendation, now_ns: int) -> Step:
    since_ns = open_.silent_since_ns or now_ns
    held = replace(open_, silent_since_ns=since_ns, clear_since_ns=None, milder_since_ns=None)
    return Step(says="hold", why="abstained", action=open_.action, open=held)


def _clocks(open_: OpenRecommendation, wanted: Wanted, settings: LifecycleSettings, now_ns: int) -> OpenRecommendation:
    is_clear = wanted.is_clear and wanted.action.severity < settings.opens_from.severity
    milder = wanted.action.severity < open_.action.severity and wanted.action.severity > Action.WATCH.severity
    return replace(
        open_,
        silent_since_ns=None,
        clear_since_ns=(open_.clear_since_ns or now_ns) if is_clear else None,
        milder_since_ns=(open_.milder_since_ns or now_ns) if milder else None,
    )


def _held(since_ns: int | None, settings: LifecycleSettings, now_ns: int) -> bool:
    return since_ns is not None and now_ns - since_ns >= settings.hold_h * HOUR_NS


def _more_urgent(open_: OpenRecommendation, wanted: Wanted, now_ns: int) -> str | None:
    if wanted.action.severity > open_.action.severity:
        return "severer"
    if wanted.action is Action.DRAIN_BY and open_.action is Action.DRAIN_BY and open_.act_by_ns:
        margin_ns = max(600_000_000_000, (open_.act_by_ns - now_ns) // 4)
        if now_ns + int(wanted.deadline_h * HOUR_NS) < open_.act_by_ns - margin_ns:
            return "earlier"
    return None


def _lesser_change(open_: OpenRecommendation, wanted: Wanted, settings: LifecycleSettings, now_ns: int) -> Step:
    hold = Step(says="hold", action=open_.action, open=open_)
    if _too_soon(open_, settings, now_ns):
        return hold
    if _held(open_.milder_since_ns, settings, now_ns):
        return Step(says="updated", why="milder", action=wanted.action, open=replace(open_, milder_since_ns=None))
    if abs(wanted.p_fail - open_.p_fail) > settings.p_change * open_.p_fail:
        return replace(hold, says="updated", why="probability")
    if open_.expires_at_ns - now_ns < settings.lives_h * HOUR_NS / 3 and open_.clear_since_ns is None:
        return replace(hold, says="updated", why="renewed")
    return hold


def _too_soon(open_: OpenRecommendation, settings: LifecycleSettings, now_ns: int) -> bool:
    return now_ns - open_.updated_at_ns < settings.update_gap_s * 1e9
