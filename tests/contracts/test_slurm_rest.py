"""A real slurmrestd tells the same jobs as Slurm's commands, over TCP with a token and over its socket."""

from __future__ import annotations

import asyncio
import hmac
import time
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from ingest.errors import SourceUnavailable
from ingest.jobs.commands import SlurmCommands
from ingest.jobs.entry import jobs_of
from ingest.jobs.rest import SlurmRest
from ingest.schema import Job
from tests.slurm import Slurm, running_slurm

pytestmark = pytest.mark.slow
SQUEUE, SACCT = ("squeue", "--states=all", "--json"), ("sacct", "--allusers", "--starttime=now-2days", "--json")
ENDS = {"running": "running", "waiting": "pending", "failed": "failed", "completed": "completed", "never": "cancelled"}


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    """Run a cluster."""
    with running_slurm() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def commands(slurm: Slurm) -> SlurmCommands:
    """Ask it by its commands."""
    return SlurmCommands(slurm.command(*SQUEUE), slurm.command(*SACCT), deadline_s=60.0)


@pytest.fixture(scope="module", params=["tcp", "socket"])
def rest(slurm: Slurm, request: pytest.FixtureRequest) -> SlurmRest:
    """Ask it through slurmrestd, in both ways."""
    if request.param == "socket":
        return SlurmRest(slurm.rest_socket, has_accounting=True, deadline_s=60.0)
    return SlurmRest(slurm.rest, user="root", token_file=token(slurm), has_accounting=True, deadline_s=60.0)


@pytest.fixture(scope="module")
def jobs(slurm: Slurm) -> dict[str, str]:
    """Submit jobs that run, wait, fail, complete and never start: what becomes of each = its id."""
    declared = "--comment=ckpt_s=600 ckpt=periodic elastic=1 tolerates_f=2 sync=tight"
    submitted = {
        "running": submit(slurm, "sleep 600", "--nodes=2", "--gres=gpu:8", declared),
        "waiting": submit(slurm, "true", "--hold"),
        "failed": submit(slurm, "exit 3", "--nodes=1", "--gres=gpu:2"),
        "completed": submit(slurm, "true", "--nodes=1", "--gres=gpu:2"),
        "never": submit(slurm, "true", "--nodes=4", "--exclusive"),  # accounting lists no job that was held until its end
    }
    slurm.run("scancel", submitted["never"])
    return submitted


def submit(slurm: Slurm, script: str, *options: str) -> str:
    """Submit a job: its id."""
    return slurm.run("sbatch", "--parsable", "--output=/dev/null", f"--wrap={script}", *options)


def token(slurm: Slurm) -> Path:
    """Write a token of root into a file, as `scontrol token` prints it."""
    file = slurm.directory / "token"
    file.write_text(slurm.run("scontrol", "token", "lifespan=3600"))
    return file


async def queue_of(slurm: SlurmCommands | SlurmRest) -> list[Job]:
    """Read the queue."""
    return sorted(jobs_of(await slurm.queue(), "c1", 0).jobs, key=lambda job: job.job_id)


async def ended_of(slurm: SlurmCommands | SlurmRest, *job_ids: str) -> list[Job]:
    """Read what accounting says of jobs."""
    return sorted((job for job in jobs_of(await slurm.ended(job_ids), "c1", 0).jobs if job.job_id in job_ids), key=lambda job: job.job_id)


async def until(states: dict[str, str], read: Callable[[], Awaitable[list[Job]]]) -> list[Job]:
    """Read until every job is in its state: what was read."""
    deadline = time.monotonic() + 120.0
    jobs = await read()
    while {job.job_id: job.state for job in jobs} != states:
        assert time.monotonic() < deadline, f"never came: {jobs}"
        await asyncio.sleep(0.5)
        jobs = await read()
    return jobs


async def test_the_queue(commands: SlurmCommands, rest: SlurmRest, jobs: dict[str, str]) -> None:
    """Jobs that run, wait and have ended: every field as the commands tell it."""
    expected = await until({jobs[name]: state for name, state in ENDS.items()}, lambda: queue_of(commands))
    assert await queue_of(rest) == expected


async def test_accounting(commands: SlurmCommands, rest: SlurmRest, jobs: dict[str, str]) -> None:
    """The jobs that are asked for end as sacct tells, no others are told, and one that nobody knows is none."""
    ended = {jobs[name]: ENDS[name] for name in ("failed", "completed", "never")}
    expected = await until(ended, lambda: ended_of(commands, *ended))
    assert await ended_of(rest, *ended) == expected
    assert {str(entry["job_id"]) for entry in await rest.ended([jobs["failed"]])} == {jobs["failed"]}
    assert await rest.ended(["999999"]) == []


@pytest.mark.parametrize("wrong", ["nothing", "no token", "foreign key", "expired", "other user"])
async def test_a_token_that_is_refused(slurm: Slurm, wrong: str) -> None:
    """No token, one that another key has signed, an old one and one of another user: refused, and told as that; else it is taken."""
    key = (slurm.directory / "etc" / "jwt_hs256.key").read_bytes()
    file = slurm.directory / "wrong-token"
    expires_s = int(time.time()) + (-60 if wrong == "expired" else 3600)
    file.write_text(
        signed(
            {"exp": expires_s, "iat": expires_s - 3600, "sun": "nobody" if wrong == "other user" else "root"},
            b"x" * 32 if wrong == "foreign key" else key,
        )
    )
    rest = SlurmRest(slurm.rest, user="root", token_file=None if wrong == "no token" else file, deadline_s=60.0)
    if wrong == "nothing":
        await rest.queue()
        return
    with pytest.raises(SourceUnavailable) as caught:
        await rest.queue()
    assert caught.value.state == "unauthorized"
    assert slurm.rest in caught.value.detail


def signed(claims: dict[str, object], key: bytes) -> str:
    """Write a token (RFC 7519, HS256)."""
    parts = [urlsafe_b64encode(msgspec.json.encode(part)).rstrip(b"=") for part in ({"alg": "HS256", "typ": "JWT"}, claims)]
    signature = hmac.digest(key, b".".join(parts), "sha256")
    return b".".join((*parts, urlsafe_b64encode(signature).rstrip(b"="))).decode()
