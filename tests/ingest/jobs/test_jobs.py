"""Jobs of Slurm arrive as records, whichever version said them and however it leaves a value blank."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.clock import NS, ManualClock
from ingest.collector import Collector
from ingest.errors import SourceUnavailable
from ingest.jobs.answer import entries_of
from ingest.jobs.commands import SlurmCommands
from ingest.jobs.entry import jobs_of
from ingest.jobs.hostlist import expand
from ingest.jobs.source import JobsSource
from ingest.schema import Job
from ingest.spool import Spool
from tests.ingest.test_collector import Scripted, after

AT = 1_750_000_000 * NS

# Shapes of `squeue --json` as measured on 22.05.8, and of the data parser v0.0.42 of 24.11.
OLD = {
    "job_id": 17,
    "job_state": "RUNNING",
    "nodes": "gpu[001-002]",
    "job_resources": {"allocated_nodes": [{"nodename": "gpu001"}, {"nodename": "gpu002"}]},
    "gres_detail": ["gpu:8(IDX:0-7)", "gpu:h100:8(IDX:0-7)"],
    "submit_time": 1_749_999_000,
    "start_time": 1_749_999_100,
    "end_time": 1_781_535_100,
    "restart_cnt": 1,
    "exit_code": 0,
    "comment": "ckpt_s=600 ckpt=periodic elastic=1 tolerates_f=2 sync=tight",
}
NEW = {
    "job_id": 18,
    "job_state": ["CANCELLED"],
    "nodes": "gpu003",
    "job_resources": {"nodes": {"count": 1, "allocation": [{"name": "gpu003"}]}},
    "gres_detail": [],
    "tres_alloc_str": "cpu=8,node=1,gres/gpu=8",
    "submit_time": {"set": True, "infinite": False, "number": 1_749_999_000},
    "start_time": {"set": True, "infinite": False, "number": 1_749_999_100},
    "end_time": {"set": True, "infinite": False, "number": 1_749_999_200},
    "restart_cnt": {"set": False, "infinite": False, "number": 0},
    "exit_code": {"status": ["SIGNALED"], "return_code": {"set": False, "infinite": False, "number": 0}},
    "comment": "",
}


def test_reads_a_job_of_22_05() -> None:
    """A running job of the old format: its nodes, GPUs, times and what its comment declares; a forecast end is no end."""
    assert jobs_of([OLD], "c1", AT).jobs == [
        Job(
            node="c1",
            source="slurm",
            observed_at_ns=AT,
            received_at_ns=AT,
            job_id="17",
            state="running",
            nodes=("gpu001", "gpu002"),
            gpus=16,
            submitted_at_ns=1_749_999_000 * NS,
            started_at_ns=1_749_999_100 * NS,
            restarts=1,
            checkpoint_interval_s=600.0,
            checkpoint_mode="periodic",
            is_elastic=True,
            tolerates_f=2,
            sync="tight",
        )
    ]


def test_reads_a_job_of_24_11() -> None:
    """A cancelled job of the new format: numbers in objects, state in a list, unset numbers missing."""
    (job,) = jobs_of([NEW], "c1", AT).jobs
    assert (job.state, job.nodes, job.gpus) == ("cancelled", ("gpu003",), 8)
    assert (job.ended_at_ns, job.restarts, job.exit_code) == (1_749_999_200 * NS, None, None)


def test_reads_what_a_real_slurm_said() -> None:
    """A capture of 22.05.8: jobs running, failed, completed, pending and cancelled before they started."""
    entries = entries_of((Path(__file__).parent / "slurm" / "squeue_22_05_8.json").read_bytes(), "squeue")
    found = {job.job_id: job for job in jobs_of(entries, "c1", AT).jobs}

    assert {job_id: (job.state, job.nodes, job.gpus, job.exit_code) for job_id, job in found.items()} == {
        "1": ("running", ("gpu001", "gpu002"), 16, None),
        "2": ("failed", ("gpu003",), None, 3),
        "3": ("completed", ("gpu003",), None, 0),
        "4": ("pending", (), None, None),
        "5": ("pending", (), None, None),
        "6": ("cancelled", (), None, None),
    }
    assert {job_id for job_id, job in found.items() if job.started_at_ns} == {"1", "2", "3"}
    assert (found["1"].checkpoint_interval_s, found["1"].tolerates_f) == (600.0, 1)


def test_blank_values_are_missing_and_a_broken_job_hides_no_other() -> None:
    """Slurm's blank numbers become None; an entry that cannot be read is left out alone."""
    (job,) = jobs_of([{"nodes": "x"}, OLD | {"restart_cnt": 4294967294, "start_time": 0}, {"job_id": 1}, None], "c1", AT).jobs
    assert (job.restarts, job.started_at_ns) == (None, None)


SUCCESS, KILLED_OLD = {"status": "SUCCESS", "return_code": 0}, {"status": "SIGNALED", "return_code": None, "signal": {"signal_id": 9}}
KILLED_NEW = {"status": ["SIGNALED"], "return_code": {"set": False, "number": 0}, "signal": {"id": {"set": True, "number": 9}}}


@pytest.mark.parametrize(
    ("state", "said", "code"),
    [
        ("COMPLETED", 0, 0),
        ("FAILED", 256, 1),  # 22.05's squeue gives what wait(2) gave
        ("FAILED", 9, 137),
        ("COMPLETED", SUCCESS, 0),
        ("FAILED", SUCCESS, None),  # what 22.05's sacct prints for the exit code 3
        ("NODE_FAIL", SUCCESS, None),
        ("FAILED", KILLED_OLD, 137),
        ("FAILED", KILLED_NEW, 137),
        ("FAILED", {"status": ["ERROR"], "return_code": {"set": True, "infinite": False, "number": 3}}, 3),
    ],
)
def test_reads_the_exit_code(state: str, said: object, code: int | None) -> None:
    """A number of wait(2), an object with code or signal, and a 0 that says nothing about a job that did not complete."""
    (job,) = jobs_of([OLD | {"job_state": state, "exit_code": said}], "c1", AT).jobs
    assert job.exit_code == code


def script(directory: Path, name: str, *answers: object) -> tuple[str, ...]:
    """Write a command that gives one answer after the other, then the last one again."""
    for number, answer in enumerate(answers):
        (directory / f"{name}.{number}").write_bytes(msgspec.json.encode(answer))
    program = directory / f"{name}.py"
    program.write_text(
        "import pathlib, sys\n"
        f"here = pathlib.Path({str(directory)!r})\n"
        f"count = here / '{name}.count'\n"
        "n = int(count.read_text()) if count.exists() else 0\n"
        "count.write_text(str(n + 1))\n"
        f"print((here / f'{name}.{{min(n, {len(answers) - 1})}}').read_text())\n"
    )
    return (sys.executable, str(program))


async def test_says_a_job_again_only_when_it_has_changed(tmp_path: Path) -> None:
    """The first read says the job, the second nothing, the third its new state; the GPUs that Slurm has forgotten by then are kept."""
    squeue = script(
        tmp_path, "squeue", {"jobs": [OLD]}, {"jobs": [OLD]}, {"jobs": [OLD | {"job_state": "COMPLETED", "end_time": 1_749_999_900}]}
    )
    source = JobsSource("c1", SlurmCommands(squeue), clock=ManualClock(AT))

    said = [[(job.gpus, job.state, job.observed_at_ns) for job in await source.read(AT + n * NS)] for n in range(3)]

    assert said == [[(16, "running", AT)], [], [(16, "completed", AT + 2 * NS)]]


async def test_accounting_says_how_a_job_ended_that_has_left_the_queue(tmp_path: Path) -> None:
    """A job that is gone from squeue ends as sacct says."""
    ended = {
        "job_id": 17,
        "state": {"current": ["NODE_FAIL"]},
        "time": {"start": 1_749_999_100, "end": 1_749_999_500},
        "nodes": "gpu[001-002]",
    }
    squeue = script(tmp_path, "squeue", {"jobs": [OLD]}, {"jobs": []})
    sacct = script(tmp_path, "sacct", {"jobs": [ended, ended | {"job_id": 3}]})
    source = JobsSource("c1", SlurmCommands(squeue, sacct), clock=ManualClock(AT))
    await source.read(AT)

    (job,) = await source.read(AT)

    assert (job.job_id, job.state, job.ended_at_ns, job.nodes) == ("17", "node_fail", 1_749_999_500 * NS, ("gpu001", "gpu002"))


async def test_while_accounting_is_away_new_jobs_are_told(tmp_path: Path) -> None:
    """The job that left the queue waits and ends as accounting says once it answers; the queue's jobs are told meanwhile."""
    squeue = script(tmp_path, "squeue", {"jobs": [OLD]}, {"jobs": [NEW]}, {"jobs": [NEW]})
    away = {"jobs": [], "errors": [{"error_number": 7000, "error": "Unable to connect to database"}]}
    sacct = script(tmp_path, "sacct", away, {"jobs": [{"job_id": 17, "state": {"current": ["COMPLETED"]}, "time": {"end": 1_749_999_500}}]})
    source = JobsSource("c1", SlurmCommands(squeue, sacct), clock=ManualClock(AT))
    said = [[(job.job_id, job.state) for job in await source.read(AT)] for _ in range(3)]
    assert said == [[("17", "running")], [("18", "cancelled")], [("17", "completed")]]


async def test_of_the_runs_of_a_job_the_newest_is_its_end(tmp_path: Path) -> None:
    """Accounting may list each run of a job that was queued again, in any order: the newest tells how it ended."""
    first = {"job_id": 17, "state": {"current": "NODE_FAIL"}, "time": {"submission": 1_749_999_000, "end": 1_749_999_500}}
    last = {"job_id": 17, "state": {"current": "CANCELLED"}, "time": {"submission": 1_749_999_500, "end": 1_749_999_900}}
    squeue = script(tmp_path, "squeue", {"jobs": [OLD]}, {"jobs": []})
    source = JobsSource("c1", SlurmCommands(squeue, script(tmp_path, "sacct", {"jobs": [last, first]})), clock=ManualClock(AT))
    await source.read(AT)

    (job,) = await source.read(AT)

    assert (job.state, job.ended_at_ns) == ("cancelled", 1_749_999_900 * NS)


async def test_a_job_that_nobody_knows_any_more_is_unknown(tmp_path: Path) -> None:
    """Without accounting a vanished job is said once as unknown: its nodes must not look busy for ever."""
    squeue = script(tmp_path, "squeue", {"jobs": [OLD]}, {"jobs": []})
    source = JobsSource("c1", SlurmCommands(squeue), clock=ManualClock(AT))
    said = [[job.state for job in await source.read(AT)] for _ in range(3)]
    assert said == [["running"], ["unknown"], []]


@pytest.mark.parametrize(
    ("command", "state"),
    [
        (("/nonexistent/squeue",), "unreachable"),
        ((sys.executable, "-c", "import sys; sys.exit('slurm_load_jobs error')"), "error(1)"),
        ((sys.executable, "-c", "print('{')"), "malformed"),
        ((sys.executable, "-c", "print('[' * 100_000)"), "malformed"),  # nested without end
        ((sys.executable, "-c", "print('{}')"), "malformed"),  # no list of jobs: not that there are none
        ((sys.executable, "-c", """print('{"jobs": [], "errors": [{"error_number": 1007, "error": "no"}]}')"""), "unauthorized"),
        ((sys.executable, "-c", """print('{"jobs": [], "errors": [{"errno": 2018, "error": "no"}]}')"""), "error(2018)"),
        ((sys.executable, "-c", "import threading; threading.Event().wait()"), "hung"),
    ],
)
async def test_a_scheduler_that_does_not_answer_is_a_state_of_the_source(command: tuple[str, ...], state: str) -> None:
    """Every way of not answering has its own state."""
    source = JobsSource("c1", SlurmCommands(command, deadline_s=0.5 if state == "hung" else 60.0), clock=ManualClock(AT))
    with pytest.raises(SourceUnavailable) as caught:
        await source.read(AT)
    assert caught.value.state == state


async def test_without_a_scheduler_nothing_else_suffers(tmp_path: Path) -> None:
    """Beside a scheduler that is not there another source is read on at its own pace; the absence is a state of this source alone."""
    stop = asyncio.Event()
    absent = JobsSource("c1", SlurmCommands(("/nonexistent/squeue",)), interval_s=10.0, clock=ManualClock(AT))
    other = Scripted("other", after(20, stop))
    spool = Spool(tmp_path)
    collector = Collector([absent, other], spool, clock=ManualClock(AT))
    await asyncio.wait_for(collector.run(stop), 20)
    taken = spool.take(100)
    spool.close()
    assert len(other.read_at) == 20
    assert sum(message.rows for message in taken if message.table == "gpu_samples") == 20
    assert {name: health.state for name, health in collector.health.items()} == {"slurm": "unreachable", "other": "ok"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu001", ["gpu001"]),
        ("gpu[001-003,010],login", ["gpu001", "gpu002", "gpu003", "gpu010", "login"]),
        ("r[1-2]n[08-09]", ["r1n08", "r1n09", "r2n08", "r2n09"]),
        ("", []),
    ],
)
def test_expands_host_lists(text: str, names: list[str]) -> None:
    """Ranges keep their leading zeros, several brackets multiply."""
    assert expand(text) == names


@given(st.text(alphabet="ab[]-,0123456789", max_size=30))
def test_a_broken_host_list_raises_nothing_else(text: str) -> None:
    """Whatever stands there, the answer is names or a ValueError."""
    with contextlib.suppress(ValueError):
        assert all(isinstance(name, str) for name in expand(text))
