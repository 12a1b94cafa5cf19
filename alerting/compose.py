"""Write a revision: the payload from what is wanted, what the budget says and what is known about the node; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from alerting.budget import Limits, Verdict
from alerting.costs import CostModel
from alerting.lifecycle import LifecycleSettings, OpenRecommendation, Step
from alerting.options import stakes
from alerting.policy import Wanted
from alerting.risk import Risk
from alerting.schema import (
    ActionBlock,
    Alternative,
    Budget,
    Component,
    Cost,
    DataQuality,
    Domain,
    JobAdvice,
    LeadTime,
    Mode,
    Model,
    ModeShare,
    Node,
    Reason,
    Recommendation,
    Resolution,
    Target,
)
from alerting.schema import Risk as RiskBlock
from alerting.topology import WIRE_KINDS, DomainId, Topology
from ingest.clock import datetime_of


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What every recommendation of one pass shares."""

    cluster: str
    mode: Mode
    now_ns: int
    costs: CostModel
    limits: Limits
    lifecycle: LifecycleSettings
    topology: Topology = field(default_factory=Topology)
    drained: frozenset[str] = frozenset()  # nodes whose drain is approved
    incidents: frozenset[DomainId] = frozenset()


def dedup_key(cluster: str, node: str) -> str:
    """Give the key of a node's recommendations, stable over restarts and re-scoring."""
    return f"{cluster}/node/{node}"[:200]


def compose(memory: OpenRecommendation, wanted: Wanted, risk: Risk | None, verdict: Verdict | None, scene: Scene) -> Recommendation:
    """Write the full state of an open recommendation; `memory` is as it stands after this revision."""
    as_of_ns = _as_of_ns(wanted, risk, scene)
    return Recommendation(
        schema_version="1",
        recommendation_id=memory.recommendation_id,
        revision=memory.revision,
        status="open",
        mode=scene.mode,
        dedup_key=dedup_key(scene.cluster, memory.node),
        issued_at=datetime_of(scene.now_ns),
        as_of=datetime_of(as_of_ns),
        act_by=datetime_of(memory.act_by_ns) if memory.act_by_ns else None,
        expires_at=datetime_of(memory.expires_at_ns),
        target=_target(memory.node, wanted, risk, scene),
        risk=_risk(wanted, risk),
        action=_action(memory, wanted, scene.costs),
        jobs=_jobs(wanted, scene.costs),
        cost=_cost(memory, wanted, scene.costs),
        reasons=_reasons(wanted, risk),
        data_quality=_quality(as_of_ns, risk, scene),
        model=Model(name=risk.model, version=risk.model_version) if risk and risk.model else Model(name="rules", version="1"),
        budget=_budget(verdict, scene.limits),
        links=_links(memory.recommendation_id),
    )


def close(last: Recommendation, said: Step, scene: Scene, expires_at: datetime, outcome_id: str | None) -> Mapping[str, Any]:
    """Give the fields in which the last revision of a recommendation differs from the one before."""
    assert said.resolution, "BUG: closed without a reason"
    at = datetime_of(scene.now_ns)
    return {
        "revision": last.revision + 1,
        "status": "resolved",
        "mode": scene.mode,
        "issued_at": at,
        "expires_at": expires_at,
        "act_by": min(last.act_by, expires_at) if last.act_by else None,
        "resolution": Resolution(reason=said.resolution, at=at, release_target=said.release, outcome_id=outcome_id),
    }


def _as_of_ns(wanted: Wanted, risk: Risk | None, scene: Scene) -> int:
    seen = [cause.last_seen_ns for cause in wanted.causes] + ([risk.as_of_ns] if risk else [])
    return min(scene.now_ns, max(seen, default=scene.now_ns))


def _target(node: str, wanted: Wanted, risk: Risk | None, scene: Scene) -> Target:
    parts = {cause.component for cause in wanted.causes if cause.component}
    if risk and risk.worst_unit and not parts:
        parts = {risk.worst_unit}
    domains = [
        Domain(
            kind=WIRE_KINDS[domain.kind],
            id=domain.domain,
            nodes_total=scene.topology.size(domain),
            nodes_drained=len(scene.topology.members[domain] & scene.drained),
            correlated=domain in scene.incidents,
        )
        for domain in scene.topology.domains(node)
        if domain.kind in WIRE_KINDS
    ]
    components = tuple(Component(type="gpu", id=part) for part in sorted(parts) if part != node)
    return Target(scope="node", cluster=scene.cluster, nodes=(Node(name=node),), components=components, domains=tuple(domains))


def _risk(wanted: Wanted, risk: Risk | None) -> RiskBlock:
    incidence = risk.incidence if risk else {}
    total = sum(incidence.values())
    ranked = sorted(incidence.items(), key=lambda pair: -pair[1])
    shares = tuple(ModeShare(mode=mode, share=round(part / total, 4)) for mode, part in ranked if part > 0.01 * total)
    lead = wanted.lead
    rounded = LeadTime(p10=round(lead.p10, 3), p50=round(lead.p50, 3), p90=round(lead.p90, 3)) if lead else None
    return RiskBlock(horizons=wanted.horizons, lead_time_hours=rounded, failure_modes=shares)


def _action(memory: OpenRecommendation, wanted: Wanted, costs: CostModel) -> ActionBlock:
    offered = tuple(Alternative(kind=option.action, expected_cost=round(option.cost * costs.gpus_per_node, 3)) for option in wanted.options)
    return ActionBlock(kind=memory.action, urgency=memory.urgency, followup=wanted.followup, alternatives=offered)


def _cost(memory: OpenRecommendation, wanted: Wanted, costs: CostModel) -> Cost:
    act = max(0.0, round(wanted.cost_of(memory.action) * costs.gpus_per_node, 3))
    not_act = max(0.0, round(wanted.not_act_cost * costs.gpus_per_node, 3))
    return Cost(unit="gpu_hours", act=act, not_act=not_act, net_benefit=round(not_act - act, 3), assumptions=assumptions(wanted, costs))


def assumptions(wanted: Wanted, costs: CostModel) -> dict[str, Any]:
    """List what was assumed where the job or the model did not say."""
    job = max(wanted.jobs, key=lambda job: job.nodes, default=None)
    interval_h = job.checkpoint_interval_h if job and job.checkpoint_interval_h is not None else costs.checkpoint_interval_h
    return {
        "gang_gpus": (job.nodes if job else costs.gang_nodes) * costs.gpus_per_node,
        "checkpoint_interval_s": round(interval_h * 3600),
        "restart_s": round(costs.recovery_h * 3600),
        "failed_node_hours": costs.failed_node_h,
        "drained_node_hours": costs.drained_node_h,
        "is_idle": job is None,
        "is_probability_assumed": wanted.is_assumed,
        "cost_model": costs.version,
    }


def _jobs(wanted: Wanted, costs: CostModel) -> tuple[JobAdvice, ...]:
    def seconds(hours: float | None) -> float | None:
        return None if hours is None else round(hours * 3600, 1)

    return tuple(
        JobAdvice(
            id=job.job_id,
            nodes=job.nodes,
            gpus=job.gpus,
            checkpoint_age_s=seconds(job.checkpoint_age_h),
            checkpoint_interval_s=seconds(job.checkpoint_interval_h),
            loss_if_fails=round(stakes(job, costs).job_loss * costs.gpus_per_node, 3),
            response=wanted.responses[job.job_id],
        )
        for job in wanted.jobs[:512]
    )


def _reasons(wanted: Wanted, risk: Risk | None) -> tuple[Reason, ...]:
    severest_first = sorted(wanted.causes, key=lambda cause: -cause.response.action.severity)
    hard = [
        Reason(
            code=cause.code,
            summary=cause.response.text[:300],
            component=cause.component,
            first_seen_at=datetime_of(cause.first_seen_ns),
        )
        for cause in severest_first
    ]
    scored = list(risk.reasons) if risk else []
    if not hard and not scored:
        scored = [Reason(code="risk.excess", summary=f"failure probability {wanted.p_fail:.3f} over the decision horizon")]
    return tuple([*hard, *scored][:10])


def _quality(as_of_ns: int, risk: Risk | None, scene: Scene) -> DataQuality:
    age_s = max(0.0, (scene.now_ns - as_of_ns) / 1e9) + (risk.telemetry_age_s or 0.0 if risk else 0.0)
    missing = risk.missing_sources if risk else ("scores",)
    return DataQuality(
        telemetry_age_s=round(age_s, 1), missing_sources=missing, degraded=bool(missing or (risk and risk.abstained_because))
    )


def _budget(verdict: Verdict | None, limits: Limits) -> Budget:
    if verdict is None:
        return Budget(decision="not_applicable")
    return Budget(
        decision=verdict.decision,
        policy=verdict.policy,
        scope=verdict.scope,
        used=verdict.used,
        limit=verdict.limit,
        window=f"PT{limits.window_h * 3600:.0f}S" if verdict.policy == "max-drains-per-window" else None,
        reason=verdict.reason,
    )


def _links(recommendation_id: str) -> dict[str, str]:
    path = f"/v1/recommendations/{recommendation_id}"
    return {"self": path, "ack": f"{path}/acks"}
