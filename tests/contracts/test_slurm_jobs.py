"""Jobs of a real Slurm with accounting: what it tells of a job's life is what the source says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ingest.clock import NS, SystemClock
from ingest.jobs.commands import SlurmCommands
from ingest.jobs.source import JobsSource
from ingest.schema import Job
from tests.slurm import Slurm, running_slurm

pytestmark = pytest.mark.slow
DECLARED = "ckpt_s=600 ckpt=periodic elastic=1 tolerates_f=2 sync=tight"
SQUEUE, SACCT = ("squeue", "--states=all", "--json"), ("sacct", "--allusers", "--starttime=now-2days", "--json")


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    """Run a cluster that keeps ended jobs in its queue for no longer than it must."""
    with running_slurm(MIN_JOB_AGE="2") as cluster:
        yield cluster


class Watch:
    """The source, and the latest that it has said of each job."""

    def __init__(self, slurm: Slurm) -> None:
        self._source = JobsSource("c1", SlurmCommands(slurm.command(*SQUEUE), slurm.command(*SACCT)), clock=SystemClock())
        self.said: dict[str, list[Job]] = {}

    async def look(self) -> None:
        """Read once."""
        for job in await self._source.read(time.time_ns()):
            assert isinstance(job, Job)
            self.said.setdefault(job.job_id, []).append(job)

    async def until(self, job_id: str, state: str, exit_code: int | None = None, patience_s: float = 240.0) -> Job:
        """Read until a job is said to be in a state, and to have an exit code if one is given: Slurm tells a cancelled job's code later."""
        deadline = time.monotonic() + patience_s
        while job_id not in self.said or self.said[job_id][-1].state != state or exit_code not in (None, self.said[job_id][-1].exit_code):
            assert time.monotonic() < deadline, f"{job_id} never became {state}: {self.said.get(job_id)}"
            await asyncio.sleep(0.2)
            await self.look()
        return self.said[job_id][-1]

    def states(self, job_id: str) -> list[str]:
        """List the states that were said, in their order, each once."""
        return list(dict.fromkeys(job.state for job in self.said[job_id]))


def submit(slurm: Slurm, script: str, *options: str) -> str:
    """Submit a job: its id."""
    return slurm.run("sbatch", "--parsable", "--output=/dev/null", f"--wrap={script}", *options)


def shown(slurm: Slurm, job_id: str, field: str) -> str:
    """Ask scontrol, which is no part of the source, for one field of a job."""
    fields = dict(part.partition("=")[::2] for part in slurm.run("scontrol", "--oneliner", "show", "job", job_id).split())
    return fields[field]


def shown_ns(slurm: Slurm, job_id: str, field: str) -> int:
    """Ask it for a time."""
    return int(datetime.fromisoformat(shown(slurm, job_id, field)).replace(tzinfo=UTC).timestamp()) * NS


async def test_every_field_of_a_running_job(slurm: Slurm) -> None:
    """A job on two nodes with declarations in its comment: each field as scontrol shows it; cancelled, it ends with its end and GPUs."""
    watch = Watch(slurm)
    ran = slurm.directory / "ran"
    job_id = submit(slurm, f"touch {ran}; sleep 300", "--nodes=2", "--gres=gpu:8", f"--comment={DECLARED}")
    job = await watch.until(job_id, "running")
    assert job == Job(
        node="c1",
        source="slurm",
        observed_at_ns=job.observed_at_ns,
        received_at_ns=job.received_at_ns,
        job_id=job_id,
        state="running",
        nodes=job.nodes,
        gpus=16,
        submitted_at_ns=shown_ns(slurm, job_id, "SubmitTime"),
        started_at_ns=shown_ns(slurm, job_id, "StartTime"),
        restarts=0,
        checkpoint_mode="periodic",
        checkpoint_interval_s=600.0,
        is_elastic=True,
        tolerates_f=2,
        sync="tight",
    )
    assert job.observed_at_ns <= job.received_at_ns
    assert slurm.run("scontrol", "show", "hostnames", shown(slurm, job_id, "NodeList")).split() == list(job.nodes)

    await met(ran.exists)
    slurm.run("scancel", job_id)
    ended = await watch.until(job_id, "cancelled", exit_code=128 + 15)
    assert (ended.nodes, ended.gpus, ended.checkpoint_interval_s) == (job.nodes, 16, 600.0)
    assert ended.ended_at_ns is not None
    assert job.started_at_ns is not None
    assert job.started_at_ns <= ended.ended_at_ns <= ended.received_at_ns


async def test_requeue_counts_a_restart(slurm: Slurm) -> None:
    """A requeued job waits again, without nodes, and runs again; its restarts are counted."""
    watch = Watch(slurm)
    ran = slurm.directory / "ran"
    await met(
        lambda: set(slurm.run("sinfo", "--noheader", "--format=%T").split()) == {"idle"}, patience_s=300.0
    )  # a cancelled job may leave late
    job_id = submit(slurm, f"touch {ran}-${{SLURM_RESTART_COUNT:-0}}; sleep 300", "--nodes=1", "--gres=gpu:8", "--requeue")
    first = await watch.until(job_id, "running")
    await met(Path(f"{ran}-0").exists)  # a job that is requeued while its script is being started may fail in its second run
    slurm.run("scontrol", "requeue", job_id)
    waiting = await watch.until(job_id, "pending")
    assert (waiting.restarts, waiting.nodes, waiting.started_at_ns) == (1, (), None)
    await met(lambda: slurm.run("sinfo", "--noheader", f"--nodes={first.nodes[0]}", "--format=%T") == "idle")
    revoked_s = time.time()  # slurmd refuses a start within the second in which it revoked the first run's credential
    await met(lambda: time.time() > revoked_s + 2.5)
    slurm.run("scontrol", "update", f"jobid={job_id}", "starttime=now")
    again = await watch.until(job_id, "running")
    await met(Path(f"{ran}-1").exists)
    assert again.restarts == 1
    assert again.started_at_ns is not None
    assert first.started_at_ns is not None
    assert again.started_at_ns > first.started_at_ns
    slurm.run("scancel", job_id)
    await watch.until(job_id, "cancelled")


async def test_the_ways_in_which_jobs_end(slurm: Slurm) -> None:
    """Completion, an exit code, a signal, a cancellation before the start and a node that fails: from the queue, and later from accounting.

    Accounting of 22.05 knows every end but an exit code; what a source has seen before, restarts and GPUs, stays.
    """
    watch, later = Watch(slurm), Watch(slurm)
    go = slurm.directory / "go"
    wait = f"until [ -e {go} ]; do sleep 0.1; done"
    jobs = {
        "completed": submit(slurm, wait, "--nodes=1", "--gres=gpu:2"),
        "failed": submit(slurm, f"{wait}; exit 3", "--nodes=1", "--gres=gpu:2"),
        "killed": submit(slurm, f"{wait}; kill -9 $$", "--nodes=1", "--gres=gpu:2", f"--comment={DECLARED}"),
        "node": submit(slurm, "sleep 300", "--nodes=1", "--gres=gpu:8", "--exclusive", "--no-requeue"),
        "never": submit(slurm, "true", "--nodes=4", "--exclusive"),
    }
    for name in ("completed", "failed", "killed", "node"):
        await later.until(jobs[name], "running")
    slurm.run("scancel", jobs["never"])
    go.touch()
    node = later.said[jobs["node"]][-1].nodes[0]
    slurm.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    try:
        ends = {"completed": "completed", "failed": "failed", "killed": "failed", "never": "cancelled", "node": "node_fail"}
        seen = {name: await watch.until(jobs[name], state) for name, state in ends.items()}
    finally:
        slurm.run("scontrol", "update", f"nodename={node}", "state=resume")
    codes = {name: job.exit_code for name, job in seen.items()}
    assert codes == {"completed": 0, "failed": 3, "killed": 137, "never": None, "node": None}
    assert all(job.ended_at_ns for job in seen.values())
    assert (seen["never"].started_at_ns, seen["never"].nodes) == (None, ())

    await left_the_queue(slurm, jobs.values())
    await later.look()
    told = {name: later.said[job_id][-1] for name, job_id in jobs.items()}
    assert {name: job.state for name, job in told.items()} == ends
    assert {name: job.exit_code for name, job in told.items()} == codes | {"failed": None}
    for name in ("completed", "failed", "killed", "node"):
        assert (told[name].gpus, told[name].restarts) == (8 if name == "node" else 2, 0)
        for field in ("nodes", "submitted_at_ns", "started_at_ns", "ended_at_ns", "checkpoint_interval_s", "tolerates_f", "sync"):
            assert getattr(told[name], field) == getattr(seen[name], field), (name, field)


async def left_the_queue(slurm: Slurm, jobs: Iterable[str]) -> None:
    """Wait until Slurm has forgotten ended jobs."""
    gone = set(jobs)
    await met(lambda: not gone & set(slurm.run("squeue", "--noheader", "--states=all", "--format=%A").split()))


async def met(condition: Callable[[], bool], patience_s: float = 150.0) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, "never came"
        await asyncio.sleep(0.2)
