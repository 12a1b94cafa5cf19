"""What Slurm says of its jobs as records, the same by whichever way it was asked.

Versions differ: 22.05 gives plain numbers and one state, 24.11 `{"set", "infinite", "number"}` objects and lists; both are read here, and
4294967294 and 4294967295 are Slurm's own blanks. 22.05's accounting gives 0 for whatever exit code a job ended with, so that a 0 is an
exit code of completed jobs alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import structlog

from ingest.clock import NS
from ingest.errors import SourceUnavailable
from ingest.jobs.hostlist import expand
from ingest.metrics import RECORDS_REJECTED
from ingest.schema import Job

NAME = "slurm"
MAX_ANSWER_BYTES = 128 * 2**20  # 6 kB are a job of 24.11
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
OPEN = ("pending", "running")
_GPUS_IN_GRES = re.compile(r"gpu(?::[^:(,]+)?:(\d+)")
_GPUS_IN_TRES = re.compile(r"gres/gpu=(\d+)")
_NOTHING_FOUND = 9003  # ESLURM_REST_EMPTY_RESULT: accounting's way to say that it has no such job
_REFUSED = 1007  # ESLURM_PROTOCOL_AUTHENTICATION_ERROR
_log = structlog.get_logger()


def entries_of(text: bytes | bytearray, who: str) -> list[Any]:
    """Give the jobs of an answer as Slurm prints them; raises SourceUnavailable where it is an error or has no list of jobs."""
    answer = decode(text, who)
    complaint = complaint_of(answer)
    if complaint.number == _NOTHING_FOUND:
        return []
    if complaint.number == _REFUSED:
        mend = "whom slurmctld or slurmdbd refuses; for tokens both need AuthAltTypes=auth/jwt"
        raise SourceUnavailable("unauthorized", f"{who}: {complaint.text}: {mend}")
    if complaint.number:
        raise SourceUnavailable(f"error({complaint.number})", f"{who}: {complaint.text}")
    jobs = answer.get("jobs") if isinstance(answer, dict) else None
    if not isinstance(jobs, list):  # no jobs are an empty list: a list that is missing must not end every job
        raise SourceUnavailable("malformed", f"{who}: the answer has no list of jobs")
    return jobs


def decode(text: bytes | bytearray, who: str) -> Any:
    """Read JSON; raises SourceUnavailable where it is none. What is no UTF-8 is a character in somebody's comment, and is replaced."""
    try:
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            mended = text.decode(errors="replace").encode()
            if mended == text:
                raise
        return msgspec.json.decode(mended)
    except (msgspec.DecodeError, RecursionError) as error:  # RecursionError: nested too deep
        raise SourceUnavailable("malformed", f"{who}: {error}") from error


def too_large(who: str, max_bytes: int) -> SourceUnavailable:
    """Say that an answer is longer than is read."""
    return SourceUnavailable("too_large", f"{who}: more than {max_bytes / 2**20:g} MiB: lower Slurm's MinJobAge")


class Complaint(NamedTuple):
    """The first error of an answer: Slurm's number, 0 for none, and its words."""

    number: int
    text: str


def complaint_of(answer: Any) -> Complaint:
    """Find the first error of an answer; 24.11 also lists errors of the number 0, which are none."""
    errors = answer.get("errors") if isinstance(answer, dict) else None
    for error in errors if isinstance(errors, list) else ():
        number = error.get("error_number", error.get("errno")) if isinstance(error, dict) else None
        if isinstance(number, int) and number:
            words = [error[key] for key in ("description", "error") if error.get(key) and isinstance(error[key], str)]
            return Complaint(number, ": ".join(words)[:200])
    return Complaint(0, "")


def jobs_of(entries: Iterable[Any], cluster: str, at_ns: int) -> list[Job]:
    """Read the jobs of an answer; one that cannot be read is counted and left out."""
    jobs = []
    for entry in entries:
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
    ended = None if state in OPEN else _at_ns(entry.get("end_time", times.get("end")))
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
        exit_code=None if state in OPEN else _exit_code(entry.get("exit_code"), state),
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
