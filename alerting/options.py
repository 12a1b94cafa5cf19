"""Weigh every action on a node against waiting: expected node-hours over the decision horizon, given the job that runs there.

One model for all drains: the node is drained at the first of a free boundary (Poisson arrivals) and a deadline. Deadline 0 is
`drain_now`, no deadline is `drain_after_job`, between them is `drain_by`. Work that leaves the node goes on where the base rate holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from alerting.costs import CostModel, drain_now_cost, failure_loss
from alerting.hazard import Hazard
from alerting.schema import Action


@dataclass(frozen=True, kw_only=True)
class RunningJob:
    """A job on a node as far as it matters for costs; None means that nobody declared it."""

    job_id: str
    nodes: int
    gpus: int | None = None
    checkpoint_interval_h: float | None = None
    checkpoint_age_h: float | None = None
    checkpoint_mode: str | None = None
    is_elastic: bool = False
    tolerates_failures: int = 0


@dataclass(frozen=True)
class Option:
    """One action with its expected cost in node-hours."""

    action: Action
    cost: float


@dataclass(frozen=True, kw_only=True)
class Stakes:
    """What is at stake on a node, in node-hours."""

    job_loss: float  # L of the running job; 0 without one
    next_loss: float  # L of the gang that would be placed next
    small_loss: float  # L when only single-node jobs are placed
    drain_now: float
    drain_free: float
    boundary_rate_per_h: float  # inf: nothing runs, so every moment is a free boundary
    lost_h: float = 0.0  # work since the last checkpoint
    to_checkpoint_h: float = 0.0  # until the next scheduled one


def stakes(job: RunningJob | None, model: CostModel) -> Stakes:
    """Say what a failure and a drain of the node would cost, with the model's assumptions where the job is silent."""

    def loss(nodes: int, lost_h: float) -> float:
        return failure_loss(nodes, lost_h, model.recovery_h, model.failed_node_h)

    typical_lost_h = model.checkpoint_interval_h / 2
    common = {
        "next_loss": loss(model.gang_nodes, typical_lost_h),
        "small_loss": loss(1, typical_lost_h),
        "drain_free": model.drained_node_h,
    }
    if job is None:
        return Stakes(job_loss=0.0, drain_now=model.drained_node_h, boundary_rate_per_h=math.inf, **common)
    interval_h, lost_h = _checkpoints(job, model)
    absorbed = job.tolerates_failures >= 1
    hot_swap = absorbed or job.is_elastic
    return Stakes(
        job_loss=model.failed_node_h + model.swap_node_h if absorbed else loss(job.nodes, lost_h),
        drain_now=model.swap_node_h + model.drained_node_h
        if hot_swap
        else drain_now_cost(job.nodes, model.checkpoint_write_h, model.planned_restart_h, model.drained_node_h),
        boundary_rate_per_h=model.boundary_rate_per_h,
        lost_h=lost_h,
        to_checkpoint_h=max(0.0, interval_h - lost_h),
        **common,
    )


def _checkpoints(job: RunningJob, model: CostModel) -> tuple[float, float]:
    """Give the checkpoint interval and the work at risk: the known age within the interval, else half of it."""
    if job.checkpoint_mode in ("per_iter", "jit"):
        return 0.0, 0.0
    interval_h = job.checkpoint_interval_h or model.checkpoint_interval_h
    return interval_h, interval_h / 2 if job.checkpoint_age_h is None else job.checkpoint_age_h


def weigh(
    hazard: Hazard, base: Hazard, job: RunningJob | None, model: CostModel, *, horizon_h: float, deadline_h: float
) -> tuple[Option, ...]:
    """Give the expected cost of every feasible action, mildest first; `deadline_h` is the one of `drain_by`."""
    at_stake = stakes(job, model)
    staying = _loss_of_staying(hazard, at_stake, horizon_h)
    options = [
        Option(Action.NONE, staying),
        Option(Action.AVOID_NEW_GANGS, _cost_of_avoiding(hazard, base, at_stake, model, horizon_h)),
    ]
    if job and at_stake.lost_h > 0:
        saved = hazard.p_fail(at_stake.to_checkpoint_h) * job.nodes * at_stake.lost_h
        options.append(Option(Action.CHECKPOINT_NOW, staying + job.nodes * model.checkpoint_write_h - saved))
    if job:
        options.append(Option(Action.DRAIN_AFTER_JOB, _cost_of_draining(hazard, base, at_stake, horizon_h, horizon_h)))
        if 0.0 < deadline_h < horizon_h:
            options.append(Option(Action.DRAIN_BY, _cost_of_draining(hazard, base, at_stake, horizon_h, deadline_h)))
    options.append(Option(Action.DRAIN_NOW, _cost_of_draining(hazard, base, at_stake, horizon_h, 0.0)))
    return tuple(options)


def cheapest(options: Sequence[Option]) -> Option:
    """Pick the option of least expected cost; of equals the mildest."""
    return min(options, key=lambda option: (option.cost, option.action.severity))


def _loss_of_staying(hazard: Hazard, at: Stakes, horizon_h: float) -> float:
    on_this_job = _p_on_job(hazard, at, horizon_h)
    return on_this_job * at.job_loss + (hazard.p_fail(horizon_h) - on_this_job) * at.next_loss


def _cost_of_avoiding(hazard: Hazard, base: Hazard, at: Stakes, model: CostModel, horizon_h: float) -> float:
    on_this_job = _p_on_job(hazard, at, horizon_h)
    later = hazard.p_fail(horizon_h) - on_this_job
    later_elsewhere = base.p_fail(horizon_h) - _p_on_job(base, at, horizon_h)
    gang_part = at.next_loss - at.small_loss  # what the gang adds to the loss follows it to another node
    return model.avoid_node_h + on_this_job * at.job_loss + later * at.small_loss + later_elsewhere * gang_part


def _cost_of_draining(hazard: Hazard, base: Hazard, at: Stakes, horizon_h: float, deadline_h: float) -> float:
    elsewhere = (base.p_fail(horizon_h) - _p_on_job(base, at, horizon_h)) * at.next_loss
    elsewhere += (_p_on_job(base, at, horizon_h) - _p_on_job(base, at, deadline_h)) * at.job_loss
    too_late = _p_on_job(hazard, at, deadline_h)
    forced = 0.0
    if deadline_h < horizon_h:
        forced = 1.0 if deadline_h == 0.0 else math.exp(-hazard.cumulative(deadline_h) - at.boundary_rate_per_h * deadline_h)
    return too_late * at.job_loss + forced * at.drain_now + (1.0 - too_late - forced) * at.drain_free + elsewhere


def _p_on_job(hazard: Hazard, at: Stakes, until_h: float) -> float:
    if math.isinf(at.boundary_rate_per_h):
        return 0.0
    return hazard.p_before_boundary(at.boundary_rate_per_h, until_h)
