"""Judge every node at one time: its view, what is wanted, what that means for what was said before; pure."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from alerting.answers import FAILED_KINDS, REPAIRED_KINDS, Standing, ToldOutcome
from alerting.budget import Demand, Verdict
from alerting.causes import Cause, is_active
from alerting.learn import Repair, next_rung, repair_order, tried_on
from alerting.lifecycle import HOUR_NS, NOTHING, News, OpenRecommendation, Step, step
from alerting.options import RunningJob
from alerting.policy import NodeView, Origin, Wanted, want
from alerting.risk import Risk, abstained
from alerting.rules import OTHER_FAILURE, Finding, RulePolicy
from alerting.schema import Action, Followup
from alerting.settings import AlertSettings

HELD_OUT = Verdict(
    decision="denied",
    policy="hold-out",
    scope="cluster",
    used=0,
    limit=0,
    reason="left in service at random, so that acting does not erase the labels",
)
_RANKS: Mapping[Origin, int] = {"score": 0, "criterion": 1, "failure": 2}


@dataclass(frozen=True, kw_only=True)
class Known:
    """Everything that judging rests on."""

    risks: Mapping[str, Risk]
    causes: Sequence[Cause] = ()
    jobs: Mapping[str, tuple[RunningJob, ...]] = field(default_factory=dict)
    open: Mapping[str, OpenRecommendation] = field(default_factory=dict)
    standings: Mapping[str, Standing] = field(default_factory=dict)  # by recommendation
    dismissed: Mapping[str, Action] = field(default_factory=dict)
    outcomes: Sequence[ToldOutcome] = ()
    repairs: Sequence[Repair] = ()


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One node's step with everything that it rests on."""

    node: str
    before: OpenRecommendation | None
    step: Step
    wanted: Wanted | None
    risk: Risk | None
    news: News
    was_granted: bool = False  # its drain is approved already
    is_held_out: bool = False
    propensity: float = 1.0

    @property
    def asks_for_drain(self) -> bool:
        """Claims that the node wants a place in the budget, or keeps one."""
        return self.step.says in ("opened", "updated", "hold") and self.step.action.is_drain


def judge_all(known: Known, settings: AlertSettings, now_ns: int) -> list[Judged]:
    """Judge every node that has a score, an active cause or an open recommendation; a node that fails under a prediction comes twice."""
    active: dict[str, list[Cause]] = {}
    for cause in known.causes:
        if is_active(cause, settings.rules, now_ns):
            active.setdefault(cause.node, []).append(cause)
    news = _news(known)
    repair_book = _RepairBook(known.repairs, now_ns)
    judged: list[Judged] = []
    for node in sorted(known.risks.keys() | active.keys() | known.open.keys()):
        risk = _fresh_risk(known.risks.get(node), settings, now_ns)
        view = NodeView(
            node=node,
            risk=risk,
            causes=tuple(active.get(node, ())),
            jobs=known.jobs.get(node, ()),
            followup=repair_book.followup(risk, node),
        )
        judged += _judge(view, known.open.get(node), news.get(node, News()), settings, now_ns)
    return judged


def is_news(told: ToldOutcome, causes: Iterable[Cause], repaired_ns: int, rules: RulePolicy, now_ns: int) -> bool:
    """Claim that a failure told by an outcome is not known yet: recent, not repaired since, and no other sign of the same incident."""
    if told.at_ns < now_ns - rules.max_event_age_h * HOUR_NS or repaired_ns >= told.at_ns:
        return False
    same_incident_ns = rules.same_incident_h * HOUR_NS
    failures = (cause for cause in causes if cause.node == told.node and cause.kind == "failure")
    return all(abs(cause.first_seen_ns - told.at_ns) > same_incident_ns for cause in failures)


def told_failure(told: ToldOutcome) -> Finding:
    """Turn a failure that was told into a finding."""
    return Finding(node=told.node, code=f"outcome.{told.kind}", kind="failure", component=None, at_ns=told.at_ns, response=OTHER_FAILURE)


def demands(judged: Iterable[Judged], now_ns: int) -> list[Demand]:
    """List what is asked of the budget."""
    return [_demand(one, now_ns) for one in judged if one.asks_for_drain and not one.is_held_out]


def _judge(view: NodeView, open_: OpenRecommendation | None, news: News, settings: AlertSettings, now_ns: int) -> list[Judged]:
    wanted = want(view, settings.costs, settings.policy)
    first = step(open_, wanted, news, settings.lifecycle, now_ns)
    steps = [(open_, first)]
    if first.resolution == "failed":  # the prediction is over, the node is down: that is a recommendation of its own
        steps.append((None, step(None, wanted, News(), settings.lifecycle, now_ns)))
    was_granted = open_ is not None and open_.action.is_drain and open_.budget == "approved"
    judged = []
    for before, taken in steps:
        if taken is not NOTHING:
            is_held_out, propensity = _hold_out(before, taken, wanted, settings, now_ns)
            judged.append(
                Judged(
                    node=view.node,
                    before=before,
                    step=taken,
                    wanted=wanted,
                    risk=view.risk,
                    news=news,
                    was_granted=was_granted,
                    is_held_out=is_held_out,
                    propensity=propensity,
                )
            )
    return judged


def _hold_out(
    before: OpenRecommendation | None, taken: Step, wanted: Wanted | None, settings: AlertSettings, now_ns: int
) -> tuple[bool, float]:
    """Say whether a predicted drain is left out at random, and with which probability it was decided so; failures never are."""
    if wanted is None or wanted.origin != "score" or not taken.action.is_drain:
        return False, 1.0
    if before is not None:
        return before.is_held_out, 1.0
    if settings.hold_out_ratio <= 0 or wanted.not_act_cost > settings.hold_out_max_loss:
        return False, 1.0
    drawn = random.Random(f"{settings.hold_out_seed}/{wanted.node}/{now_ns}").random()  # noqa: S311  # a draw that can be repeated
    is_out = drawn < settings.hold_out_ratio
    return is_out, settings.hold_out_ratio if is_out else 1.0 - settings.hold_out_ratio


def _fresh_risk(risk: Risk | None, settings: AlertSettings, now_ns: int) -> Risk | None:
    if risk and now_ns - risk.as_of_ns > settings.max_score_age_h * HOUR_NS:
        return abstained(risk, "stale_score")
    return risk


def _news(known: Known) -> dict[str, News]:
    failed: dict[str, int] = {}
    for cause in known.causes:
        if cause.kind == "failure":
            failed[cause.node] = max(cause.first_seen_ns, failed.get(cause.node, 0))
    for outcome in known.outcomes:
        if outcome.kind in FAILED_KINDS:
            failed[outcome.node] = max(outcome.at_ns, failed.get(outcome.node, 0))
    repaired = {outcome.node: outcome for outcome in known.outcomes if outcome.kind in REPAIRED_KINDS}
    found: dict[str, News] = {}
    for node in known.open.keys() | known.dismissed.keys():
        standing = known.standings.get(known.open[node].recommendation_id, Standing()) if node in known.open else Standing()
        told = repaired.get(node)
        found[node] = News(
            failed_at_ns=failed.get(node),
            repaired_at_ns=told.at_ns if told else None,
            outcome_id=told.outcome_id if told else None,
            is_dismissed=standing.is_dismissed,
            is_foreign_drain=standing.is_foreign_drain,
            dismissed_action=known.dismissed.get(node),
        )
    return found


class _RepairBook:
    """Which repair to advise, each mode's order worked out once."""

    def __init__(self, repairs: Sequence[Repair], now_ns: int) -> None:
        self._repairs = repairs
        self._now_ns = now_ns
        self._orders: dict[str, tuple[Followup, ...]] = {}

    def followup(self, risk: Risk | None, node: str) -> Followup:
        if risk is None or not risk.incidence:
            return "diagnose"
        mode = max(risk.incidence, key=lambda mode: risk.incidence[mode])
        if mode not in self._orders:
            self._orders[mode] = repair_order(mode, self._repairs, self._now_ns)
        return next_rung(self._orders[mode], tried_on(node, self._repairs, self._now_ns))


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
