"""Judge alerts as events: was each failure announced early enough to act, and what did each alert come to.

A failure at t is caught when an alert of its node came in [t - horizon, t - lead]. An alert is, by the first rule that applies, a hit
(a failure in [a + lead, a + horizon]), late (a failure sooner than the lead), unresolved (the node was taken out or observation ended
before a + horizon) or false. Alerts of a node within the cool-down of its last crossing are one episode.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

Moment = tuple[str, float]  # node, hours on any common clock


@dataclass(frozen=True, kw_only=True)
class AlertRule:
    """When a score is an alert, and how early it must be to help."""

    score_horizon_h: float = 24.0
    threshold: float = 0.10
    lead_h: float = 0.25
    horizon_h: float = 24.0
    cooldown_h: float = 24.0


class EarlyWarning(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of failures and alerts, and what follows from them; a rate without a denominator is None."""

    failures: int
    caught: int
    late_failures: int
    missed: int
    alerts_hit: int
    alerts_late: int
    alerts_false: int
    alerts_unresolved: int
    leads_h: tuple[float, ...]

    @property
    def recall(self) -> float | None:
        """Give the share of failures that were caught."""
        return _ratio(self.caught, self.failures)

    @property
    def precision_act(self) -> float | None:
        """Give the share of resolved alerts that left time to act."""
        return _ratio(self.alerts_hit, self.alerts_hit + self.alerts_false + self.alerts_late)

    @property
    def precision_true(self) -> float | None:
        """Give the share of hits among hits and false alerts."""
        return _ratio(self.alerts_hit, self.alerts_hit + self.alerts_false)

    @property
    def precision_bounds(self) -> tuple[float | None, float | None]:
        """Give precision_true with all unresolved alerts counted as false, and all as hits."""
        total = self.alerts_hit + self.alerts_false + self.alerts_unresolved
        return _ratio(self.alerts_hit, total), _ratio(self.alerts_hit + self.alerts_unresolved, total)

    @property
    def alerts(self) -> int:
        """Count the alert episodes."""
        return self.alerts_hit + self.alerts_late + self.alerts_false + self.alerts_unresolved

    def lead_quantile(self, q: float) -> float | None:
        """Give a quantile of the leads of caught failures."""
        return float(np.quantile(self.leads_h, q)) if self.leads_h else None


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def judge(
    alerts: Iterable[Moment],
    failures: Iterable[Moment],
    rule: AlertRule,
    observed_until: Mapping[str, float] | float = float("inf"),
) -> EarlyWarning:
    """Score alert moments (any crossing; merged here) against failures; `observed_until` may differ per node."""
    alert_times, failure_times = _by_node(alerts), _by_node(failures)
    opened = {node: merge(times, rule.cooldown_h) for node, times in alert_times.items()}
    counts: dict[str, int] = defaultdict(int)
    leads: list[float] = []
    for node, times in failure_times.items():
        for failed_at in times:
            outcome, lead = _judge_failure(failed_at, alert_times.get(node, ()), rule)
            counts[outcome] += 1
            leads += [lead] if lead is not None else []
    for node, times in opened.items():
        until = observed_until if isinstance(observed_until, float | int) else observed_until.get(node, float("inf"))
        for alerted_at in times:
            counts[_judge_alert(alerted_at, failure_times.get(node, ()), rule, until)] += 1
    return EarlyWarning(
        failures=sum(len(times) for times in failure_times.values()),
        caught=counts["caught"],
        late_failures=counts["late_failure"],
        missed=counts["missed"],
        alerts_hit=counts["hit"],
        alerts_late=counts["late"],
        alerts_false=counts["false"],
        alerts_unresolved=counts["unresolved"],
        leads_h=tuple(sorted(leads)),
    )


def _by_node(moments: Iterable[Moment]) -> dict[str, list[float]]:
    grouped: dict[str, list[float]] = defaultdict(list)
    for node, at in moments:
        grouped[node].append(at)
    return {node: sorted(times) for node, times in grouped.items()}


def merge(crossings: Sequence[float], cooldown_h: float) -> list[float]:
    """Give the first crossing of each alert episode; `crossings` are sorted times above the threshold."""
    opened: list[float] = []
    last = -float("inf")
    for at in crossings:
        if at - last > cooldown_h or not opened:
            opened.append(at)
        last = at
    return opened


def _judge_failure(failed_at: float, alerts: Sequence[float], rule: AlertRule) -> tuple[str, float | None]:
    in_time = [at for at in alerts if failed_at - rule.horizon_h <= at <= failed_at - rule.lead_h]
    if in_time:
        return "caught", failed_at - in_time[0]
    is_late = any(failed_at - rule.lead_h < at < failed_at for at in alerts)
    return ("late_failure" if is_late else "missed"), None


def _judge_alert(alerted_at: float, failures: Sequence[float], rule: AlertRule, observed_until: float) -> str:
    ahead = [failed_at - alerted_at for failed_at in failures if failed_at > alerted_at]
    if any(rule.lead_h <= gap <= rule.horizon_h for gap in ahead):
        return "hit"
    if any(gap < rule.lead_h for gap in ahead):
        return "late"
    return "unresolved" if observed_until < alerted_at + rule.horizon_h else "false"
