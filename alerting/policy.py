"""Decide what is wanted for one node: the action of least expected cost, or the one that a hard signal asks for; pure.

A score weighs every action against waiting. A failure or a vendor criterion needs no score. Where the model abstains and no hard
signal speaks, nothing is wanted and nothing is denied: the answer is None, and the lifecycle holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from alerting.causes import Cause
from alerting.costs import CostModel, checkpoint_threshold
from alerting.hazard import Hazard
from alerting.options import Option, RunningJob, cheapest, stakes, weigh
from alerting.risk import Risk
from alerting.schema import Action, Followup, Horizon, JobResponse, LeadTime, Urgency

Origin = Literal["score", "criterion", "failure"]

_URGENCIES: Mapping[Action, Urgency] = {
    Action.NONE: "info",
    Action.WATCH: "info",
    Action.AVOID_NEW_GANGS: "low",
    Action.CHECKPOINT_NOW: "medium",
    Action.DRAIN_AFTER_JOB: "medium",
    Action.DRAIN_BY: "high",
    Action.DRAIN_NOW: "high",
    Action.REMOVE: "critical",
}


@dataclass(frozen=True, kw_only=True)
class PolicySettings:
    """How scores become actions."""

    horizon_h: float = 24.0  # decision horizon: time until the next cheaper opportunity
    watch_lift: float = 3.0  # watch a node whose probability is so many times the base rate
    clear_ratio: float = 0.5  # a recommendation clears at this share of the excess that opens one
    criterion_p_fail: float = 0.5  # assumed where a vendor criterion holds and the model abstains
    critical_p_fail: float = 0.5  # probability within 6 h that makes an advice critical


@dataclass(frozen=True, kw_only=True)
class NodeView:
    """What is known about one node at one time."""

    node: str
    risk: Risk | None = None
    causes: tuple[Cause, ...] = ()  # active ones
    jobs: tuple[RunningJob, ...] = ()
    followup: Followup = "diagnose"  # repair to try first for the likeliest failure mode

    @property
    def main_job(self) -> RunningJob | None:
        """The job with most nodes: its loss rules."""
        return max(self.jobs, key=lambda job: job.nodes, default=None)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The action wanted for a node with what it rests on; costs in node-hours."""

    node: str
    action: Action
    urgency: Urgency
    followup: Followup
    origin: Origin
    p_fail: float  # over the decision horizon
    horizons: tuple[Horizon, ...]
    options: tuple[Option, ...]
    is_clear: bool  # nothing would be wanted even if the excess risk were 1/clear_ratio times as large
    deadline_h: float
    lead: LeadTime | None = None
    causes: tuple[Cause, ...] = ()
    is_assumed: bool = False  # the probability is an assumption, not a score
    jobs: tuple[RunningJob, ...] = ()
    responses: Mapping[str, JobResponse] = field(default_factory=dict)

    @property
    def not_act_cost(self) -> float:
        """Expected cost of doing nothing."""
        return self.options[0].cost

    def cost_of(self, action: Action) -> float:
        """Give the expected cost of an action; a drain that is not on offer now costs what the cheapest drain does."""
        exact = [option.cost for option in self.options if option.action is action]
        if exact or not action.is_drain:
            return exact[0] if exact else self.not_act_cost
        return min(option.cost for option in self.options if option.action.is_drain)


def want(view: NodeView, costs: CostModel, settings: PolicySettings) -> Wanted | None:
    """Say which action is wanted; None where the model abstains and no hard signal speaks."""
    printed = view.risk if view.risk and view.risk.horizons else None
    if printed is None and not view.causes:
        return None
    hazard, base = _hazards(printed, view.causes, settings)
    deadline_h = max(hazard.time_of(0.1), 1 / 60)
    options = weigh(hazard, base, view.main_job, costs, horizon_h=settings.horizon_h, deadline_h=deadline_h)
    scored = _scored_action(hazard, base, options, settings)
    hard = max(view.causes, key=lambda cause: cause.response.action.severity, default=None)
    is_hard = hard is not None and (hard.kind == "failure" or hard.response.action.severity >= scored.severity)
    action = hard.response.action if hard and is_hard else scored
    return Wanted(
        node=view.node,
        action=action,
        urgency=hard.response.urgency if hard and is_hard else _urgency(action, hazard, settings),
        followup=hard.response.followup if hard and is_hard else view.followup,
        origin=_origin(view.causes, is_hard),
        p_fail=hazard.p_fail(settings.horizon_h),
        horizons=printed.horizons if printed and not _has_failed(view.causes) else _points(hazard, settings),
        options=options,
        is_clear=not view.causes and _is_clear(hazard, base, view.main_job, costs, settings),
        deadline_h=deadline_h,
        lead=LeadTime(p10=hazard.time_of(0.1), p50=hazard.time_of(0.5), p90=hazard.time_of(0.9)) if printed else None,
        causes=view.causes,
        is_assumed=printed is None,
        jobs=view.jobs,
        responses={job.job_id: _response(job, action, hazard, costs) for job in view.jobs},
    )


def _hazards(printed: Risk | None, causes: tuple[Cause, ...], settings: PolicySettings) -> tuple[Hazard, Hazard]:
    if printed and not _has_failed(causes):
        return printed.hazard, printed.base
    assumed = 1.0 if _has_failed(causes) else settings.criterion_p_fail
    ends = [point.hours for point in printed.horizons] if printed else [settings.horizon_h]
    base = printed.base if printed else Hazard.constant(0.0, settings.horizon_h)
    return Hazard.from_probabilities((hours, assumed) for hours in ends), base


def _points(hazard: Hazard, settings: PolicySettings) -> tuple[Horizon, ...]:
    return (Horizon(hours=settings.horizon_h, p_fail=hazard.p_fail(settings.horizon_h)),)


def _has_failed(causes: tuple[Cause, ...]) -> bool:
    return any(cause.kind == "failure" for cause in causes)


def _origin(causes: tuple[Cause, ...], is_hard: bool) -> Origin:
    if _has_failed(causes):
        return "failure"
    return "criterion" if is_hard else "score"


def _scored_action(hazard: Hazard, base: Hazard, options: tuple[Option, ...], settings: PolicySettings) -> Action:
    best = cheapest(options).action
    p_base = base.p_fail(settings.horizon_h)
    if best is Action.NONE and p_base > 0 and hazard.p_fail(settings.horizon_h) >= settings.watch_lift * p_base:
        return Action.WATCH
    return best


def _is_clear(hazard: Hazard, base: Hazard, job: RunningJob | None, costs: CostModel, settings: PolicySettings) -> bool:
    stretched = hazard.away_from(base, 1 / settings.clear_ratio)
    deadline_h = max(stretched.time_of(0.1), 1 / 60)
    options = weigh(stretched, base, job, costs, horizon_h=settings.horizon_h, deadline_h=deadline_h)
    return cheapest(options).action is Action.NONE


def _urgency(action: Action, hazard: Hazard, settings: PolicySettings) -> Urgency:
    if action.is_drain and hazard.p_fail(6.0) >= settings.critical_p_fail:
        return "critical"
    return _URGENCIES[action]


def _response(job: RunningJob, action: Action, hazard: Hazard, costs: CostModel) -> JobResponse:
    """Advise a running job, within what it declared that it can do."""
    if job.is_elastic and action.severity >= Action.DRAIN_NOW.severity:
        return "shrink"
    at_stake = stakes(job, costs)
    if job.checkpoint_mode != "periodic" or at_stake.lost_h <= 0:
        return "continue"
    pays = hazard.p_fail(at_stake.to_checkpoint_h) > checkpoint_threshold(costs.checkpoint_write_h, at_stake.lost_h)
    return "checkpoint_now" if pays or action.severity >= Action.DRAIN_NOW.severity else "continue"
