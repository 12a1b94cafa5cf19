"""The decision loop: one pass reads what is new, decides for every node, and writes everything that it says as one transaction.

    picture (scores, events, flags, jobs, places) + acks and outcomes -> causes -> want -> step -> allocate -> say -> ledger, outbox

Nothing here touches a node: what is said waits in the outbox for `delivery`, and what consumers answer comes back through `api`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import structlog

from alerting.answers import FAILED_KINDS, REPAIRED_KINDS, ToldOutcome, dismissed_since, flush_outcomes, outcomes_after, standings
from alerting.budget import Allocation, Demand, allocate
from alerting.causes import Cause, CauseKey, is_active, remember, repair
from alerting.compose import Scene
from alerting.ledger import Ledger, PassRecord, Said
from alerting.lifecycle import HOUR_NS, NOTHING, News, OpenRecommendation, Step, step, with_budget
from alerting.metrics import BUDGET_TRIPPED, OPEN, PASS_SECONDS, PASSES, SAID, SCORE_AGE, SILENT_NODES
from alerting.picture import Fresh, Picture
from alerting.policy import NodeView, Origin, Wanted, want
from alerting.risk import Risk, abstained
from alerting.rules import OTHER_FAILURE, Finding, findings
from alerting.say import say, say_resolved
from alerting.schema import Action, Mode
from alerting.settings import AlertSettings
from ingest.clock import Clock, SystemClock
from ingest.lake import Lake

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One node with everything that its step rests on."""

    node: str
    before: OpenRecommendation | None
    step: Step
    wanted: Wanted | None
    risk: Risk | None
    news: News
    was_granted: bool = False  # its drain is approved already


class AlertLoop:
    """Decides for the whole fleet; the ledger is its only memory over restarts."""

    def __init__(
        self,
        lake: Lake,
        ledger: Ledger,
        *,
        cluster: str,
        clock: Clock,
        mode: Mode = "shadow",
        settings: AlertSettings | None = None,
        wall: Clock | None = None,
    ) -> None:
        self.settings = settings or AlertSettings()
        self.picture = Picture(lake, self.settings.policy.horizon_h)
        self._lake = lake
        self._ledger = ledger
        self._cluster = cluster
        self._mode: Mode = mode
        self._clock = clock
        self._wall = wall or SystemClock()

    def run(self, stop: threading.Event, every_s: float = 1.0) -> None:
        """Pass until told to stop, every `every_s` wall seconds; a pass that fails is counted, logged and tried again."""
        while not stop.is_set():
            try:
                self.run_pass()
            except Exception:
                PASSES.labels("failed").inc()
                log.exception("alert_pass_failed")
            stop.wait(every_s)

    def run_pass(self, now_ns: int | None = None) -> list[Said]:
        """Decide once, as of `now_ns` or of the clock, and give what was said."""
        now_ns = self._clock.now_ns() if now_ns is None else now_ns
        with PASS_SECONDS.time():
            fresh = self.picture.update(now_ns)
            record = self._decide(fresh, now_ns)
            self._ledger.write(record, self._wall.now_ns())
            flush_outcomes(self._ledger.database, self._lake)
        self._measure(record, now_ns)
        return list(record.said)

    def _decide(self, fresh: Fresh, now_ns: int) -> PassRecord:
        marks = self._ledger.marks()
        outcomes = outcomes_after(self._ledger.database, marks.get("outcomes_seen", 0))
        known = self._ledger.causes()
        changed = self._changed_causes(known, fresh, outcomes, now_ns)
        judged = self._judge_all({**known, **changed}, outcomes, now_ns)
        allocation = self._allocate(judged, marks, now_ns)
        moved: dict[str, int] = {}
        if allocation.trips:
            moved["budget_tripped_ns"] = now_ns
            log.error("budget_tripped", wanted=len(allocation.verdicts))
        if outcomes:
            moved["outcomes_seen"] = outcomes[-1].seq
        said, held = self._say_all(judged, allocation, now_ns)
        return PassRecord(at_ns=now_ns, said=said, held=held, causes=list(changed.values()), marks=moved)

    def _changed_causes(
        self, known: Mapping[CauseKey, Cause], fresh: Fresh, outcomes: Iterable[ToldOutcome], now_ns: int
    ) -> dict[CauseKey, Cause]:
        rules = self.settings.rules
        found = [*findings(fresh.events, fresh.flags, rules, now_ns), *_told_failures(outcomes)]
        changed = remember(known, found, rules, now_ns)
        repairs = [(outcome.node, outcome.at_ns) for outcome in outcomes if outcome.kind in REPAIRED_KINDS]
        for node, at_ns in [*fresh.rebooted.items(), *repairs]:
            changed |= repair({**known, **changed}.values(), node, at_ns)
        return changed

    def _judge_all(self, causes: Mapping[CauseKey, Cause], outcomes: Iterable[ToldOutcome], now_ns: int) -> list[Judged]:
        open_ = self._ledger.open_recommendations()
        news = self._news(open_, causes.values(), outcomes, now_ns)
        active: dict[str, list[Cause]] = {}
        for cause in causes.values():
            if is_active(cause, self.settings.rules, now_ns):
                active.setdefault(cause.node, []).append(cause)
        jobs = self.picture.jobs_by_node(now_ns)
        judged: list[Judged] = []
        for node in sorted(self.picture.risks.keys() | active.keys() | open_.keys()):
            view = NodeView(node=node, risk=self._risk(node, now_ns), causes=tuple(active.get(node, ())), jobs=jobs.get(node, ()))
            judged += self._judge(view, open_.get(node), news.get(node, News()), now_ns)
        return judged

    def _judge(self, view: NodeView, open_: OpenRecommendation | None, news: News, now_ns: int) -> list[Judged]:
        lifecycle = self.settings.lifecycle
        wanted = want(view, self.settings.costs, self.settings.policy)
        first = step(open_, wanted, news, lifecycle, now_ns)
        steps = [(open_, first)]
        if first.resolution == "failed":  # the prediction is over, the node is down: that is a recommendation of its own
            steps.append((None, step(None, wanted, News(), lifecycle, now_ns)))
        was_granted = open_ is not None and open_.action.is_drain and open_.budget == "approved"
        return [
            Judged(node=view.node, before=before, step=taken, wanted=wanted, risk=view.risk, news=news, was_granted=was_granted)
            for before, taken in steps
            if taken is not NOTHING
        ]

    def _risk(self, node: str, now_ns: int) -> Risk | None:
        risk = self.picture.risks.get(node)
        if risk and now_ns - risk.as_of_ns > self.settings.max_score_age_h * HOUR_NS:
            return abstained(risk, "stale_score")
        return risk

    def _news(
        self, open_: Mapping[str, OpenRecommendation], causes: Iterable[Cause], outcomes: Iterable[ToldOutcome], now_ns: int
    ) -> dict[str, News]:
        database = self._ledger.database
        standing = standings(database)
        dismissed = dismissed_since(database, now_ns - int(self.settings.lifecycle.dismissed_h * HOUR_NS))
        failed: dict[str, int] = {}
        for cause in causes:
            if cause.kind == "failure":
                failed[cause.node] = max(cause.first_seen_ns, failed.get(cause.node, 0))
        repaired = {outcome.node: outcome for outcome in outcomes if outcome.kind in REPAIRED_KINDS}
        news: dict[str, News] = {}
        for node in open_.keys() | dismissed.keys():
            answer = standing.get(open_[node].recommendation_id) if node in open_ else None
            told = repaired.get(node)
            news[node] = News(
                failed_at_ns=failed.get(node),
                repaired_at_ns=told.at_ns if told else None,
                outcome_id=told.outcome_id if told else None,
                is_dismissed=bool(answer and answer.is_dismissed),
                is_foreign_drain=bool(answer and answer.is_foreign_drain),
                dismissed_action=dismissed.get(node),
            )
        return news

    def _allocate(self, judged: Iterable[Judged], marks: Mapping[str, int], now_ns: int) -> Allocation:
        window_ns = int(self.settings.limits.window_h * HOUR_NS)
        return allocate(
            [_demand(one, now_ns) for one in judged if _asks_for_drain(one)],
            self._ledger.grants(now_ns - window_ns),
            self.picture.topology,
            self.settings.limits,
            fleet=self.picture.fleet(),
            now_ns=now_ns,
            is_tripped="budget_tripped_ns" in marks,
        )

    def _say_all(self, judged: Iterable[Judged], allocation: Allocation, now_ns: int) -> tuple[list[Said], list[OpenRecommendation]]:
        approved = {node for node, verdict in allocation.verdicts.items() if verdict.decision == "approved"}
        scene = Scene(
            cluster=self._cluster,
            mode=self._mode,
            now_ns=now_ns,
            costs=self.settings.costs,
            limits=self.settings.limits,
            lifecycle=self.settings.lifecycle,
            topology=self.picture.topology,
            drained=frozenset(approved),
        )
        said: list[Said] = []
        held: list[OpenRecommendation] = []
        for one in judged:
            verdict = allocation.verdicts.get(one.node) if _asks_for_drain(one) else None
            taken = with_budget(one.step, verdict.decision if verdict else "not_applicable", self.settings.lifecycle, now_ns)
            if taken.says == "hold":
                held += [taken.open] if taken.open and taken.open != one.before else []
            elif taken.says == "resolved":
                assert one.before, "BUG: resolved what is not open"
                last_body = self._ledger.bodies(one.before.recommendation_id)[0]
                said.append(say_resolved(taken, last_body, scene, one.news.outcome_id))
            else:
                assert one.wanted, "BUG: said without knowing what is wanted"
                said.append(say(taken, one.wanted, one.risk, verdict, scene))
        return said, held

    def _measure(self, record: PassRecord, now_ns: int) -> None:
        PASSES.labels("ok").inc()
        for said in record.said:
            SAID.labels(said.change, said.why).inc()
            log.info("recommendation_said", change=said.change, why=said.why, node=said.memory.node, action=said.memory.action)
        by_action = dict.fromkeys(Action, 0)
        for memory in self._ledger.open_recommendations().values():
            by_action[memory.action] += 1
        for action, count in by_action.items():
            OPEN.labels(action.value).set(count)
        for source, nodes in self.picture.silent.items():
            SILENT_NODES.labels(source).set(len(nodes))
        if self.picture.risks:
            SCORE_AGE.set((now_ns - max(risk.as_of_ns for risk in self.picture.risks.values())) / 1e9)
        BUDGET_TRIPPED.set("budget_tripped_ns" in self._ledger.marks())


_RANKS: Mapping[Origin, int] = {"score": 0, "criterion": 1, "failure": 2}


def _told_failures(outcomes: Iterable[ToldOutcome]) -> list[Finding]:
    return [
        Finding(node=told.node, code=f"outcome.{told.kind}", kind="failure", component=None, at_ns=told.at_ns, response=OTHER_FAILURE)
        for told in outcomes
        if told.kind in FAILED_KINDS
    ]


def _asks_for_drain(one: Judged) -> bool:
    return one.step.says in ("opened", "updated", "hold") and one.step.action.is_drain


def _demand(one: Judged, now_ns: int) -> Demand:
    memory = one.step.open
    was_wanted = memory is not None and memory.action.is_drain
    return Demand(
        node=one.node,
        saves=one.wanted.not_act_cost - one.wanted.cost_of(one.step.action) if one.wanted else 0.0,
        since_ns=memory.opened_at_ns if memory and was_wanted else now_ns,
        rank=_RANKS[one.wanted.origin] if one.wanted else 0,
        is_held=one.was_granted,
    )
