"""The decision loop: one pass reads what is new, decides for every node, and writes everything that it says as one transaction.

    picture (scores, events, flags, jobs, places) + acks and outcomes -> causes -> judge -> correlate, allocate -> say -> ledger, outbox

Nothing here touches a node: what is said waits in the outbox for `delivery`, and what consumers answer comes back through `api`.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence

import structlog

from alerting.answers import (
    FAILED_KINDS,
    REPAIRED_KINDS,
    ToldOutcome,
    dismissed_since,
    flush_outcomes,
    outcomes_after,
    repaired_at,
    repairs_told,
    standings,
)
from alerting.budget import Verdict, allocate
from alerting.causes import Cause, CauseKey, remember, repair
from alerting.compose import Scene
from alerting.correlate import Suspect, failed_nodes, suspects
from alerting.judge import HELD_OUT, Judged, Known, demands, is_news, judge_all, told_failure
from alerting.learn import Repair, repairs_of
from alerting.ledger import Ledger, PassRecord, Said
from alerting.lifecycle import HOUR_NS, OpenRecommendation, with_budget
from alerting.metrics import (
    BUDGET_REFUSED,
    BUDGET_TRIPPED,
    DAMAGED,
    INCIDENTS,
    OPEN,
    PASS_SECONDS,
    PASSES,
    SAID,
    SCORE_AGE,
    SILENT_NODES,
    UNSAYABLE,
)
from alerting.picture import Picture
from alerting.rules import findings
from alerting.say import say, say_resolved
from alerting.schema import Action, Mode
from alerting.settings import AlertSettings
from alerting.topology import DomainId
from ingest.clock import Clock, SystemClock
from ingest.errors import ForewarnError, LakeError, RecordRejected
from ingest.lake import Lake
from ingest.schema import OUTCOMES

_LEARNS_FROM_H = 180 * 24
log = structlog.get_logger()


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
        self.incidents: frozenset[DomainId] = frozenset()
        self._silent: frozenset[str] = frozenset()
        self._damaged: dict[str, str] = {}
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
            except Exception as error:  # one pass that fails must not end the loop
                PASSES.labels("failed").inc()
                is_told = isinstance(error, ForewarnError | sqlite3.Error)  # a full disk, a locked ledger: its text says it all
                log.exception("alert_pass_failed", error=type(error).__name__, reason=str(error), exc_info=not is_told)
            stop.wait(every_s)

    def run_pass(self, now_ns: int | None = None) -> list[Said]:
        """Decide once, as of `now_ns` or of the clock, and give what was said."""
        now_ns = self._clock.now_ns() if now_ns is None else now_ns
        with PASS_SECONDS.time():
            self.picture.update(now_ns)
            record = self._decide(now_ns)
            self._ledger.write(record, self._wall.now_ns())
            self.picture.settle()
            self._tell_damage(self.picture.damaged | self._keep_outcomes())
        self._measure(record, now_ns)
        return list(record.said)

    def _keep_outcomes(self) -> dict[str, str]:
        """Bring outcomes into the lake; where it does not take them, they stay in the ledger for the next pass: give the table and why."""
        try:
            flush_outcomes(self._ledger.database, self._lake)
        except LakeError as error:
            return {OUTCOMES.name: str(error)}
        return {}

    def _tell_damage(self, damaged: Mapping[str, str]) -> None:
        """One line per table of the lake that cannot be read or written, when that begins and when it ends."""
        for table in damaged.keys() - self._damaged.keys():
            log.error("lake_table_damaged", table=table, reason=damaged[table])
        for table in self._damaged.keys() - damaged.keys():
            log.info("lake_table_mended", table=table)
        for table in damaged.keys() | self._damaged.keys():
            DAMAGED.labels(table).set(table in damaged)
        self._damaged = dict(damaged)

    def _decide(self, now_ns: int) -> PassRecord:
        marks = self._ledger.marks()
        moved = {} if "watching_since_ns" in marks else {"watching_since_ns": now_ns}
        outcomes = outcomes_after(self._ledger.database, marks.get("outcomes_seen", 0))
        if outcomes:
            moved["outcomes_seen"] = outcomes[-1].seq
        known = self._ledger.causes()
        changed = self._changed_causes(known, outcomes, now_ns)
        causes = [*{**known, **changed}.values()]
        judged = judge_all(self._known(causes, outcomes, now_ns), self.settings, now_ns)
        self._suspect(causes, marks.get("watching_since_ns", now_ns), now_ns)
        verdicts = self._verdicts(judged, marks, moved, now_ns)
        said, held = self._say_all(judged, verdicts, now_ns)
        return PassRecord(at_ns=now_ns, said=said, held=held, causes=list(changed.values()), marks=moved)

    def _changed_causes(self, known: Mapping[CauseKey, Cause], outcomes: Iterable[ToldOutcome], now_ns: int) -> dict[CauseKey, Cause]:
        rules, fresh = self.settings.rules, self.picture.fresh
        changed = remember(known, findings(fresh.events, fresh.flags, rules, now_ns), rules, now_ns)
        told = [outcome for outcome in outcomes if outcome.kind in FAILED_KINDS]
        if told:
            causes, repaired = {**known, **changed}.values(), repaired_at(self._ledger.database)
            news = [told_failure(outcome) for outcome in told if is_news(outcome, causes, repaired.get(outcome.node, 0), rules, now_ns)]
            changed |= remember({**known, **changed}, news, rules, now_ns)
        repairs = [(outcome.node, outcome.at_ns) for outcome in outcomes if outcome.kind in REPAIRED_KINDS]
        for node, at_ns in [*fresh.rebooted.items(), *repairs]:
            changed |= repair({**known, **changed}.values(), node, at_ns)
        return changed

    def _known(self, causes: Sequence[Cause], outcomes: Sequence[ToldOutcome], now_ns: int) -> Known:
        database = self._ledger.database
        return Known(
            risks=self.picture.risks,
            causes=causes,
            jobs=self.picture.jobs_by_node(now_ns),
            open=self._ledger.open_recommendations(),
            standings=standings(database),
            dismissed=dismissed_since(database, now_ns - int(self.settings.lifecycle.dismissed_h * HOUR_NS)),
            outcomes=outcomes,
            repairs=self._repairs(causes, now_ns),
        )

    def _repairs(self, causes: Iterable[Cause], now_ns: int) -> list[Repair]:
        told = repairs_told(self._ledger.database, now_ns - _LEARNS_FROM_H * HOUR_NS)
        failures: dict[str, list[int]] = {}
        for cause in causes if told else ():
            if cause.kind == "failure":
                failures.setdefault(cause.node, []).append(cause.first_seen_ns)
        return repairs_of(told, failures)

    def _suspect(self, causes: Iterable[Cause], watching_since_ns: int, now_ns: int) -> None:
        """Find suspected domains; expected is the base rate, since a sick domain's own risks would excuse it."""
        settings = self.settings.correlation
        since_ns = max(watching_since_ns, now_ns - int(settings.window_h * HOUR_NS))
        failed = failed_nodes(causes, since_ns)
        base = next((risk.base for risk in self.picture.risks.values() if risk.horizons), None)
        found: list[Suspect] = []
        if base and len(failed) >= settings.min_failed:
            expected = base.cumulative((now_ns - since_ns) / HOUR_NS)
            found = suspects(failed, dict.fromkeys(self.picture.topology.nodes, expected), self.picture.topology, settings)
        for suspect in found:
            if suspect.domain not in self.incidents:
                kind, domain = suspect.domain.kind, suspect.domain.domain
                log.error("domain_suspected", kind=kind, domain=domain, observed=suspect.observed, expected=round(suspect.expected, 3))
        self.incidents = frozenset(suspect.domain for suspect in found)

    def _verdicts(self, judged: Sequence[Judged], marks: Mapping[str, int], moved: dict[str, int], now_ns: int) -> dict[str, Verdict]:
        """Ask the budget; a trip is noted in `moved`."""
        asked = demands(judged, now_ns)
        allocation = allocate(
            asked,
            self._ledger.grants(now_ns - int(self.settings.limits.window_h * HOUR_NS)),
            self.picture.topology,
            self.settings.limits,
            fleet=self.picture.fleet(),
            now_ns=now_ns,
            is_tripped="budget_tripped_ns" in marks,
            incidents=self.incidents,
            unknown=self.picture.unknown,
        )
        if allocation.trips:
            moved["budget_tripped_ns"] = now_ns
            log.error("budget_tripped", wanted=len(asked))
        return {**allocation.verdicts, **{one.node: HELD_OUT for one in judged if one.is_held_out}}

    def _say_all(
        self, judged: Iterable[Judged], verdicts: Mapping[str, Verdict], now_ns: int
    ) -> tuple[list[Said], list[OpenRecommendation]]:
        scene = Scene(
            cluster=self._cluster,
            mode=self._mode,
            now_ns=now_ns,
            costs=self.settings.costs,
            limits=self.settings.limits,
            lifecycle=self.settings.lifecycle,
            topology=self.picture.topology,
            drained=frozenset(node for node, verdict in verdicts.items() if verdict.decision == "approved"),
            incidents=self.incidents,
        )
        said: list[Said] = []
        held: list[OpenRecommendation] = []
        for one in judged:
            verdict = verdicts.get(one.node) if one.asks_for_drain else None
            taken = with_budget(one.step, verdict.decision if verdict else "not_applicable", self.settings.lifecycle, now_ns)
            if taken.says == "hold":
                held += [taken.open] if taken.open and taken.open != one.before else []
                continue
            try:
                said.append(self._resolve(one, scene) if taken.says == "resolved" else say(one, taken, verdict, scene))
            except RecordRejected as error:  # one node that cannot be put into words silences no other
                UNSAYABLE.inc()
                log.warning("recommendation_unsayable", node=one.node, error=str(error))
        return said, held

    def _resolve(self, one: Judged, scene: Scene) -> Said:
        assert one.before, "BUG: resolved what is not open"
        last_body = self._ledger.bodies(one.before.recommendation_id)[0]
        return say_resolved(one.step, last_body, scene, one.news.outcome_id)

    def _measure(self, record: PassRecord, now_ns: int) -> None:
        PASSES.labels("ok").inc()
        for said in record.said:
            SAID.labels(said.change, said.why).inc()
            if said.memory.budget in ("denied", "deferred"):
                BUDGET_REFUSED.labels(said.audit.budget.get("policy", "")).inc()
            log.info("recommendation_said", change=said.change, why=said.why, node=said.memory.node, action=said.memory.action)
        by_action = dict.fromkeys(Action, 0)
        for memory in self._ledger.open_recommendations().values():
            by_action[memory.action] += 1
        for action, count in by_action.items():
            OPEN.labels(action.value).set(count)
        self._tell_silence()
        if self.picture.risks:
            SCORE_AGE.set((now_ns - max(risk.as_of_ns for risk in self.picture.risks.values())) / 1e9)
        BUDGET_TRIPPED.set("budget_tripped_ns" in self._ledger.marks())
        INCIDENTS.set(len(self.incidents))

    def _tell_silence(self) -> None:
        """One alert per silent source, when it falls silent, however many nodes it speaks for."""
        for source in self.picture.sources:
            nodes = self.picture.silent.get(source, set())
            SILENT_NODES.labels(source).set(len(nodes))
            if nodes and source not in self._silent:
                log.warning("telemetry_silent", source=source, nodes=len(nodes))
        self._silent = frozenset(self.picture.silent)
