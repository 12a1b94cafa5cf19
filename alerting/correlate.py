"""Tell a sick domain from sick nodes: more failures under one roof than the nodes' own risks and normal heterogeneity explain.

    expected   mu = sum of the members' hazards over the window
    excess     P(X >= O): Poisson, or negative binomial where domains differ (theta ~ Gamma(a, a))
    posterior  theta | O ~ Gamma(a + O, a + mu)

A domain is suspected where Benjamini-Hochberg over all domains of its kind rejects, or where P(theta > 2) is above 0.9. Draining the
nodes of a bad power shelf repairs nothing: the budget refuses such drains and a person gets one incident.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scipy.special import betainc, gammainc, gammaincc

from alerting.causes import Cause
from alerting.topology import DomainId, Topology


@dataclass(frozen=True, kw_only=True)
class CorrelationSettings:
    """When a domain is suspected."""

    kinds: tuple[str, ...] = ("chassis", "rack", "power", "leaf_switch", "nvlink_domain", "lot", "cohort", "firmware")
    window_h: float = 168.0
    false_discovery_ratio: float = 0.1
    factor: float = 2.0
    certainty: float = 0.9
    min_failed: int = 3  # nodes; two may fail together by chance in a large fleet every week
    usual_shape: float = 5.0  # a, where a fleet has too few domains to estimate it
    min_domains: int = 8


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A domain that fails more than its nodes explain."""

    domain: DomainId
    observed: int
    expected: float
    p_value: float
    factor: float  # posterior mean of its relative hazard


def poisson_tail(observed: int, expected: float) -> float:
    """Give P(X >= observed) for a Poisson variable."""
    return float(gammainc(observed, expected)) if observed > 0 else 1.0


def negative_binomial_tail(observed: int, expected: float, shape: float) -> float:
    """Give P(X >= observed) where the rate itself is Gamma(shape, shape) distributed around the expected one."""
    return float(betainc(observed, shape, expected / (shape + expected))) if observed > 0 else 1.0


def frailty_variance(observed: Sequence[int], expected: Sequence[float]) -> float:
    """Estimate 1/a by moments from domains of one kind; 0 where they differ no more than chance."""
    pairs = list(zip(observed, expected, strict=True))
    weight = sum(mu * mu for _, mu in pairs)
    return max(0.0, sum((count - mu) ** 2 - mu for count, mu in pairs) / weight) if weight > 0 else 0.0


def posterior_factor(observed: int, expected: float, shape: float) -> float:
    """Give the posterior mean of a domain's relative hazard."""
    return (shape + observed) / (shape + expected)


def p_factor_above(factor: float, observed: int, expected: float, shape: float) -> float:
    """Give the posterior probability that the relative hazard is above `factor`."""
    return float(gammaincc(shape + observed, factor * (shape + expected)))


def rejected(p_values: Sequence[float], ratio: float, tests: int | None = None) -> set[int]:
    """Give the indexes that Benjamini-Hochberg rejects at a false-discovery ratio, among `tests` tests in all."""
    ranked = sorted(range(len(p_values)), key=p_values.__getitem__)
    among = len(p_values) if tests is None else tests
    passing = [rank for rank, index in enumerate(ranked, 1) if p_values[index] <= ratio * rank / among]
    return set(ranked[: max(passing, default=0)])


def failed_nodes(causes: Iterable[Cause], since_ns: int) -> frozenset[str]:
    """Name the nodes that a failure has hit since a time."""
    return frozenset(cause.node for cause in causes if cause.kind == "failure" and cause.first_seen_ns >= since_ns)


def suspects(failed: frozenset[str], expected_of: Mapping[str, float], topology: Topology, settings: CorrelationSettings) -> list[Suspect]:
    """Find the suspected domains; `expected_of` is each node's cumulative hazard over the window (unknown nodes count as none)."""
    found: list[Suspect] = []
    for kind in settings.kinds:
        domains = sorted(domain for domain in topology.members if domain.kind == kind and topology.size(domain) > 1)
        observed = [len(topology.members[domain] & failed) for domain in domains]
        expected = [sum(expected_of.get(node, 0.0) for node in topology.members[domain]) for domain in domains]
        found += _of_kind(domains, observed, expected, settings)
    return found


def _of_kind(
    domains: Sequence[DomainId], observed: Sequence[int], expected: Sequence[float], settings: CorrelationSettings
) -> list[Suspect]:
    judged = []
    for index, domain in enumerate(domains):
        shape = _shape_without(index, observed, expected, settings)
        count, mu = observed[index], expected[index]
        suspect = Suspect(
            domain=domain,
            observed=count,
            expected=mu,
            p_value=negative_binomial_tail(count, mu, shape),
            factor=posterior_factor(count, mu, shape),
        )
        judged.append((suspect, p_factor_above(settings.factor, count, mu, shape)))
    hits = rejected([suspect.p_value for suspect, _ in judged], settings.false_discovery_ratio)
    return [
        suspect
        for index, (suspect, certainty) in enumerate(judged)
        if suspect.observed >= settings.min_failed and (index in hits or certainty > settings.certainty)
    ]


def _shape_without(index: int, observed: Sequence[int], expected: Sequence[float], settings: CorrelationSettings) -> float:
    """Estimate the shape from the other domains, so that a sick one does not excuse itself."""
    if len(observed) < settings.min_domains:
        return settings.usual_shape
    variance = frailty_variance([*observed[:index], *observed[index + 1 :]], [*expected[:index], *expected[index + 1 :]])
    return 1.0 / variance if variance > 1e-3 else 1e3
