"""The scheduler's jobs as records: the one place that reads Slurm.

`squeue --json` tells the jobs that are there, `sacct --json` (where accounting exists) how those ended that have left the queue. Versions
differ: 22.05 gives plain numbers and one state, 24.11 `{"set", "infinite", "number"}` objects and lists; both are read here, and
4294967294 and 4294967295 are Slurm's own blanks. 22.05's sacct prints 0 for whatever exit code a job ended with, so that a 0 is an exit
code of completed jobs alone. A job is said when something about it has changed. A job that left the queue and that accounting does not
know is said once more, as `unknown`.

Ask for all states and users, and for more than the day so far: `squeue --states=all --json` and
`sacct --allusers --starttime=now-2days --json`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import structlog

from ingest.clock import NS, Clock
from ingest.errors import SourceUnavailable
from ingest.hostlist import expand
from ingest.metrics import RECORDS_REJECTED
from ingest.schema import Job, Observed
from ingest.source import Pace

NAME = "slurm"
_BLANKS = (4294967294, 4294967295)
_STATES = {
    "PENDING": "pending",
    "CONFIGURING": "pending",
    "REQUEUED": "pending",
    "REQUEUE_HOLD": "pending",
    "RUNNING": "running",
    "COMPLETING": "running",
    "SUSPENDED": "running",
    "STOPPED": "running",
    "COMPLETED": "completed",
    "FAILED": "failed",
    "NODE_FAIL": "node_fail",
    "BOOT_FAIL": "node_fail",
    "PREEMPTED": "preempted",
    "CANCELLED": "cancelled",
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "OUT_OF_MEMORY": "out_of_memory",
}
_OPEN = ("pending", "running")
_GPUS_IN_GRES = re.compile(r"gpu(?::[^:(,]+)?:(\d+)")
_GPUS_IN_TRES = re.compile(r"gres/gpu=(\d+)")
_log = structlog.get_logger()


class JobsSource:
    """All jobs of one cluster; `cluster` stands in the `node` column of its rows."""

    name = NAME
    pace = Pace.FLEET

    def __init__(
        self,
        cluster: str,
        *,
        squeue: Sequence[str] = ("squeue", "--states=all", "--json"),
        sacct: Sequence[str] | None = None,
        interval_s: float = 30.0,
        deadline_s: float = 20.0,
        clock: Clock,
    ) -> None:
        self.interval_s = interval_s
        self._cluster = cluster
        self._squeue = squeue
        self._sacct = sacct
        self._deadline_s = deadline_s
        self._clock = clock
        self._said: dict[str, Job] = {}

    async def open(self) -> None:
        """Nothing to start: each read asks anew."""

    async def read(self, at_ns: int) -> list[Observed]:
        """Say the jobs that have changed; raises SourceUnavailable where squeue does not answer."""
        seen = {job.job_id: job for job in jobs_of(await self._ask(self._squeue), self._cluster, at_ns)}
        gone = [job for job_id, job in self._said.items() if job_id not in seen and job.state in _OPEN]
        if gone and self._sacct:
            ended = jobs_of(await self._ask(self._sacct), self._cluster, at_ns)
            known = {job.job_id for job in gone}
            seen |= {job.job_id: job for job in ended if job.job_id in known}
        for job in gone:
            seen.setdefault(job.job_id, msgspec.structs.replace(job, state="unknown"))
        seen = {job_id: self._completed(job) for job_id, job in seen.items()}
        received_at_ns = self._clock.now_ns()
        changed = [job for job in seen.values() if _without_times(job) != self._said.get(job.job_id)]
        self._said = {job_id: _without_times(job) for job_id, job in seen.items()}
        return [msgspec.structs.replace(job, observed_at_ns=at_ns, received_at_ns=received_at_ns) for job in changed]

    async def close(self) -> None:
        """Nothing to stop."""

    def _completed(self, job: Job) -> Job:
        """Keep the GPUs and restarts of a job that has ended: Slurm forgets the first with the allocation, accounting knows no restarts."""
        before = self._said.get(job.job_id)
        if before is None:
            return job
        gpus = before.gpus if job.gpus is None else job.gpus
        restarts = before.restarts if job.restarts is None else job.restarts
        return msgspec.structs.replace(job, gpus=gpus, restarts=restarts)

    async def _ask(self, command: Sequence[str]) -> Mapping[str, Any]:
        """Run one command of Slurm and read its JSON."""
        try:
            process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        except OSError as error:
            raise SourceUnavailable("unreachable", f"{command[0]}: {error.strerror}") from error
        try:
            output, complaint = await asyncio.wait_for(process.communicate(), self._deadline_s)
        except TimeoutError as error:
            raise SourceUnavailable("hung", f"{command[0]}: no answer within {self._deadline_s} s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise SourceUnavailable(f"error({process.returncode})", complaint.decode(errors="replace").strip()[:200])
        try:
            answer = msgspec.json.decode(output)
        except msgspec.DecodeError as error:
            raise SourceUnavailable("malformed", f"{command[0]}: {error}") from error
        return answer if isinstance(answer, dict) else {}


def jobs_of(answer: Mapping[str, Any], cluster: str, at_ns: int) -> list[Job]:
    """Read the jobs of an answer of squeue or sacct; one that cannot be read is counted and left out."""
    jobs = []
    for entry in answer.get("jobs") or ():
        try:
            jobs.append(_job(entry, cluster, at_ns))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            RECORDS_REJECTED.labels(NAME, "malformed").inc()
            _log.warning("job_rejected", error=f"{type(error).__name__}: {error}")
    return jobs


def _job(entry: Mapping[str, Any], cluster: str, at_ns: int) -> Job:
    state = _state(entry)
    times = entry.get("time") or {}
    nodes = tuple(_nodes(entry))
    ended = None if state in _OPEN else _at_ns(entry.get("end_time", times.get("end")))
    return Job(
        node=cluster,
        observed_at_ns=at_ns,
        received_at_ns=at_ns,
        source=NAME,
        job_id=str(entry["job_id"]),
        state=state,
        nodes=nodes,
        gpus=_gpus(entry),
        submitted_at_ns=_at_ns(entry.get("submit_time", times.get("submission"))),
        started_at_ns=None if state == "pending" or not nodes else _at_ns(entry.get("start_time", times.get("start"))),
        ended_at_ns=ended,
        exit_code=None if state in _OPEN else _exit_code(entry.get("exit_code"), state),
        restarts=_number(entry.get("restart_cnt")),
        **_declared(entry.get("comment")),
    )


def _state(entry: Mapping[str, Any]) -> str:
    given = entry["job_state"] if "job_state" in entry else entry["state"]["current"]
    names = [given] if isinstance(given, str) else list(given)
    known = [_STATES[name] for name in names if name in _STATES]
    return known[0] if known else "unknown"


def _number(value: Any) -> int | None:
    """Read a number of either version; None where Slurm leaves it blank."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    return None if value is None or value in _BLANKS else int(value)


def _at_ns(value: Any) -> int | None:
    seconds = _number(value)
    return seconds * NS if seconds else None


def _exit_code(value: Any, state: str) -> int | None:
    """Read an exit code; 128 and the number of the signal for a job that a signal ended."""
    if isinstance(value, dict):
        signal = value.get("signal") or {}
        code, number = _number(value.get("return_code")), _number(signal.get("signal_id", signal.get("id")))
        code = code or (128 + number if number else code)
    else:
        status = _number(value)  # as wait(2) gives it: the code in the second byte, or a signal in the first
        code = None if status is None else status >> 8 if status > 255 else 128 + status if status else 0
    return None if code == 0 and state != "completed" else code


def _nodes(entry: Mapping[str, Any]) -> Iterator[str]:
    resources = entry.get("job_resources") or {}
    nodes = resources.get("nodes")
    allocated = (nodes.get("allocation") if isinstance(nodes, dict) else None) or resources.get("allocated_nodes") or ()
    named = [str(node.get("nodename") or node["name"]) for node in _values(allocated)]
    text = entry.get("nodes")
    yield from named or (expand(text) if isinstance(text, str) and text not in ("None assigned", "None") else ())


def _values(allocated: Any) -> Iterable[Mapping[str, Any]]:
    return allocated.values() if isinstance(allocated, dict) else allocated


def _gpus(entry: Mapping[str, Any]) -> int | None:
    detail = " ".join(entry.get("gres_detail") or ())
    if found := _GPUS_IN_GRES.findall(detail):
        return sum(map(int, found))
    if found := _GPUS_IN_TRES.findall(entry.get("tres_alloc_str") or ""):
        return int(found[0])
    for tres in (entry.get("tres") or {}).get("allocated") or ():
        if tres.get("type") == "gres" and tres.get("name") == "gpu":
            return _number(tres.get("count"))
    return None


def _declared(comment: Any) -> dict[str, Any]:
    """Read what a job says about itself in its comment: `ckpt_s=600 ckpt=periodic elastic=1 tolerates_f=1 sync=tight`."""
    text = comment.get("job") if isinstance(comment, dict) else comment
    words = dict(re.findall(r"(\w+)=([^\s,;]+)", text or ""))
    declared: dict[str, Any] = {"checkpoint_mode": words.get("ckpt"), "sync": words.get("sync")}
    if "ckpt_s" in words:
        declared["checkpoint_interval_s"] = float(words["ckpt_s"])
    if "elastic" in words:
        declared["is_elastic"] = words["elastic"] in ("1", "true", "yes")
    if "tolerates_f" in words:
        declared["tolerates_f"] = int(words["tolerates_f"])
    return declared


def _without_times(job: Job) -> Job:
    return msgspec.structs.replace(job, observed_at_ns=0, received_at_ns=0)
