"""Ground truth of an emulated fleet: when what fails, whether it could be seen coming, and how long the repair takes.

What falls into a node's down time does not happen; a repair that did not help is a failure of the same part soon
after, and the primary rates are lowered so that the table's totals include them.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from emulators import draws
from emulators.failure_times import Candidate, draw_candidates
from emulators.frailty import SLOT_FACTORS, Hazards
from emulators.layout import HOUR_NS, MINUTE_NS, MS_NS, NodeInfo, WorldSpec
from emulators.modes import MODES, Lead, Mode

LINGERING = frozenset({"sdc", "pcie_degraded"})  # nobody notices at once: the node stays in service for days


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One failure of hardware; the node is down from `down_ns` until `repaired_ns`."""

    number: int
    mode: str
    scope: str  # gpu or node
    node: str
    node_index: int
    slot: int | None
    unit: str = ""  # GPU UUID or node name
    is_visible: bool
    is_structural: bool  # its sign is telemetry that slows down and vanishes
    onset_ns: int | None  # first sign, where visible
    failed_ns: int
    down_ns: int
    repaired_ns: int
    action: str  # what ended it: reset, reboot, reseat, rma
    repeats: int = 0  # how many repairs of the same part did not help before
    incident: str | None = None  # domain whose incident it is part of


@dataclass(frozen=True, kw_only=True)
class JobFault:
    """Something that kills the job on a healthy node: software, NCCL watchdog, external dependency."""

    mode: str
    node: str
    node_index: int
    at_ns: int


@dataclass(frozen=True, kw_only=True)
class Maintenance:
    """An announced outage of a healthy node."""

    node: str
    node_index: int
    announced_ns: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Faults:
    """All that goes wrong in one fleet."""

    failures: tuple[Failure, ...]
    job_faults: tuple[JobFault, ...]
    maintenance: tuple[Maintenance, ...]


def draw_faults(spec: WorldSpec, nodes: tuple[NodeInfo, ...], hazards: Hazards) -> Faults:
    """Draw the life of a fleet."""
    candidates = draw_candidates(spec, nodes, hazards)
    failures: list[Failure] = []
    job_faults: list[JobFault] = []
    maintenance: list[Maintenance] = []
    for node in nodes:
        life = _Life(spec, node, candidates[node.index])
        life.run()
        failures += life.failures
        job_faults += life.job_faults
        maintenance += life.maintenance
    failures.sort(key=lambda failure: (failure.failed_ns, failure.node_index))
    numbered = tuple(_numbered(failure, number) for number, failure in enumerate(failures))
    return Faults(numbered, tuple(sorted(job_faults, key=lambda fault: fault.at_ns)), tuple(maintenance))


def _numbered(failure: Failure, number: int) -> Failure:
    return Failure(**{**failure.__dict__, "number": number})


class _Life:
    """One node's life in the order of time."""

    def __init__(self, spec: WorldSpec, node: NodeInfo, candidates: list[Candidate]) -> None:
        self._spec = spec
        self._node = node
        self._queue = candidates
        self._up_ns = spec.start_ns
        self._up_of_slot: dict[int | None, int] = {}
        self.failures: list[Failure] = []
        self.job_faults: list[JobFault] = []
        self.maintenance: list[Maintenance] = []

    def run(self) -> None:
        """Let everything happen that can."""
        heapq.heapify(self._queue)
        while self._queue:
            candidate = heapq.heappop(self._queue)
            if candidate.at_ns >= self._up_ns:
                self._happen(candidate, MODES[candidate.mode])

    def _happen(self, candidate: Candidate, mode: Mode) -> None:
        name, index = self._node.name, self._node.index
        if mode.scope == "job":
            self.job_faults.append(JobFault(mode=mode.id, node=name, node_index=index, at_ns=candidate.at_ns))
        elif mode.scope == "maintenance":
            lead_ns = int(self._lead_h(candidate, mode.lead) * HOUR_NS)
            self._up_ns = candidate.at_ns + int((1 + 3 * self._uniform(candidate, "maintenance")) * 3600) * 1000 * MS_NS
            announced_ns = max(self._spec.start_ns, candidate.at_ns - lead_ns)
            outage = Maintenance(node=name, node_index=index, announced_ns=announced_ns, start_ns=candidate.at_ns, end_ns=self._up_ns)
            self.maintenance.append(outage)
        else:
            self._fail(candidate, mode)

    def _fail(self, candidate: Candidate, mode: Mode) -> None:
        slot = self._slot(candidate) if mode.scope == "gpu" else None
        failed_ns, down_ns = candidate.at_ns, self._down_ns(candidate, mode)
        repaired_ns = down_ns + int(self._repair_h(candidate, mode) * 3_600_000) * MS_NS
        is_visible = not candidate.incident and self._is_visible(candidate, mode)
        onset_ns = None
        if is_visible:
            lead_ns = int(self._lead_h(candidate, mode.lead) * 3_600_000) * MS_NS
            onset_ns = max(failed_ns - lead_ns, self._up_of_slot.get(slot, self._spec.start_ns))
        is_rma = self._uniform(candidate, "rma") < mode.rma_p
        failure = Failure(
            number=-1,
            mode=mode.id,
            scope=mode.scope,
            node=self._node.name,
            node_index=self._node.index,
            slot=slot,
            is_visible=is_visible,
            is_structural=mode.id == "fell_off_bus",
            onset_ns=onset_ns,
            failed_ns=failed_ns,
            down_ns=down_ns,
            repaired_ns=repaired_ns,
            action="rma" if is_rma else mode.action,
            repeats=candidate.repeats,
            incident=candidate.incident or None,
        )
        self.failures.append(failure)
        self._up_ns = self._up_of_slot[slot] = repaired_ns
        if not candidate.incident and self._uniform(candidate, "repeat") < self._spec.repeat_scale * mode.repeat_p:
            self._repeat(candidate, slot if slot is not None else -1)

    def _repeat(self, candidate: Candidate, slot: int) -> None:
        """Let the same part fail again, a median of 20 h after the repair (Summit's gaps between double-bit errors)."""
        gap_h = 20.0 * np.exp(1.0 * draws.normal(self._key(candidate), draws.key_of(0, "gap"))[0])
        at_ns = self._up_ns + int(gap_h * 3_600_000) * MS_NS
        if at_ns < self._spec.until_ns:
            heapq.heappush(self._queue, Candidate(at_ns, candidate.mode, candidate.stream, candidate.repeats + 1, slot))

    def _is_visible(self, candidate: Candidate, mode: Mode) -> bool:
        share = self._spec.shares.get(mode.id, mode.share) * self._spec.precursor_share_scale
        return self._uniform(candidate, "visible") < share

    def _slot(self, candidate: Candidate) -> int:
        if candidate.slot >= 0:
            return candidate.slot
        slots = self._spec.gpus_per_node
        weights = np.resize(SLOT_FACTORS, slots) if self._spec.heterogeneity else np.ones(slots)
        return int(np.searchsorted(np.cumsum(weights) / weights.sum(), self._uniform(candidate, "slot"), side="right"))

    def _lead_h(self, candidate: Candidate, lead: Lead) -> float:
        if lead.is_uniform:
            return lead.low_h + (lead.high_h - lead.low_h) * self._uniform(candidate, "lead")
        drawn = lead.median_h * np.exp(lead.sigma * draws.normal(self._key(candidate), draws.key_of(0, "lead"))[0])
        return float(np.clip(drawn, lead.low_h, lead.high_h))

    def _down_ns(self, candidate: Candidate, mode: Mode) -> int:
        """Tell when the node goes down: at once with its own parts, minutes after a GPU's failure, days after a silent one."""
        late = self._uniform(candidate, "down")
        if mode.id in LINGERING:
            return candidate.at_ns + int((1 + 3 * late) * 86_400) * 1000 * MS_NS
        if mode.scope == "gpu":
            return candidate.at_ns + 2 * MINUTE_NS + int(late * 600) * 1000 * MS_NS
        return candidate.at_ns

    def _repair_h(self, candidate: Candidate, mode: Mode) -> float:
        """Draw the time to repair: lognormal, median 2.2 h (Delta); one in ten by hand, 1-3 days; a hung GSP up to 23 h."""
        if mode.id != "gsp" and self._uniform(candidate, "manual") < 0.1:
            return 24.0 + 48.0 * self._uniform(candidate, "manual hours")
        drawn = 2.2 * np.exp(0.8 * draws.normal(self._key(candidate), draws.key_of(0, "repair"))[0])
        return float(np.clip(drawn, 0.2, 23.0))

    def _uniform(self, candidate: Candidate, name: str) -> float:
        return float(draws.uniform(self._key(candidate), draws.key_of(0, name))[0])

    def _key(self, candidate: Candidate) -> int:
        stream = candidate.incident or candidate.stream
        return draws.key_of(self._spec.seed, candidate.mode, self._node.index, stream, candidate.repeats)
