"""When something wants to fail: one random stream per (node, mode), incidents of whole domains, latent defects of new nodes.

Failure times invert the cumulative hazard of unit-exponential gaps, so that policies are compared on the same failures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from emulators import draws
from emulators.draws import Floats, Ints
from emulators.frailty import NEW_DAYS, Hazards, commissioned_days_before, cumulative_hours
from emulators.layout import DAY_NS, MS_NS, NodeInfo, WorldSpec
from emulators.modes import MODES, rates

INCIDENTS = {"power": "psu_vr", "leaf_switch": "switch_cable", "rack": "thermal"}
INCIDENT_YEARS = 2.0
LATENT_SHARE, LATENT = 0.02, 1 << 20  # share of new nodes; number that no stream reaches


@dataclass(frozen=True, order=True)
class Candidate:
    """A failure that happens if its node is up; `slot` is -1 where it is not yet drawn."""

    at_ns: int
    mode: str
    stream: int  # number within the (node, mode) stream
    repeats: int = 0
    slot: int = -1
    incident: str = ""


def draw_candidates(spec: WorldSpec, nodes: tuple[NodeInfo, ...], hazards: Hazards) -> list[list[Candidate]]:
    """Draw what wants to fail on each node."""
    candidates: list[list[Candidate]] = [[] for _ in nodes]
    for mode_id, rate in rates(spec.profile, spec.profile_scope).items():
        mode = MODES[mode_id]
        per_hour = rate / 24_000.0 * spec.rate_scale * (1.0 - spec.repeat_scale * mode.repeat_p)
        for node, stream, at_ns in zip(*_stream(spec, hazards, mode_id, per_hour), strict=True):
            candidates[node].append(Candidate(int(at_ns), mode_id, int(stream)))
    if spec.domain_incidents:
        _add_incidents(spec, nodes, candidates)
    if spec.heterogeneity:
        _add_latent(spec, candidates)
    return candidates


def _stream(spec: WorldSpec, hazards: Hazards, mode: str, per_hour: float) -> tuple[Ints, Ints, Ints]:
    """Give (node, number in the stream, time) of every primary failure of a mode, by inversion of the cumulative hazard."""
    grid, hours = cumulative_hours(spec, hazards)
    rate = per_hour * hazards.of(mode)
    most = float((rate * hours[:, -1]).max())
    count = int(most + 6.0 * np.sqrt(most) + 8)
    index = np.arange(len(rate))
    gaps = draws.exponential(draws.key_of(spec.seed, "failure", mode), index[:, None], np.arange(count)[None, :])
    with np.errstate(divide="ignore"):
        reached = np.cumsum(gaps, axis=1) / rate[:, None]
    node, stream = np.nonzero(reached < hours[:, -1:])
    at_h = _interpolate(grid, hours, node, reached[node, stream])
    return node, stream, spec.start_ns + (at_h * 3_600_000).astype(np.int64) * MS_NS


def _interpolate(grid: Floats, hours: Floats, node: Ints, wanted: Floats) -> Floats:
    """Invert each node's piecewise linear cumulative hours at the wanted values."""
    offset = hours[:, -1].max() + 1.0
    flat = (hours + offset * np.arange(len(hours))[:, None]).ravel()
    left = np.searchsorted(flat, wanted + offset * node, side="right") - 1 - node * hours.shape[1]
    left = np.clip(left, 0, hours.shape[1] - 2)
    low, high = hours[node, left], hours[node, left + 1]
    share = np.divide(wanted - low, high - low, out=np.zeros_like(wanted), where=high > low)
    at: Floats = grid[left] + share * (grid[left + 1] - grid[left])
    return at


def _add_latent(spec: WorldSpec, candidates: list[list[Candidate]]) -> None:
    """Let 2 % of the nodes that are new at the start have a latent defect, which shows after 10 days in the mean."""
    index = np.arange(len(candidates))
    key = draws.key_of(spec.seed, "latent")
    age_days = commissioned_days_before(spec, index)
    fails_days = 10.0 * draws.exponential(key, index, 1) - age_days
    is_latent = (age_days < NEW_DAYS) & (draws.uniform(key, index, 2) < LATENT_SHARE) & (fails_days > 0) & (fails_days < spec.days)
    for node in np.nonzero(is_latent)[0]:
        candidates[node].append(Candidate(spec.start_ns + int(fails_days[node] * 86_400_000) * MS_NS, "gpu_faulty", LATENT))


def _add_incidents(spec: WorldSpec, nodes: tuple[NodeInfo, ...], candidates: list[list[Candidate]]) -> None:
    """Let a power shelf, a leaf switch or a rack's cooling take most of its members down within minutes, once in two years."""
    for kind, mode in INCIDENTS.items():
        for domain in sorted({getattr(node, kind) for node in nodes}):
            for number, at_ns in enumerate(_incident_times(spec, domain)):
                key = draws.key_of(spec.seed, "incident", domain, number)
                share = 0.3 + 0.7 * draws.uniform(key)[0]
                for node in nodes:
                    if getattr(node, kind) == domain and draws.uniform(key, node.index, 1)[0] < share:
                        late_ns = int(draws.uniform(key, node.index, 2)[0] * 600_000) * MS_NS
                        candidates[node.index].append(Candidate(at_ns + late_ns, mode, -1 - number, incident=domain))


def _incident_times(spec: WorldSpec, domain: str) -> Iterator[int]:
    key = draws.key_of(spec.seed, "incidents", domain)
    at_days = 0.0
    for number in range(1000):
        at_days += INCIDENT_YEARS * 365.0 * draws.exponential(key, number)[0]
        if at_days >= spec.days:
            return
        yield spec.start_ns + int(at_days * DAY_NS / MS_NS) * MS_NS
