"""Keep drains within a stock and a rate, per failure domain and for the fleet; pure.

Every limit is a share and, where given, an absolute number: at least one node may always go, and never half or more of a scope, so
three nodes may lose one and never two. Demands are served by urgency: failures first, then by what acting saves. A burst of
predicted drains trips the budget, which then stays tripped until a person resets it. Giving nodes back is never asked here, hence never
blocked. What is refused stays open and visible and is judged anew, with fresh scores, at every pass.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from alerting.schema import BudgetVerdict
from alerting.topology import DomainId, Topology

FLEET = DomainId("cluster", "")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How many nodes may be out at once and how fast they may go."""

    fleet_ratio: float = 0.05
    fleet_max: int | None = None
    domain_ratio: float = 0.25
    domain_max: int | None = None
    domain_kinds: tuple[str, ...] = ("chassis", "rack", "power", "leaf_switch", "nvlink_domain")
    window_h: float = 1.0
    fleet_window_ratio: float = 0.05
    fleet_window_max: int | None = 4
    domain_window_ratio: float = 0.1
    trip_ratio: float = 0.2  # of the fleet newly wanted out within the window
    trip_min: int = 5


@dataclass(frozen=True, kw_only=True)
class Demand:
    """A node that is wanted out; `saves` is p L - K in node-hours, `since_ns` when it was first wanted.

    `rank` puts failures (2) before vendor criteria (1) before scores (0).
    """

    node: str
    saves: float
    since_ns: int
    rank: int = 0
    is_held: bool = False  # already approved: it keeps its place


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the budget says to one demand."""

    decision: BudgetVerdict
    policy: str
    scope: str
    used: int
    limit: int
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """All verdicts of one pass, by node; `trips` when this pass trips the budget."""

    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    trips: bool = False


def limit(size: int, ratio: float, absolute: int | None = None) -> int:
    """Give how many of `size` nodes may go: the share, but at least one and less than half; an absolute limit caps it."""
    most = max(1, min(math.floor(ratio * size), (size - 1) // 2))
    return most if absolute is None else min(most, absolute)


def allocate(
    demands: Iterable[Demand],
    granted: Sequence[tuple[str, int]],
    topology: Topology,
    limits: Limits,
    *,
    fleet: Collection[str],
    now_ns: int,
    is_tripped: bool = False,
    incidents: Collection[DomainId] = (),
    unknown: Collection[str] = (),
) -> Allocation:
    """Decide every demand; `granted` lists the approvals as (node, when), of which those within the window count for the rate.

    `unknown` names inputs that cannot be read and without which only a node that has failed already may go.
    """
    demands = sorted(demands, key=lambda demand: (not demand.is_held, -demand.rank, -demand.saves, demand.node))
    since_ns = now_ns - int(limits.window_h * 3600e9)
    trips = not is_tripped and _is_burst(demands, limits, len(fleet), since_ns)
    account = _Account(topology, limits, len(fleet))
    for node in {node for node, at_ns in granted if at_ns > since_ns}:
        account.went(node)
    verdicts: dict[str, Verdict] = {}
    for demand in demands:
        if demand.is_held:
            account.take(demand.node)
            verdicts[demand.node] = account.verdict("approved", FLEET, "max-drained")
        else:
            verdicts[demand.node] = _unread(demand, account, unknown) or _decide(demand, account, is_tripped or trips, incidents)
    return Allocation(verdicts=verdicts, trips=trips)


def _is_burst(demands: Sequence[Demand], limits: Limits, fleet_size: int, since_ns: int) -> bool:
    fresh = sum(1 for demand in demands if demand.rank == 0 and demand.since_ns > since_ns)
    return fresh > max(limits.trip_min, limits.trip_ratio * fleet_size)


def _unread(demand: Demand, account: _Account, unknown: Collection[str]) -> Verdict | None:
    if not unknown or demand.rank >= 2:
        return None
    reason = f"{', '.join(sorted(unknown))} cannot be read: nobody knows what a drain would hit"
    return account.verdict("deferred", FLEET, "input-unreadable", reason)


def _decide(demand: Demand, account: _Account, is_tripped: bool, incidents: Collection[DomainId]) -> Verdict:
    if demand.rank == 0 and demand.saves <= 0:
        return account.verdict("deferred", FLEET, "no-benefit-now", "the risk has fallen below what would open a drain")
    if is_tripped:
        return account.verdict("denied", FLEET, "tripped", "too many drains were wanted at once; a person has to reset the budget")
    scopes = account.scopes(demand.node)
    for scope in scopes:
        if scope in incidents and demand.rank < 2:
            return account.verdict("denied", scope, "domain-incident", "the domain itself is suspected; draining its nodes repairs nothing")
    for scope in scopes:
        if account.is_full(scope):
            return account.verdict("denied", scope, "max-drained", "as many nodes are out as may be")
    for scope in scopes:
        if account.is_fast(scope):
            return account.verdict("deferred", scope, "max-drains-per-window", "as many nodes went within the window as may")
    account.take(demand.node)
    account.went(demand.node)
    return account.verdict("approved", FLEET, "max-drained")


class _Account:
    """Nodes out and nodes gone within the window, per scope."""

    def __init__(self, topology: Topology, limits: Limits, fleet_size: int) -> None:
        self._topology = topology
        self._limits = limits
        self._fleet_size = fleet_size
        self._out: dict[DomainId, int] = {}
        self._went: dict[DomainId, int] = {}

    def scopes(self, node: str) -> list[DomainId]:
        kinds = self._limits.domain_kinds
        return [*(domain for domain in self._topology.domains(node) if domain.kind in kinds), FLEET]

    def take(self, node: str) -> None:
        for scope in self.scopes(node):
            self._out[scope] = self._out.get(scope, 0) + 1

    def went(self, node: str) -> None:
        for scope in self.scopes(node):
            self._went[scope] = self._went.get(scope, 0) + 1

    def is_full(self, scope: DomainId) -> bool:
        return self._out.get(scope, 0) >= self._stock_limit(scope)

    def is_fast(self, scope: DomainId) -> bool:
        return self._went.get(scope, 0) >= self._window_limit(scope)

    def verdict(self, decision: BudgetVerdict, scope: DomainId, policy: str, reason: str | None = None) -> Verdict:
        by_window = policy == "max-drains-per-window"
        return Verdict(
            decision=decision,
            policy=policy,
            scope="cluster" if scope == FLEET else f"{scope.kind}/{scope.domain}",
            used=(self._went if by_window else self._out).get(scope, 0),
            limit=self._window_limit(scope) if by_window else self._stock_limit(scope),
            reason=reason,
        )

    def _stock_limit(self, scope: DomainId) -> int:
        if scope == FLEET:
            return limit(self._fleet_size, self._limits.fleet_ratio, self._limits.fleet_max)
        return limit(self._topology.size(scope), self._limits.domain_ratio, self._limits.domain_max)

    def _window_limit(self, scope: DomainId) -> int:
        if scope == FLEET:
            return limit(self._fleet_size, self._limits.fleet_window_ratio, self._limits.fleet_window_max)
        return limit(self._topology.size(scope), self._limits.domain_window_ratio)
