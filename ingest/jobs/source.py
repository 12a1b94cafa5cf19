"""The scheduler's jobs as records: said when something about them has changed.

Slurm is asked by its commands (`ingest/jobs/commands.py`) or through slurmrestd (`ingest/jobs/rest.py`). The queue tells the jobs that
are there, accounting, where it exists, how those ended that have left it. A job that left the queue and that accounting does not know is
said once more, as `unknown`; while accounting does not answer, such jobs wait and the queue's are told. A job that is in the queue
never becomes `unknown`, however little of it can be read; while there is one whose id cannot be read, it may be any that is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import msgspec
import structlog

from ingest.clock import Clock
from ingest.errors import SourceUnavailable
from ingest.jobs.entry import NAME, OPEN, Unreadable, jobs_of
from ingest.metrics import JOBS_UNREADABLE, READ_ERRORS
from ingest.schema import Job, Observed
from ingest.source import Pace

_log = structlog.get_logger()


class Slurm(Protocol):
    """A way to ask Slurm; its answers are what `ingest.jobs.entry.jobs_of` reads. Both calls raise SourceUnavailable."""

    @property
    def has_accounting(self) -> bool:
        """Whether `ended` may be asked."""

    async def queue(self) -> list[Any]:
        """List the jobs in the queue, of all users and in all states."""

    async def ended(self, job_ids: Collection[str]) -> list[Any]:
        """List what accounting knows of these jobs; other jobs may be listed too."""


class JobsSource:
    """All jobs of one cluster; `cluster` stands in the `node` column of its rows."""

    name = NAME
    pace = Pace.FLEET
    unheard = ()

    def __init__(self, cluster: str, slurm: Slurm, *, interval_s: float = 30.0, clock: Clock) -> None:
        self.interval_s = interval_s
        self._cluster = cluster
        self._slurm = slurm
        self._clock = clock
        self._said: dict[str, Job] = {}
        self._accounting = "ok"
        self._noted: dict[str, set[Unreadable]] = {}

    async def open(self) -> None:
        """Nothing to start: each read asks anew."""

    async def read(self, at_ns: int) -> list[Observed]:
        """Say the jobs that have changed; raises SourceUnavailable where Slurm does not answer."""
        queue = jobs_of(await self._slurm.queue(), self._cluster, at_ns, self._said)
        self._note("queue", queue.unreadable)
        seen = {job.job_id: job for job in queue.jobs}
        gone = {job_id: job for job_id, job in self._said.items() if job_id not in seen and job.state in OPEN}
        if gone and self._slurm.has_accounting:
            seen |= await self._ended(gone, at_ns)
        for job_id, job in gone.items():
            seen.setdefault(job_id, job if queue.has_nameless else msgspec.structs.replace(job, state="unknown"))
        seen = {job_id: self._completed(job) for job_id, job in seen.items()}
        received_at_ns = self._clock.now_ns()
        changed = [job for job in seen.values() if _without_times(job) != self._said.get(job.job_id)]
        self._said = {job_id: _without_times(job) for job_id, job in seen.items()}
        return [msgspec.structs.replace(job, observed_at_ns=at_ns, received_at_ns=received_at_ns) for job in changed]

    async def close(self) -> None:
        """Nothing to stop."""

    async def _ended(self, gone: dict[str, Job], at_ns: int) -> dict[str, Job]:
        """Ask how jobs ended; gives them as they were where accounting does not answer, to be asked for again."""
        try:
            entries = await self._slurm.ended(gone.keys())
        except SourceUnavailable as error:
            READ_ERRORS.labels(self.name, f"accounting_{error.state.partition('(')[0]}").inc()
            if self._accounting != error.state:
                _log.warning("slurm_accounting_unanswered", state=error.state, detail=error.detail, waiting=len(gone))
            self._accounting = error.state
            return gone
        self._accounting = "ok"
        said = {job_id: msgspec.structs.replace(job, state="unknown") for job_id, job in gone.items()}
        ended = jobs_of(entries, self._cluster, at_ns, said)
        self._note("accounting", [value for value in ended.unreadable if value.job_id in gone])
        return {job.job_id: job for job in sorted(ended.jobs, key=_submitted_at_ns) if job.job_id in gone}

    def _note(self, place: str, unreadable: Sequence[Unreadable]) -> None:
        """Count what could not be read, and say it when it is new."""
        for value in unreadable:
            JOBS_UNREADABLE.labels(value.field).inc()
        now = set(unreadable)
        for value in sorted(now - self._noted.get(place, set())):
            _log.warning("job_value_unreadable", place=place, job_id=value.job_id, field=value.field, why=value.why)
        self._noted[place] = now

    def _completed(self, job: Job) -> Job:
        """Keep the GPUs and restarts of a job that has ended: Slurm forgets the first with the allocation, accounting knows no restarts."""
        before = self._said.get(job.job_id)
        if before is None:
            return job
        gpus = before.gpus if job.gpus is None else job.gpus
        restarts = before.restarts if job.restarts is None else job.restarts
        return msgspec.structs.replace(job, gpus=gpus, restarts=restarts)


def _submitted_at_ns(job: Job) -> int:
    """Order the runs of a job that was queued again, each of which accounting may list: the newest is the job's end."""
    return job.submitted_at_ns or 0


def _without_times(job: Job) -> Job:
    return msgspec.structs.replace(job, observed_at_ns=0, received_at_ns=0)
