"""What the decision layer knows of the fleet, kept up to date from the lake: scores, hard events, flags, jobs, places, silent sources."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb

from alerting.options import RunningJob
from alerting.risk import Risk, ScoreRow, risks
from alerting.rules import GpuFlags, HardEvent
from alerting.tail import Tail
from alerting.topology import Topology, topology_of
from ingest.lake import Lake
from ingest.schema import EVENTS, GPU_SAMPLES, JOB_PROGRESS, JOBS, SOURCE_STATES, TOPOLOGY
from models.schema import SCORES

HOUR_NS = 3_600_000_000_000


@dataclass(frozen=True, kw_only=True)
class LookBack:
    """How far a fresh start reads back, in hours."""

    scores_h: float = 2.0
    events_h: float = 24.0
    samples_h: float = 2.0
    states_h: float = 2.0
    jobs_h: float = 336.0


@dataclass
class Fresh:
    """What came since the last pass that was written; a pass that fails answers it next time."""

    events: list[HardEvent] = field(default_factory=list)
    flags: list[GpuFlags] = field(default_factory=list)
    rebooted: dict[str, int] = field(default_factory=dict)  # node: when the new boot was first seen


class Picture:
    """The fleet as known at the newest `update`."""

    def __init__(self, lake: Lake, horizon_h: float, look_back: LookBack | None = None) -> None:
        self.risks: dict[str, Risk] = {}
        self.topology = Topology()
        self.silent: dict[str, set[str]] = {}  # source: nodes of which it says nothing
        self.fresh = Fresh()  # what has come and was not answered yet
        self.damaged: dict[str, str] = {}  # tables that cannot be read in full, and why: what they would say is unknown
        self._horizon_h = horizon_h
        self._look_back = look_back or LookBack()
        self._connection = duckdb.connect()
        self._connection.execute("set threads = 1")
        self._scores = Tail(lake, SCORES, "scores")
        self._events = Tail(lake, EVENTS, "events")
        self._flags = Tail(lake, GPU_SAMPLES, "gpu_flags")
        self._jobs = Tail(lake, JOBS, "jobs")
        self._checkpoints = Tail(lake, JOB_PROGRESS, "checkpoints")
        self._places = Tail(lake, TOPOLOGY, "places")
        self._states = Tail(lake, SOURCE_STATES, "source_states")
        self._place_of: dict[tuple[str, str], str] = {}
        self._job_rows: dict[str, dict[str, Any]] = {}
        self._checkpoint_ns: dict[str, int] = {}
        self._state_of: dict[tuple[str, str], str] = {}
        self._boots: dict[str, str] = {}
        self._places_read_ns: int | None = None

    def update(self, now_ns: int) -> None:
        """Read what is new as of `now_ns`; `fresh` grows until `settle` says that it was answered."""
        back = self._look_back
        scored = risks([ScoreRow(**row) for row in self._read(self._scores, back.scores_h, now_ns)], self._horizon_h)
        self.risks |= {node: risk for node, risk in scored.items() if not self._is_older(risk)}
        self._update_jobs(now_ns)
        self._update_places(now_ns)
        self._update_states(now_ns)
        self.fresh.events += [HardEvent(**row) for row in self._read(self._events, back.events_h, now_ns)]
        flags = [GpuFlags(**row) for row in self._read(self._flags, back.samples_h, now_ns)]
        self.fresh.flags += flags
        self.fresh.rebooted |= self._reboots(flags)

    def settle(self) -> None:
        """Forget what was fresh: the pass that answered it is written."""
        self.fresh = Fresh()

    def jobs_by_node(self, now_ns: int) -> dict[str, tuple[RunningJob, ...]]:
        """Give the running jobs of each node, with the age of their newest checkpoint."""
        found: dict[str, list[RunningJob]] = {}
        for job_id, row in self._job_rows.items():
            if row["state"] != "running":
                continue
            job = _running_job(row, self._checkpoint_ns.get(job_id), now_ns)
            for node in row["nodes"]:
                found.setdefault(node, []).append(job)
        return {node: tuple(jobs) for node, jobs in found.items()}

    def fleet(self) -> frozenset[str]:
        """Name every node that has a place or a score."""
        return self.topology.nodes | self.risks.keys()

    @property
    def unknown(self) -> frozenset[str]:
        """Name the damaged tables without which nobody knows what a drain would hit: who works on a node, and who stands beside it."""
        return frozenset(self.damaged.keys() & {JOBS.name, TOPOLOGY.name})

    @property
    def sources(self) -> frozenset[str]:
        """Name every source that has ever told its state."""
        return frozenset(source for _, source in self._state_of)

    def close(self) -> None:
        """Let go of the query engine."""
        self._connection.close()

    def _read(self, tail: Tail, back_h: float, now_ns: int) -> list[dict[str, Any]]:
        rows = tail.read(self._connection, max(0, now_ns - int(back_h * HOUR_NS)), now_ns)
        self.damaged.pop(tail.table.name, None)
        if tail.damage:
            self.damaged[tail.table.name] = tail.damage
        return rows

    def _is_older(self, risk: Risk) -> bool:
        known = self.risks.get(risk.node)
        return known is not None and known.as_of_ns > risk.as_of_ns

    def _update_jobs(self, now_ns: int) -> None:
        for row in self._read(self._jobs, self._look_back.jobs_h, now_ns):
            known = self._job_rows.get(row["job_id"])
            if known is None or known["observed_at_ns"] <= row["observed_at_ns"]:
                self._job_rows[row["job_id"]] = row
        ended_before_ns = now_ns - 24 * HOUR_NS  # an ended job stays known for a day, so that a late row cannot bring it back
        self._job_rows = {
            job_id: row for job_id, row in self._job_rows.items() if row["state"] == "running" or row["observed_at_ns"] > ended_before_ns
        }
        for row in self._read(self._checkpoints, self._look_back.states_h, now_ns):
            self._checkpoint_ns[row["job_id"]] = row["checkpoint_at_ns"]
        self._checkpoint_ns = {job_id: at_ns for job_id, at_ns in self._checkpoint_ns.items() if job_id in self._job_rows}

    def _update_places(self, now_ns: int) -> None:
        if self._places_read_ns is not None and now_ns - self._places_read_ns < HOUR_NS:
            return  # a node moves by hand: once an hour is soon enough
        rows = self._read(self._places, now_ns / HOUR_NS, now_ns)
        self._places_read_ns = None if TOPOLOGY.name in self.damaged else now_ns
        if rows:
            self._place_of |= {(row["node"], row["kind"]): row["domain"] for row in rows}
            self.topology = topology_of((node, kind, domain) for (node, kind), domain in self._place_of.items())

    def _update_states(self, now_ns: int) -> None:
        rows = self._read(self._states, self._look_back.states_h, now_ns)
        self._state_of |= {(row["node"], row["source"]): row["state"] for row in rows}
        silent: dict[str, set[str]] = {}
        for (node, source), state in self._state_of.items():
            if state not in ("ok", "partial"):
                silent.setdefault(source, set()).add(node)
        self.silent = silent

    def _reboots(self, flags: Iterable[GpuFlags]) -> dict[str, int]:
        found: dict[str, int] = {}
        for gpu in flags:
            known = self._boots.get(gpu.node)
            if gpu.boot_id and known and gpu.boot_id != known:
                found[gpu.node] = gpu.observed_at_ns
            if gpu.boot_id:
                self._boots[gpu.node] = gpu.boot_id
        return found


def _running_job(row: dict[str, Any], checkpoint_ns: int | None, now_ns: int) -> RunningJob:
    interval_s = row["checkpoint_interval_s"]
    job = RunningJob(
        job_id=row["job_id"],
        nodes=max(1, len(row["nodes"])),
        gpus=row["gpus"],
        checkpoint_interval_h=None if interval_s is None else interval_s / 3600,
        checkpoint_mode=row["checkpoint_mode"],
        is_elastic=row["is_elastic"],
        tolerates_failures=row["tolerates_f"],
    )
    return job if checkpoint_ns is None else replace(job, checkpoint_age_h=max(0.0, (now_ns - checkpoint_ns) / HOUR_NS))
