"""The jobs of an emulated fleet: gang jobs on whole nodes, small jobs on a few shared nodes, and how each run ended.

First come, first served with a short backfill, simulated once over the whole life of the fleet: a node that goes down kills its jobs
(`node_fail`), which are queued again; a fault of software ends them on a healthy node.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from emulators import draws
from emulators.faults import JobFault
from emulators.layout import MINUTE_NS, NS, NodeInfo, WorldSpec
from emulators.submissions import Job, Traits, submit

SHARED_SHARE = 0.10  # nodes that take jobs smaller than a node
BACKFILL_DEPTH = 8
SLOW_NODES = 8
_RESTART_LOSS_NS = 30 * MINUTE_NS  # work done again after a node failure


@dataclass(frozen=True, kw_only=True)
class JobRun(Traits):
    """One run of a job; a job that is queued again keeps its id and counts its restarts."""

    job_id: str
    nodes: tuple[str, ...]
    node_indices: tuple[int, ...]
    slots: tuple[int, ...]  # GPUs used on each node
    submitted_ns: int
    started_ns: int
    ended_ns: int
    state: str  # how it ended
    exit_code: int
    restarts: int

    @property
    def gpus(self) -> int:
        """Count the GPUs of the run."""
        return len(self.nodes) * len(self.slots)

    def last_checkpoint_ns(self, at_ns: int) -> int | None:
        """Tell when the newest checkpoint before `at_ns` was complete."""
        if self.checkpoint_interval_s is None:
            return None
        every_ns = int(self.checkpoint_interval_s * NS)
        done = (min(at_ns, self.ended_ns) - self.started_ns) // every_ns
        return self.started_ns + done * every_ns if done > 0 else None


def slowdown(run: JobRun, at_ns: int) -> float:
    """Tell how many times longer a step takes: large jobs have slow spells of half an hour or more (Greyhound), few others."""
    key = draws.key_of(0, "slow", run.job_id, run.restarts)
    has_spell, start, length, depth = draws.uniform(key, np.arange(4))
    if has_spell > (0.4 if len(run.nodes) >= SLOW_NODES else 0.02):
        return 1.0
    from_ns = run.started_ns + start * (run.ended_ns - run.started_ns)
    is_slow = from_ns <= at_ns < from_ns + (24 + 48 * length) * MINUTE_NS
    return float(1.0 / (0.9 - 0.5 * depth)) if is_slow else 1.0


@dataclass
class _Running:
    job: Job
    nodes: tuple[int, ...]
    slots: tuple[int, ...]
    started_ns: int
    is_over: bool = False


@dataclass(order=True)
class _Moment:
    at_ns: int
    order: int
    kind: str = field(compare=False)
    what: object = field(compare=False)


def schedule(
    spec: WorldSpec,
    nodes: tuple[NodeInfo, ...],
    downs: Iterable[tuple[int, int, int]],
    kills: Iterable[tuple[int, int]],
    faults: Iterable[JobFault],
) -> tuple[JobRun, ...]:
    """Run the fleet's scheduler; `downs` are (node, from, until), `kills` (node, time) at which a failure ends the jobs of a node."""
    scheduler = _Scheduler(spec, nodes)
    for node, at_ns in kills:
        scheduler.plan(at_ns, "kill", node)
    for node, from_ns, until_ns in downs:
        scheduler.plan(from_ns, "down", node)
        scheduler.plan(until_ns, "up", node)
    for fault in faults:
        scheduler.plan(fault.at_ns, "fault", fault.node_index)
    for job in submit(spec, gang_nodes=len(nodes) - scheduler.shared, shared_nodes=scheduler.shared):
        scheduler.plan(job.submitted_ns, "submit", job)
    scheduler.run()
    return tuple(sorted(scheduler.runs, key=lambda run: (run.started_ns, run.job_id)))


class _Scheduler:
    """The state of the scheduler while it lives through the fleet's time."""

    def __init__(self, spec: WorldSpec, nodes: tuple[NodeInfo, ...]) -> None:
        self._spec = spec
        self._names = [node.name for node in nodes]
        self.shared = max(1, round(len(nodes) * SHARED_SHARE)) if len(nodes) > 1 else 0
        gang = len(nodes) - self.shared
        self._is_shared = [index >= gang for index in range(len(nodes))]
        self._is_up = [True] * len(nodes)
        self._running: list[list[_Running]] = [[] for _ in nodes]
        self._free = set(range(gang))
        self._free_slots = {index: set(range(spec.gpus_per_node)) for index in range(gang, len(nodes))}
        self._queues: dict[bool, deque[Job]] = {True: deque(), False: deque()}
        self._moments: list[_Moment] = []
        self._order = itertools.count()
        self.runs: list[JobRun] = []

    def plan(self, at_ns: int, kind: str, what: object) -> None:
        """Note what happens at a time; at the same time, in the order noted."""
        heapq.heappush(self._moments, _Moment(at_ns, next(self._order), kind, what))

    def run(self) -> None:
        """Live through everything that is planned until the end of the world, then close what still runs at its own planned end."""
        while self._moments and self._moments[0].at_ns < self._spec.until_ns:
            moment = heapq.heappop(self._moments)
            getattr(self, f"_{moment.kind}")(moment.at_ns, moment.what)
        for running in {id(run): run for runs in self._running for run in runs}.values():
            self._finish(running.started_ns + running.job.left_ns, running, running.job.end_state)

    def _submit(self, at_ns: int, job: Job) -> None:
        self._queues[job.is_gang].append(job)
        self._start_waiting(at_ns, is_gang=job.is_gang)

    def _end(self, at_ns: int, running: _Running) -> None:
        if not running.is_over:
            self._finish(at_ns, running, running.job.end_state)
            self._start_waiting(at_ns, is_gang=running.job.is_gang)

    def _kill(self, at_ns: int, node: int) -> None:
        """End the jobs of a node by its failure and queue them again."""
        for running in list(self._running[node]):
            self._finish(at_ns, running, "node_fail")
            job = running.job
            done_ns = at_ns - running.started_ns
            job.left_ns = max(10 * MINUTE_NS, job.left_ns - done_ns + min(done_ns, _RESTART_LOSS_NS))
            job.restarts += 1
            self._queues[job.is_gang].appendleft(job)
        self._take_away(node)
        self._start_waiting(at_ns, is_gang=not self._is_shared[node])

    def _down(self, at_ns: int, node: int) -> None:
        self._kill(at_ns, node)

    def _up(self, at_ns: int, node: int) -> None:
        self._is_up[node] = True
        if self._is_shared[node]:
            self._free_slots[node] = set(range(self._spec.gpus_per_node))
        else:
            self._free.add(node)
        self._start_waiting(at_ns, is_gang=not self._is_shared[node])

    def _fault(self, at_ns: int, node: int) -> None:
        """Kill the jobs of a healthy node: they fail, the node goes on."""
        for running in list(self._running[node]):
            self._finish(at_ns, running, "failed")
        self._start_waiting(at_ns, is_gang=not self._is_shared[node])

    def _take_away(self, node: int) -> None:
        self._is_up[node] = False
        self._free.discard(node)
        if self._is_shared[node]:
            self._free_slots[node] = set()

    def _start_waiting(self, at_ns: int, *, is_gang: bool) -> None:
        """Start what fits: the head of the queue, or one of the few behind it."""
        queue = self._queues[is_gang]
        position = 0
        while position < min(len(queue), BACKFILL_DEPTH):
            place = self._place(queue[position])
            if place is None:
                position += 1
                continue
            job = queue[position]
            del queue[position]
            self._start(at_ns, job, *place)

    def _place(self, job: Job) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        if job.is_gang:
            if len(self._free) < job.size:
                return None
            return tuple(sorted(self._free)[: job.size]), tuple(range(self._spec.gpus_per_node))
        for node, slots in self._free_slots.items():
            if len(slots) >= job.size:
                return (node,), tuple(sorted(slots)[: job.size])
        return None

    def _start(self, at_ns: int, job: Job, nodes: tuple[int, ...], slots: tuple[int, ...]) -> None:
        running = _Running(job, nodes, slots, at_ns)
        for node in nodes:
            self._running[node].append(running)
            if job.is_gang:
                self._free.discard(node)
            else:
                self._free_slots[node] -= set(slots)
        self.plan(at_ns + job.left_ns, "end", running)

    def _finish(self, at_ns: int, running: _Running, state: str) -> None:
        running.is_over = True
        job = running.job
        for node in running.nodes:
            self._running[node].remove(running)
            if not self._is_up[node]:
                continue
            if job.is_gang:
                self._free.add(node)
            else:
                self._free_slots[node] |= set(running.slots)
        self.runs.append(
            JobRun(
                job_id=job.job_id,
                nodes=tuple(self._names[node] for node in running.nodes),
                node_indices=running.nodes,
                slots=running.slots,
                submitted_ns=job.submitted_ns,
                started_ns=running.started_ns,
                ended_ns=at_ns,
                state=state,
                exit_code=0 if state == "completed" else 1,
                restarts=job.restarts,
                **vars(job.traits),
            )
        )
