"""The jobs of the fleet: nobody shares a GPU, node failures end jobs, the mix is the published one."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from itertools import pairwise

import pytest

from emulators.faults import LINGERING
from emulators.jobs import JobRun, slowdown
from emulators.layout import DAY_NS, MINUTE_NS, WorldSpec
from emulators.world import World


@cache
def fleet() -> World:
    return World(WorldSpec.show(days=60))


def hours(run: JobRun) -> float:
    world = fleet()
    return max(0, min(run.ended_ns, world.spec.until_ns) - max(run.started_ns, world.spec.start_ns)) / 3.6e12


def test_no_two_jobs_share_a_gpu() -> None:
    """On every GPU one run ends before the next begins."""
    uses = defaultdict(list)
    for run in fleet().runs:
        for node in run.node_indices:
            for slot in run.slots:
                uses[node, slot].append((run.started_ns, run.ended_ns))
    assert len(uses) == 48 * 8
    for spans in uses.values():
        spans.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_no_job_runs_on_a_node_that_is_down() -> None:
    """A run never overlaps a down time of one of its nodes."""
    downs = defaultdict(list)
    for node, from_ns, until_ns in fleet().timeline.downs:
        downs[node].append((from_ns, until_ns))
    for run in fleet().runs:
        for node in run.node_indices:
            assert not any(run.started_ns < until_ns and from_ns < run.ended_ns for from_ns, until_ns in downs[node])


def test_a_failure_ends_the_jobs_of_its_node_and_queues_them_again() -> None:
    """At the instant of a failure every run on the node ends as node_fail; its job starts again under the same id, once more restarted."""
    world = fleet()
    restarts = {(run.job_id, run.restarts) for run in world.runs}
    ended = [run for run in world.runs if run.state == "node_fail"]
    assert len(ended) > 100
    at = {(f.node_index, f.failed_ns if f.mode not in LINGERING else f.down_ns) for f in world.failures}
    at |= {(m.node_index, m.start_ns) for m in world.maintenance}
    assert all(any((node, run.ended_ns) in at for node in run.node_indices) for run in ended)
    again = sum((run.job_id, run.restarts + 1) in restarts for run in ended)
    assert again > 0.9 * len(ended)


def test_a_software_fault_fails_the_jobs_and_not_the_node() -> None:
    """At a software fault the node stays up and its runs end as failed."""
    world = fleet()
    ended = defaultdict(list)
    for run in world.runs:
        for node in run.node_indices:
            ended[node, run.ended_ns].append(run.state)
    hit = [fault for fault in world.job_faults if ended[fault.node_index, fault.at_ns]]
    assert len(hit) > 20
    for fault in hit:
        assert "failed" in ended[fault.node_index, fault.at_ns]
        assert world.is_up(fault.node, fault.at_ns)


def test_the_mix_is_the_published_one() -> None:
    """Most jobs are smaller than a node and use little; runs end as on RSC-1; the fleet is busy (RSC: 83 %)."""
    world = fleet()
    small = [run for run in world.runs if len(run.slots) < 8]
    used = sum(run.gpus * hours(run) for run in world.runs)
    assert len(small) / len(world.runs) > 0.8
    assert sum(run.gpus * hours(run) for run in small) / used < 0.15
    assert used / (384 * 60 * 24) == pytest.approx(0.83, abs=0.05)
    states = Counter(run.state for run in world.runs if run.state != "node_fail")
    assert states["completed"] / states.total() == pytest.approx(0.60, abs=0.03)
    assert states["failed"] / states.total() == pytest.approx(0.24, abs=0.03)


def test_most_failures_of_tasks_come_early() -> None:
    """About three in four failed runs ended within ten minutes (Aegis: 73 %)."""
    failed = [run for run in fleet().runs if run.state == "failed"]
    early = sum(run.ended_ns - run.started_ns <= 10 * MINUTE_NS for run in failed)
    assert early / len(failed) == pytest.approx(0.73, abs=0.05)


def test_a_checkpoint_is_the_newest_complete_one() -> None:
    """The last checkpoint lies on the interval's grid from the start, at or before the time, and not before the first interval."""
    run = next(run for run in fleet().runs if run.checkpoint_interval_s == 600 and run.ended_ns - run.started_ns > 60 * MINUTE_NS)
    assert run.last_checkpoint_ns(run.started_ns + 9 * MINUTE_NS) is None
    assert run.last_checkpoint_ns(run.started_ns + 25 * MINUTE_NS) == run.started_ns + 20 * MINUTE_NS


def test_jobs_running_are_those_between_start_and_end() -> None:
    """At any time the runs on nodes are those that have started and not ended."""
    world = fleet()
    at_ns = world.spec.start_ns + 20 * DAY_NS
    assert {run.job_id for run in world.jobs_running(at_ns)} == {run.job_id for run in world.runs if run.started_ns <= at_ns < run.ended_ns}


def test_large_jobs_have_slow_spells() -> None:
    """About four in ten jobs of eight nodes or more are at some time at least a tenth slower; small ones hardly ever."""
    spells = Counter[bool]()
    runs = Counter[bool]()
    large = [run for run in fleet().runs if len(run.nodes) >= 8]
    for run in [*large, *fleet().runs[:1000]]:
        is_large = len(run.nodes) >= 8
        runs[is_large] += 1
        times = range(run.started_ns, run.ended_ns + 1, 10 * MINUTE_NS)
        spells[is_large] += any(slowdown(run, at_ns) > 1.1 for at_ns in times)
    assert 0.25 < spells[True] / runs[True] < 0.5
    assert spells[False] / runs[False] < 0.05
