"""Failure domains: which chassis, rack, power shelf, leaf switch, NVLink domain or lot a node shares with which others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

# What the webhook calls a kind of domain; kinds of a site's own, and `position`, which is no shared fate, are not sent.
WIRE_KINDS: Mapping[str, str] = {
    "chassis": "chassis",
    "rack": "rack",
    "power": "power",
    "cooling": "cooling",
    "leaf_switch": "leaf_switch",
    "nvlink_domain": "nvlink_domain",
    "lot": "batch",
    "cohort": "cohort",
    "firmware": "firmware",
    "zone": "zone",
}


@dataclass(frozen=True, order=True)
class DomainId:
    """One domain: its kind and its id within the kind."""

    kind: str
    domain: str


@dataclass(frozen=True)
class Topology:
    """Domains of each node and nodes of each domain."""

    domains_of: Mapping[str, tuple[DomainId, ...]] = field(default_factory=dict)
    members: Mapping[DomainId, frozenset[str]] = field(default_factory=dict)

    @property
    def nodes(self) -> frozenset[str]:
        """All nodes that have a place."""
        return frozenset(self.domains_of)

    def domains(self, node: str) -> tuple[DomainId, ...]:
        """List the domains of a node; none where its place is unknown."""
        return self.domains_of.get(node, ())

    def size(self, domain: DomainId) -> int:
        """Count the nodes of a domain."""
        return len(self.members.get(domain, ()))


def topology_of(rows: Iterable[tuple[str, str, str]]) -> Topology:
    """Build the topology from (node, kind, domain), one row per node and kind."""
    domains_of: dict[str, list[DomainId]] = {}
    members: dict[DomainId, set[str]] = {}
    for node, kind, domain in sorted(rows):
        place = DomainId(kind, domain)
        domains_of.setdefault(node, []).append(place)
        members.setdefault(place, set()).add(node)
    return Topology(
        {node: tuple(places) for node, places in domains_of.items()}, {place: frozenset(nodes) for place, nodes in members.items()}
    )
