"""Drains stay within stock and rate, for the fleet and each domain, whatever is demanded in whatever order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerting.budget import Allocation, Demand, Limits, allocate, limit
from alerting.topology import DomainId, Topology, topology_of

HOUR = 3_600_000_000_000
NOW = 500_000 * HOUR
LONG_AGO = NOW - 100 * HOUR


def fleet(size: int, per_rack: int = 8) -> Topology:
    return topology_of((f"n{index:03d}", "rack", f"r{index // per_rack}") for index in range(size))


def ask(
    topology: Topology, *demands: Demand, granted: Sequence[tuple[str, int]] = (), limits: Limits | None = None, **more: object
) -> Allocation:
    asked = {"fleet": topology.nodes, "now_ns": NOW, **more}
    return allocate(demands, granted, topology, limits or Limits(), **asked)  # type: ignore[arg-type]


def demand(node: str, saves: float = 10.0, **more: object) -> Demand:
    return Demand(node=node, saves=saves, **{"since_ns": LONG_AGO, **more})  # type: ignore[arg-type]


def decisions(allocation: Allocation) -> dict[str, str]:
    return {node: verdict.decision for node, verdict in allocation.verdicts.items()}


@pytest.mark.parametrize(
    ("size", "ratio", "absolute", "expected"),
    [
        (3, 0.05, None, 1),
        (3, 0.9, None, 1),
        (10, 0.05, None, 1),
        (288, 0.01, None, 2),
        (288, 0.5, 3, 3),
        (4, 0.9, None, 1),
        (1, 0.05, None, 1),
    ],
)
def test_limits(size: int, ratio: float, absolute: int | None, expected: int) -> None:
    """At least one node may go, never half or more; the absolute limit caps the share."""
    assert limit(size, ratio, absolute) == expected


@pytest.mark.parametrize("size", [3, 10])
def test_small_fleets(size: int) -> None:
    """Of three nodes, and of ten at 5 %, one may drain and no second."""
    topology = fleet(size)
    limits = Limits(fleet_window_max=None, fleet_window_ratio=1.0, domain_window_ratio=1.0, domain_ratio=1.0)
    verdicts = decisions(ask(topology, demand("n000"), demand("n001"), demand("n002"), limits=limits))
    assert sorted(verdicts.values()) == ["approved", "denied", "denied"]


def test_most_saved_goes_first() -> None:
    """Failures go before vendor criteria, these before scores, and scores by what acting saves."""
    topology = fleet(40, per_rack=40)
    limits = Limits(fleet_ratio=0.1, fleet_window_ratio=0.1, domain_window_ratio=1.0)
    asked = [demand("n001", 5), demand("n002", 50), demand("n003", 1, rank=2), demand("n004", 2, rank=1), demand("n005", 6)]
    verdicts = decisions(ask(topology, *asked, limits=limits))
    assert verdicts == {"n003": "approved", "n004": "approved", "n002": "approved", "n005": "approved", "n001": "denied"}


def test_one_rack_does_not_lose_two() -> None:
    """A domain's own limit holds where the fleet's would allow more."""
    topology = fleet(80)
    limits = Limits(domain_ratio=0.125, domain_window_ratio=1.0)
    allocation = ask(topology, demand("n000", 9), demand("n001", 8), demand("n008", 7), limits=limits)
    assert decisions(allocation) == {"n000": "approved", "n001": "denied", "n008": "approved"}
    refused = allocation.verdicts["n001"]
    assert (refused.policy, refused.scope, refused.used, refused.limit) == ("max-drained", "rack/r0", 1, 1)


def test_rate_defers() -> None:
    """More drains than the window allows wait; after the window they may go."""
    topology = fleet(80)
    granted = [("n040", NOW - HOUR // 2)] * 2 + [("n041", NOW - HOUR // 2), ("n042", NOW - HOUR // 3), ("n043", NOW - HOUR // 4)]
    limits = Limits(domain_window_ratio=1.0)
    verdict = ask(topology, demand("n000"), granted=granted, limits=limits).verdicts["n000"]
    assert (verdict.decision, verdict.policy, verdict.used, verdict.limit) == ("deferred", "max-drains-per-window", 4, 4)
    assert decisions(ask(topology, demand("n000"), granted=granted, limits=limits, now_ns=NOW + HOUR)) == {"n000": "approved"}


def test_held_drains_keep_their_place() -> None:
    """What was approved stays approved and counts, even when limits have shrunk since."""
    topology = fleet(20)
    verdicts = decisions(ask(topology, demand("n000", is_held=True), demand("n008", is_held=True), demand("n016", 99)))
    assert verdicts == {"n000": "approved", "n008": "approved", "n016": "denied"}


def test_burst_trips_until_reset() -> None:
    """A burst of predicted drains approves none and trips; tripped refuses single ones too, until the reset judges them anew."""
    topology = fleet(40)
    burst = ask(topology, *(demand(f"n{index:03d}", since_ns=NOW) for index in range(9)))
    assert (burst.trips, set(decisions(burst).values())) == (True, {"denied"})
    later = ask(topology, demand("n000"), is_tripped=True)
    assert (decisions(later), later.verdicts["n000"].policy, later.trips) == ({"n000": "denied"}, "tripped", False)
    assert decisions(ask(topology, demand("n000"), is_tripped=False)) == {"n000": "approved"}


def test_failures_do_not_trip() -> None:
    """Nodes that have failed are no false alarm of the model."""
    topology = fleet(40)
    assert not ask(topology, *(demand(f"n{index:03d}", since_ns=NOW, rank=2) for index in range(9))).trips


def test_no_drain_without_benefit() -> None:
    """A recommendation that is held open by hysteresis alone gets no new approval."""
    verdict = ask(fleet(8), demand("n000", saves=-0.5)).verdicts["n000"]
    assert (verdict.decision, verdict.policy) == ("deferred", "no-benefit-now")


def test_suspected_domain_stops_its_drains() -> None:
    """Where the rack itself is suspected, draining its nodes one by one is refused; a failed node still goes."""
    incident = {DomainId("rack", "r0")}
    verdicts = decisions(ask(fleet(40), demand("n000"), demand("n001", rank=2), demand("n008"), incidents=incident))
    assert verdicts == {"n000": "denied", "n001": "approved", "n008": "approved"}


@given(
    size=st.integers(1, 60),
    per_rack=st.integers(1, 10),
    asked=st.lists(st.tuples(st.integers(0, 59), st.floats(-1, 100), st.integers(0, 2)), max_size=60),
    fleet_ratio=st.floats(0.01, 1.0),
    domain_ratio=st.floats(0.01, 1.0),
)
def test_never_over_the_limit(
    size: int, per_rack: int, asked: list[tuple[int, float, int]], fleet_ratio: float, domain_ratio: float
) -> None:
    """For any demands in any order, over passes that hold what was approved, no scope exceeds its limit."""
    topology = fleet(size, per_rack)
    limits = Limits(fleet_ratio=fleet_ratio, domain_ratio=domain_ratio, trip_min=1000)
    held: dict[str, int] = {}
    for step in range(0, len(asked), 5):
        now_ns = NOW + step * HOUR // 20
        nodes = {f"n{index % size:03d}": (saves, rank) for index, saves, rank in asked[: step + 5]}
        demands = [demand(node, saves, rank=rank, is_held=node in held) for node, (saves, rank) in nodes.items()]
        verdicts = ask(topology, *demands, granted=list(held.items()), limits=limits, now_ns=now_ns).verdicts
        held |= {node: now_ns for node, verdict in verdicts.items() if verdict.decision == "approved" and node not in held}
        racks = Counter(topology.domains(node)[0] for node in held)
        went = sum(1 for at_ns in held.values() if at_ns > now_ns - HOUR)
        assert len(held) <= max(1, min(int(fleet_ratio * size), (size - 1) // 2))
        assert went <= max(1, min(int(0.05 * size), (size - 1) // 2, 4))
        assert all(
            count <= max(1, min(int(domain_ratio * topology.size(rack)), (topology.size(rack) - 1) // 2)) for rack, count in racks.items()
        )
