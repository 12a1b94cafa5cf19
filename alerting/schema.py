"""The webhook in types: recommendation (out), acknowledgement and outcome (in); the JSON Schemas stand in `contracts/`.

Every event carries the full state, so a consumer that saw only the newest revision can act. `contract` holds what the types cannot
say. Times are aware datetimes here and RFC 3339 on the wire; costs on the wire are GPU-hours, node-hours everywhere inside.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

import msgspec

EVENT_TYPE = "io.forewarn.recommendation.{change}.v1"
DATA_SCHEMA = "urn:forewarn:schema:recommendation:v1"

Mode = Literal["shadow", "advise", "enforce"]
Urgency = Literal["info", "low", "medium", "high", "critical"]
Followup = Literal["none", "diagnose", "reset_component", "reboot", "replace", "contact_vendor"]
ResolvedBecause = Literal["risk_cleared", "failed", "completed", "expired", "superseded", "dismissed", "telemetry_lost"]
BudgetVerdict = Literal["approved", "deferred", "denied", "not_applicable"]
AckState = Literal["accepted", "rejected", "deferred", "in_progress", "completed", "failed", "released"]
JobResponse = Literal["continue", "checkpoint_now", "restart_in_place", "migrate", "shrink", "reconfigure", "requeue"]


class Action(StrEnum):
    """What to do with a node, mildest first."""

    NONE = "none"
    WATCH = "watch"
    AVOID_NEW_GANGS = "avoid_new_gangs"
    CHECKPOINT_NOW = "checkpoint_now"
    DRAIN_AFTER_JOB = "drain_after_job"
    DRAIN_BY = "drain_by"
    DRAIN_NOW = "drain_now"
    REMOVE = "remove"

    @property
    def severity(self) -> int:
        """Rank on the ladder; higher takes more away."""
        return _LADDER[self]

    @property
    def is_drain(self) -> bool:
        """Claims that the action takes the node out of service, hence out of the budget."""
        return self.severity >= _LADDER[Action.DRAIN_AFTER_JOB]


_LADDER = {action: rank for rank, action in enumerate(Action)}


class Wire(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A block of the payload; absent fields are left out, unknown ones ignored."""


class Node(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A node with its names in other systems."""

    name: str
    ids: dict[str, str] | None = None


class Component(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The part that is suspected."""

    type: Literal["gpu", "nvlink", "nvswitch", "nic", "hbm", "psu", "fan", "cooling_loop", "host"]
    id: str
    index: int | None = None
    pci_bus_id: str | None = None
    serial: str | None = None


class Domain(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A failure domain of the target; `correlated` when the domain itself is suspected."""

    kind: str
    id: str
    nodes_total: int
    nodes_drained: int
    correlated: bool = False


class Target(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """What the recommendation is about."""

    scope: Literal["gpu", "node", "domain"]
    cluster: str
    nodes: tuple[Node, ...]
    components: tuple[Component, ...] = ()
    domains: tuple[Domain, ...] = ()


class Horizon(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Probability of failing within some hours, its 90 % interval and the fleet's base rate."""

    hours: float
    p_fail: float
    p_low: float | None = None
    p_high: float | None = None
    p_base: float | None = None


class ModeShare(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Share of one failure mode in the risk."""

    mode: str
    share: float


class LeadTime(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Quantiles of the time to failure, given that it comes within the longest horizon, in hours."""

    p10: float
    p50: float
    p90: float


class Risk(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """What the model says."""

    horizons: tuple[Horizon, ...]
    lead_time_hours: LeadTime | None = None
    failure_modes: tuple[ModeShare, ...] = ()


class Alternative(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Another action with its expected cost, so that a scheduler that knows its jobs better can re-decide."""

    kind: Action
    expected_cost: float


class ActionBlock(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The action that is advised."""

    kind: Action
    urgency: Urgency
    followup: Followup = "none"
    alternatives: tuple[Alternative, ...] = ()


class JobAdvice(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A running job on the target and what it is advised to do."""

    id: str
    nodes: int
    response: JobResponse
    gpus: int | None = None
    checkpoint_age_s: float | None = None
    checkpoint_interval_s: float | None = None
    loss_if_fails: float | None = None


class Cost(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Expected cost of acting as advised and of not acting, with the assumptions behind it."""

    unit: Literal["gpu_hours", "usd"]
    act: float
    not_act: float
    net_benefit: float
    assumptions: dict[str, Any] | None = None


class Reason(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that an operator should read."""

    code: str
    summary: str
    component: str | None = None
    feature: str | None = None
    value: float | None = None
    baseline: float | None = None
    unit: str | None = None
    window: str | None = None
    contribution: float | None = None
    first_seen_at: datetime | None = None
    evidence: tuple[str, ...] = ()


class DataQuality(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """How far the telemetry behind it can be trusted."""

    telemetry_age_s: float
    missing_sources: tuple[str, ...]
    degraded: bool = False


class Model(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Which model said so."""

    name: str
    version: str
    trained_until: datetime | None = None
    feature_set: str | None = None
    calibration_ece: float | None = None


class Budget(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """What the blast-radius budget said; a denied recommendation stays visible."""

    decision: BudgetVerdict
    policy: str | None = None
    scope: str | None = None
    used: int | None = None
    limit: int | None = None
    window: str | None = None
    reason: str | None = None


class Resolution(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Why a recommendation is over; `release_target` asks the consumer to give back what it took for it."""

    reason: ResolvedBecause
    at: datetime
    release_target: bool
    outcome_id: str | None = None


class Recommendation(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The `data` of an event."""

    schema_version: Literal["1"]
    recommendation_id: str
    revision: int
    status: Literal["open", "resolved"]
    mode: Mode
    dedup_key: str
    issued_at: datetime
    as_of: datetime
    expires_at: datetime
    target: Target
    risk: Risk
    action: ActionBlock
    cost: Cost
    reasons: tuple[Reason, ...]
    data_quality: DataQuality
    model: Model
    budget: Budget
    act_by: datetime | None = None
    resolution: Resolution | None = None
    jobs: tuple[JobAdvice, ...] = ()
    links: dict[str, str] | None = None


class Actor(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Who answers."""

    kind: Literal["scheduler", "operator", "automation"]
    name: str


class Ack(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A consumer's answer to one revision."""

    recommendation_id: str
    revision: int
    state: AckState
    at: datetime
    actor: Actor
    action_taken: str | None = None
    reason_code: str | None = None
    detail: str | None = None
    jobs_affected: tuple[dict[str, Any], ...] = ()
    retry_at: datetime | None = None


class OutcomeReport(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a node; `outcome_id` makes the call idempotent."""

    outcome_id: str
    cluster: str
    node: str
    kind: str
    at: datetime
    source: str
    recommendation_id: str | None = None
    failure_mode: str | None = None
    component: str | None = None
    confidence: str | None = None
    detail: str | None = None
