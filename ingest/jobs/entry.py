"""One job of an answer as a record, read value by value: one that cannot be read costs neither the job nor another job.

Versions differ: 22.05 gives plain numbers and one state, 24.11 `{"set", "infinite", "number"}` objects and lists; both are read here, and
4294967294 and 4294967295 are Slurm's own blanks. 22.05's accounting gives 0 for whatever exit code a job ended with, so that a 0 is an
exit code of completed jobs alone. Of a value that cannot be read, or is outside what can be, what was said of the job before is kept;
a declaration that cannot be read is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from ingest.clock import NS
from ingest.jobs.declared import DECLARATIONS, words_of
from ingest.jobs.hostlist import LONGEST_NAME, MOST_HOSTS, expand
from ingest.schema import Job

NAME = "slurm"
OPEN = ("pending", "running")
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
_TIMES_S = (946_684_800, 7_258_118_399)  # 2000 to 2199
_MOST_GPUS = 10_000_000
_MOST_RESTARTS = 1_000_000
_MOST_CODE = 65_535
_NO_NODES = ("", "None assigned", "None", "(null)")
_GPUS_IN_GRES = re.compile(r"gpu(?::[^:(,]+)?:(\d+)")
_GPUS_IN_TRES = re.compile(r"gres/gpu=(\d+)")
_JOB_ID = re.compile(r"[\w.+\[\]%,:-]{1,100}", re.ASCII)
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_T = TypeVar("_T")


class Unreadable(NamedTuple):
    """A value that could not be read: of which job (empty where its id is it), the field of its record, and why."""

    job_id: str
    field: str
    why: str


class Reading(NamedTuple):
    """A job, None where its id cannot be read, or its state and nothing was said of it before; and what could not be read."""

    job: Job | None
    unreadable: tuple[Unreadable, ...]


def read_job(entry: Any, cluster: str, at_ns: int, said: Mapping[str, Job]) -> Reading:
    """Read one job of an answer; `said` is what was said of jobs before."""
    try:
        job_id = _job_id(entry)
    except _UNREADABLE as error:
        return Reading(None, (Unreadable("", "job_id", _why(error)),))
    before = said.get(job_id)
    blank = Job(node=cluster, observed_at_ns=at_ns, received_at_ns=at_ns, source=NAME, job_id=job_id, state="")
    reader = _Reader(entry, before or blank)
    job = reader.job(blank)
    return Reading(job if job.state else None, tuple(reader.unreadable))


class Jobs(NamedTuple):
    """The jobs of an answer, and what could not be read in it."""

    jobs: list[Job]
    unreadable: list[Unreadable]

    @property
    def has_nameless(self) -> bool:
        """Tell whether there is a job of which nobody knows which it is."""
        return any(not value.job_id for value in self.unreadable)


def jobs_of(entries: Iterable[Any], cluster: str, at_ns: int, said: Mapping[str, Job] | None = None) -> Jobs:
    """Read the jobs of an answer, each for itself."""
    readings = [read_job(entry, cluster, at_ns, said or {}) for entry in entries]
    return Jobs([reading.job for reading in readings if reading.job], [value for reading in readings for value in reading.unreadable])


class _Reader:
    """Reads the values of one entry and notes those that cannot be read; what was said before stands in."""

    def __init__(self, entry: Mapping[str, Any], before: Job) -> None:
        self.unreadable: list[Unreadable] = []
        self._entry = entry
        self._before = before

    def job(self, blank: Job) -> Job:
        before = self._before
        state = self._read("state", _state, before.state)
        nodes = self._read("nodes", partial(_nodes, state), before.nodes)
        has_begun = state != "pending" and bool(nodes or self._noted("nodes"))
        has_ended = state not in OPEN
        return msgspec.structs.replace(
            blank,
            state=state,
            nodes=nodes,
            gpus=self._read("gpus", _gpus, before.gpus),
            submitted_at_ns=self._read("submitted_at_ns", _time("submit_time", "time.submission"), before.submitted_at_ns),
            started_at_ns=self._read("started_at_ns", _time("start_time", "time.start"), before.started_at_ns) if has_begun else None,
            ended_at_ns=self._read("ended_at_ns", _time("end_time", "time.end"), before.ended_at_ns) if has_ended else None,
            exit_code=self._read("exit_code", _exit_code(state), before.exit_code) if has_ended else None,
            restarts=self._read("restarts", _restarts, before.restarts),
            **self._declared(),
        )

    def _declared(self) -> dict[str, Any]:
        words: dict[str, str] = self._read("comment", lambda entry: words_of(entry.get("comment")), {})
        read: dict[str, Any] = {}
        for word, text in words.items():
            field, of = DECLARATIONS[word]
            read[field] = self._read(field, partial(_word, of, text), None)
        return read

    def _read(self, field: str, value_of: Callable[[Mapping[str, Any]], _T], otherwise: _T) -> _T:
        try:
            return value_of(self._entry)
        except _UNREADABLE as error:
            self.unreadable.append(Unreadable(self._before.job_id, field, _why(error)))
            return otherwise

    def _noted(self, field: str) -> bool:
        return any(noted.field == field for noted in self.unreadable)


def _word(of: Callable[[str], Any], text: str, _: Mapping[str, Any]) -> Any:
    return of(text)


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:160]


def _at(entry: Mapping[str, Any], *paths: str) -> Any:
    """Find a value where any version has it; raises AttributeError where something else stands in the way."""
    for path in paths:
        value: Any = entry
        for key in path.split("."):
            value = None if value is None else value.get(key)
        if value is not None:
            return value
    return None


def _job_id(entry: Mapping[str, Any]) -> str:
    job_id = entry["job_id"]
    if isinstance(job_id, bool) or not isinstance(job_id, int | str) or not _JOB_ID.fullmatch(str(job_id)):
        raise ValueError(f"not the id of a job: {type(job_id).__name__}")
    return str(job_id)


def _state(entry: Mapping[str, Any]) -> str:
    given = _at(entry, "job_state", "state.current")
    names = given if isinstance(given, list) else [given]
    known = [_STATES[name] for name in names if isinstance(name, str) and name in _STATES]
    if not known:
        raise ValueError(f"no state that is known: {', '.join(name for name in names if isinstance(name, str))}")
    return known[0]


def _number(value: Any, most: int, least: int = 0) -> int | None:
    """Read a number of either version; None where Slurm leaves it blank; raises ValueError outside its bounds."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    if value is None or value in _BLANKS:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{type(value).__name__} that is no number of {least} to {most}")
    return value


def _time(*paths: str) -> Callable[[Mapping[str, Any]], int | None]:
    """Read a time in seconds, of which 0 is none; as nanoseconds."""

    def read(entry: Mapping[str, Any]) -> int | None:
        seconds = _number(_at(entry, *paths), _TIMES_S[1])
        if seconds and seconds < _TIMES_S[0]:
            raise ValueError("a time before 2000")
        return seconds * NS if seconds else None

    return read


def _restarts(entry: Mapping[str, Any]) -> int | None:
    return _number(entry.get("restart_cnt"), _MOST_RESTARTS)


def _exit_code(state: str) -> Callable[[Mapping[str, Any]], int | None]:
    """Read an exit code; 128 and the number of the signal for a job that a signal ended."""

    def read(entry: Mapping[str, Any]) -> int | None:
        value = entry.get("exit_code")
        if isinstance(value, dict):
            code = _number(_at(value, "return_code"), _MOST_CODE)
            signal = _number(_at(value, "signal.signal_id", "signal.id"), _MOST_CODE)
            code = code or (128 + signal if signal else code)
        else:
            status = _number(value, _MOST_CODE)  # as wait(2) gives it: the code in the second byte, or a signal in the first
            code = None if status is None else status >> 8 if status > 255 else 128 + status if status else 0
        return None if code == 0 and state != "completed" else code

    return read


def _nodes(state: str, entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the nodes, by the allocation; where there is none, or it cannot be read, by the host list."""
    text = entry.get("nodes")
    hosts = text if isinstance(text, str) and text not in _NO_NODES else None
    try:
        named = _allocated(entry)
    except _UNREADABLE:
        if hosts is None:
            raise
        named = ()
    named = named or tuple(expand(hosts) if hosts else ())
    if not named and (state == "running" or not isinstance(text, str | None)):
        raise ValueError("no nodes where some are due")
    return named


def _allocated(entry: Mapping[str, Any]) -> tuple[str, ...]:
    resources = entry.get("job_resources") or {}
    nodes = resources.get("nodes")
    allocated = (nodes.get("allocation") if isinstance(nodes, dict) else None) or resources.get("allocated_nodes") or ()
    names = [node.get("nodename") or node["name"] for node in _values(allocated)]
    if len(names) > MOST_HOSTS or not all(isinstance(name, str) and 0 < len(name) <= LONGEST_NAME for name in names):
        raise ValueError(f"an allocation that is not at most {MOST_HOSTS} names")
    return tuple(names)


def _values(allocated: Any) -> Iterable[Mapping[str, Any]]:
    return allocated.values() if isinstance(allocated, dict) else allocated


def _gpus(entry: Mapping[str, Any]) -> int | None:
    detail = " ".join(entry.get("gres_detail") or ())
    if found := _GPUS_IN_GRES.findall(detail):
        return _number(sum(map(int, found)), _MOST_GPUS)
    if found := _GPUS_IN_TRES.findall(entry.get("tres_alloc_str") or ""):
        return _number(int(found[0]), _MOST_GPUS)
    for tres in _at(entry, "tres.allocated") or ():
        if tres.get("type") == "gres" and tres.get("name") == "gpu":
            return _number(tres.get("count"), _MOST_GPUS)
    return None
