"""Turn a step into what is written: the memory after it, the payload, the audit and the event; pure but for the new ids."""

from __future__ import annotations

from dataclasses import asdict, replace

import msgspec

from alerting.budget import Verdict
from alerting.compose import Scene, assumptions, close, compose
from alerting.events import event_of, new_id, payload
from alerting.judge import Judged
from alerting.ledger import Audit, Change, Said
from alerting.lifecycle import HOUR_NS, OpenRecommendation, Step
from alerting.policy import Wanted
from alerting.schema import Action, Recommendation
from ingest.clock import datetime_of

RELEASE_LIVES_H = 168.0  # giving a node back must not be lost


def say(one: Judged, taken: Step, verdict: Verdict | None, scene: Scene) -> Said:
    """Write a revision that opens or updates; `taken` is the node's step after the budget has spoken."""
    wanted = one.wanted
    assert wanted is not None, "BUG: said without knowing what is wanted"
    change: Change = "opened" if taken.says == "opened" else "updated"
    memory = replace(_memory(taken, wanted, verdict, scene), is_held_out=one.is_held_out)
    recommendation = compose(memory, wanted, one.risk, verdict, scene)
    return Said(
        change=change,
        why=taken.why,
        memory=memory,
        body=msgspec.json.encode(payload(recommendation)),
        audit=_audit(wanted, verdict, scene, one.propensity),
        event=event_of(change, recommendation, new_id("msg_", scene.now_ns)),
    )


def say_resolved(taken: Step, last_body: bytes, scene: Scene, outcome_id: str | None) -> Said:
    """Write the last revision: the newest payload again, with the resolution."""
    assert taken.open is not None, "BUG: resolved what is not open"
    last = msgspec.json.decode(last_body, type=Recommendation)
    lives_h = RELEASE_LIVES_H if taken.release else scene.lifecycle.lives_h
    expires_ns = scene.now_ns + int(lives_h * HOUR_NS)
    recommendation = msgspec.structs.replace(last, **close(last, taken, scene, datetime_of(expires_ns), outcome_id))
    memory = replace(taken.open, revision=recommendation.revision, updated_at_ns=scene.now_ns, expires_at_ns=expires_ns)
    return Said(
        change="resolved",
        why=taken.why,
        memory=memory,
        body=msgspec.json.encode(payload(recommendation)),
        audit=Audit(options={}, budget={}, facts={"resolution": taken.resolution, "release_target": taken.release}),
        event=event_of("resolved", recommendation, new_id("msg_", scene.now_ns)),
        resolution=taken.resolution,
    )


def _memory(taken: Step, wanted: Wanted, verdict: Verdict | None, scene: Scene) -> OpenRecommendation:
    now_ns = scene.now_ns
    before = taken.open
    act_by_ns = _act_by_ns(taken, wanted, now_ns)
    is_kept = before is not None and taken.action is before.action and taken.action is not wanted.action
    budget = verdict.decision if verdict else "not_applicable"
    granted_at_ns = before.granted_at_ns if before else None
    memory = OpenRecommendation(
        recommendation_id=before.recommendation_id if before else new_id("rec_", now_ns),
        node=wanted.node,
        revision=before.revision + 1 if before else 1,
        origin="failure" if wanted.origin == "failure" else before.origin if before else wanted.origin,
        action=taken.action,
        urgency=before.urgency if before and is_kept else wanted.urgency,
        p_fail=wanted.p_fail,
        opened_at_ns=before.opened_at_ns if before else now_ns,
        updated_at_ns=now_ns,
        expires_at_ns=max(now_ns + int(scene.lifecycle.lives_h * HOUR_NS), act_by_ns or 0),
        act_by_ns=act_by_ns,
        budget=budget,
        granted_at_ns=granted_at_ns or (now_ns if budget == "approved" else None),
    )
    if before is None:
        return memory
    return replace(memory, clear_since_ns=before.clear_since_ns, milder_since_ns=before.milder_since_ns)


def _act_by_ns(taken: Step, wanted: Wanted, now_ns: int) -> int | None:
    """Keep a deadline that was said, unless an earlier one is due."""
    if taken.action is not Action.DRAIN_BY:
        return None
    due_ns = now_ns + int(wanted.deadline_h * HOUR_NS)
    said_ns = taken.open.act_by_ns if taken.open and taken.open.action is Action.DRAIN_BY else None
    return due_ns if said_ns is None else min(said_ns, due_ns)


def _audit(wanted: Wanted, verdict: Verdict | None, scene: Scene, propensity: float) -> Audit:
    return Audit(
        propensity=propensity,
        options={option.action.value: option.cost for option in wanted.options},
        budget=asdict(verdict) if verdict else {},
        facts={
            "p_fail": wanted.p_fail,
            "origin": wanted.origin,
            "wanted": wanted.action.value,
            "causes": [cause.code for cause in wanted.causes],
            "jobs": [job.job_id for job in wanted.jobs],
            "assumptions": assumptions(wanted, scene.costs),
        },
    )
