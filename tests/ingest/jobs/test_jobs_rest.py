"""Slurm asked through slurmrestd: the same jobs as through its commands, and every way of not getting them is a state."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from ingest.clock import NS, ManualClock
from ingest.collector import Collector
from ingest.errors import SourceUnavailable
from ingest.jobs.answer import entries_of
from ingest.jobs.entry import jobs_of
from ingest.jobs.rest import SlurmRest
from ingest.jobs.source import JobsSource
from ingest.schema import Job
from ingest.spool import Spool
from tests.ingest.jobs.slurm_server import QUEUE, SLURM, Server, offered
from tests.ingest.test_collector import Scripted, after

AT = 1_750_000_000 * NS
REAL = SLURM / "rest_22_05_8"
RUNNING = {"job_id": 17, "job_state": ["RUNNING"], "nodes": "gpu001", "submit_time": 1_749_999_000, "start_time": 1_749_999_100}


def source_of(slurm: SlurmRest) -> JobsSource:
    return JobsSource("c1", slurm, clock=ManualClock(AT))


async def state_of(slurm: SlurmRest) -> SourceUnavailable:
    with pytest.raises(SourceUnavailable) as caught:
        await source_of(slurm).read(AT)
    return caught.value


@pytest.mark.parametrize("way", ["url", "socket"])
async def test_the_same_jobs_as_through_the_commands(server: Server, way: str) -> None:
    """Over TCP and over a socket, the answer that squeue printed is the same records."""
    said = await source_of(SlurmRest(getattr(server, way))).read(AT)
    assert said == jobs_of(entries_of(QUEUE, "squeue"), "c1", AT).jobs
    assert len(said) == 6


async def test_the_token_is_read_at_each_question(server: Server, tmp_path: Path) -> None:
    """What `scontrol token` prints is understood, and a token that was renewed is used at the next read, without a restart."""
    token = tmp_path / "token"
    source = source_of(SlurmRest(server.url, user="root", token_file=token))
    for text in ("SLURM_JWT=first.one.x\n", "second.one.x\n"):
        token.write_text(text)
        await source.read(AT)
    assert [headers["X-SLURM-USER-TOKEN"] for headers in server.headers] == ["first.one.x", "first.one.x", "second.one.x"]
    assert {headers["X-SLURM-USER-NAME"] for headers in server.headers} == {"root"}


async def test_without_a_token_none_is_sent(server: Server) -> None:
    """Over a socket the server knows who asks."""
    await source_of(SlurmRest(server.socket)).read(AT)
    assert server.headers == [{}, {}]


@pytest.mark.parametrize("text", [None, "", "two words", "l\N{LATIN SMALL LETTER E WITH ACUTE}a"])
async def test_a_file_without_a_token_is_named(server: Server, tmp_path: Path, text: str | None) -> None:
    """A token that is not there, or cannot be one, is told with its file and never sent."""
    file = tmp_path / "token"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    error = await state_of(SlurmRest(server.url, token_file=file))
    assert (error.state, str(file) in error.detail, server.asked) == ("no_token", True, [])


async def test_the_newest_version_that_is_known_is_taken_and_kept(server: Server) -> None:
    """The server says what it offers, once; a version that is newer than what is read here is left alone, and so are other paths."""
    paths = ("/slurm/v0.0.40/jobs/", "/slurm/v0.0.42/jobs/", "/slurm/v0.0.99/jobs/", "/slurm/v0.0.42/jobs/state/", "/slurm/v0.0.41/jobs/")
    server.answers = {"/openapi/v3": (200, offered(*paths)), "/slurm/v0.0.42/jobs/": (200, {"jobs": []})}
    source = source_of(SlurmRest(server.url))
    assert [await source.read(AT) for _ in range(2)] == [[], []]
    assert server.asked == ["/openapi/v3", "/slurm/v0.0.42/jobs/", "/slurm/v0.0.42/jobs/"]


async def test_a_server_that_was_upgraded_is_asked_anew(server: Server) -> None:
    """After a failed read the version is asked again."""
    source = source_of(SlurmRest(server.url))
    await source.read(AT)
    server.answers = {"/openapi/v3": (200, offered("/slurm/v0.0.41/jobs/")), "/slurm/v0.0.41/jobs/": (200, QUEUE)}
    with pytest.raises(SourceUnavailable, match=r"error\(404\)"):
        await source.read(AT)
    assert await source.read(AT) == []
    assert server.asked[-1] == "/slurm/v0.0.41/jobs/"


async def test_a_document_that_is_nested_without_end_is_malformed(server: Server) -> None:
    """It is unreadable like any other."""
    server.answers["/openapi/v3"] = (200, b"[" * 100_000)
    assert (await state_of(SlurmRest(server.url))).state == "malformed"


@pytest.mark.parametrize(
    ("document", "has_accounting", "told"),
    [
        (offered("/slurm/v0.0.36/jobs/", "/slurm/v0.0.99/jobs/"), False, "it offers jobs of v0.0.36, v0.0.99, accounting of none"),
        (offered("/slurm/v0.0.38/jobs/"), True, "it offers jobs of v0.0.38, accounting of none"),
        (offered("/slurm/v0.0.40/jobs/", "/slurmdb/v0.0.36/jobs/"), True, "it offers jobs of v0.0.40, accounting of v0.0.36"),
        ({"paths": []}, False, "it offers jobs of none, accounting of none"),
        ([], False, "it offers jobs of none, accounting of none"),
    ],
)
async def test_a_version_that_is_not_read_here_is_a_state(server: Server, document: Any, *, has_accounting: bool, told: str) -> None:
    """No version is tried that nobody knows, and the state says what is offered and what is wanted."""
    server.answers["/openapi/v3"] = (200, document)
    error = await state_of(SlurmRest(server.url, has_accounting=has_accounting))
    assert (error.state, server.asked) == ("unknown_version", ["/openapi/v3"])
    assert "are read in v0.0.38 to v0.0.42" in error.detail
    assert told in error.detail


# What slurmrestd of 22.05.8 and 24.11.5 answers to a wrong token.
WRONG_OLD = (500, (REAL / "wrong_token.json").read_bytes())
WRONG_NEW = (511, {"errors": [{"error_number": 1007, "error": "Protocol authentication error"}]})


@pytest.mark.parametrize(
    ("answer", "state", "told"),
    [
        ((401, b"Authentication failure"), "unauthorized", "Authentication failure"),
        (WRONG_OLD, "unauthorized", "Unspecified error"),
        (WRONG_NEW, "unauthorized", "Protocol authentication error"),
        ((500, {"errors": [{"error_number": 2018, "error": "Invalid node name specified"}]}), "error(2018)", "Invalid node name"),
        ((503, b"\xff"), "error(503)", "503"),
        ((302, b""), "error(302)", "302"),
        ((200, b"<html>"), "malformed", "JSON"),
        ((200, b"[" * 100_000), "malformed", "recursion"),
        ((500, b"[" * 100_000), "error(500)", "500"),
        ((200, {"errors": None}), "malformed", "no list of jobs"),
        ((200, {"jobs": None, "errors": [None]}), "malformed", "no list of jobs"),
    ],
)
async def test_a_refusal_is_a_state(server: Server, tmp_path: Path, answer: tuple[int, Any], state: str, told: str) -> None:
    """Refused tokens, errors of Slurm and answers of something else each have a state, with the address and the server's words."""
    (tmp_path / "token").write_text("a.b.c")
    server.answers["/slurm/v0.0.38/jobs/"] = answer
    error = await state_of(SlurmRest(server.url, token_file=tmp_path / "token"))
    assert error.state == state
    assert server.url in error.detail
    assert told in error.detail
    assert (f"renew the token of slurm in {tmp_path / 'token'}" in error.detail) == (state == "unauthorized")
    assert "\n" not in error.detail
    assert "/other" not in server.asked


async def test_an_answer_without_end_is_cut(server: Server) -> None:
    """No more is read than the bound, and what was read is not taken for the whole."""
    server.answers["/slurm/v0.0.38/jobs/"] = (200, QUEUE + b" " * 2**20)
    error = await state_of(SlurmRest(server.url, max_bytes=2**20))
    assert (error.state, "more than 1 MiB" in error.detail) == ("too_large", True)


async def test_a_server_that_hangs_is_given_up(server: Server) -> None:
    """A question has its deadline."""
    server.hangs = True
    error = await state_of(SlurmRest(server.url, deadline_s=0.3))
    assert (error.state, "no answer within 0.3 s" in error.detail) == ("hung", True)


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "unix:/nonexistent/socket", "http://:"])
async def test_a_server_that_is_away_is_a_state(address: str) -> None:
    """Nobody on the port, no socket, no address."""
    error = await state_of(SlurmRest(address))
    assert error.state == "unreachable"
    assert address in error.detail


async def test_accounting_is_asked_for_the_jobs_that_have_gone_alone(server: Server) -> None:
    """A job that left the queue ends as accounting says; one that accounting does not know is unknown."""
    queue, accounts = "/slurm/v0.0.38/jobs/", "/slurmdb/v0.0.38/jobs/"
    ended = {"job_id": 17, "state": {"current": "NODE_FAIL"}, "time": {"start": 1_749_999_100, "end": 1_749_999_500}, "nodes": "gpu001"}
    server.answers = {
        "/openapi/v3": (200, offered(queue, accounts)),
        queue: (200, {"jobs": [RUNNING, RUNNING | {"job_id": 18}, RUNNING | {"job_id": 19}]}),
        accounts: (200, {"jobs": [ended]}),
    }
    source = source_of(SlurmRest(server.url, has_accounting=True))
    await source.read(AT)
    server.answers[queue] = (200, {"jobs": [RUNNING | {"job_id": 19}]})

    said = [job for job in await source.read(AT) if isinstance(job, Job)]

    assert {job.job_id: (job.state, job.ended_at_ns) for job in said} == {"17": ("node_fail", 1_749_999_500 * NS), "18": ("unknown", None)}
    assert server.asked[-1] == f"{accounts}?step=17%2C18"  # 22.05 refuses a bare comma


def recorded(server: Server) -> JobsSource:
    """Let the server answer as slurmrestd of 22.05.8 did, and give a source with accounting."""
    names = {"/openapi/v3": "openapi", "/slurm/v0.0.38/jobs": "jobs", "/slurmdb/v0.0.38/jobs": "accounting_requeued"}
    server.answers = {path: (200, (REAL / f"{name}.json").read_bytes()) for path, name in names.items()}
    return source_of(SlurmRest(server.url, has_accounting=True))


async def test_what_a_real_slurmrestd_said_of_its_jobs(server: Server) -> None:
    """Of three versions the newest is asked; jobs that ran, failed, completed, waited and were cancelled after a restart."""
    said = [job for job in await recorded(server).read(AT) if isinstance(job, Job)]
    assert {job.job_id: (job.state, job.nodes, job.gpus, job.exit_code, job.restarts) for job in said} == {
        "1": ("running", ("gpu001", "gpu002"), 16, None, 0),
        "2": ("failed", ("gpu003",), 2, 3, 0),
        "3": ("completed", ("gpu003",), 2, 0, 0),
        "4": ("pending", (), None, None, 0),
        "5": ("cancelled", (), None, None, 1),
    }
    assert server.asked == ["/openapi/v3", "/slurm/v0.0.38/jobs"]


async def test_what_a_real_accounting_said(server: Server) -> None:
    """Of a job that was queued again and then cancelled both runs are listed: the newest is its end. One that nobody knows is no error."""
    source = recorded(server)
    server.answers["/slurm/v0.0.38/jobs"] = (200, {"jobs": [RUNNING | {"job_id": 5}]})
    await source.read(AT)
    server.answers["/slurm/v0.0.38/jobs"] = (200, {"jobs": [RUNNING]})
    said = {job.job_id: job.state for job in await source.read(AT) if isinstance(job, Job)}
    assert said == {"17": "running", "5": "cancelled"}
    server.answers["/slurm/v0.0.38/jobs"] = (200, {"jobs": []})
    server.answers["/slurmdb/v0.0.38/jobs"] = (200, (REAL / "accounting_empty.json").read_bytes())
    assert [job.state for job in await source.read(AT) if isinstance(job, Job)] == ["unknown"]


async def test_an_accounting_that_takes_no_tokens_says_so(server: Server) -> None:
    """Behind slurmrestd, which answers 200, slurmdbd refuses: nobody is told to have ended."""
    source = recorded(server)
    await source.read(AT)
    server.answers["/slurm/v0.0.38/jobs"] = (200, {"jobs": []})
    server.answers["/slurmdb/v0.0.38/jobs"] = (200, (REAL / "wrong_token_accounting.json").read_bytes())
    with capture_logs() as lines:
        assert await source.read(AT) == []
    assert lines[0]["state"] == "unauthorized"
    assert re.search(r"/slurmdb/v0.0.38/jobs: Protocol .*AuthAltTypes=auth/jwt", lines[0]["detail"])


async def test_many_jobs_that_have_gone_are_asked_for_in_parts(server: Server) -> None:
    """No address grows without bound; each job is asked for once."""
    accounts = "/slurmdb/v0.0.38/jobs/"
    server.answers |= {"/openapi/v3": (200, offered("/slurm/v0.0.38/jobs/", accounts)), accounts: (200, {"jobs": [RUNNING]})}
    ids = [str(number) for number in range(450)]
    assert len(await SlurmRest(server.url, has_accounting=True).ended(ids)) == 3
    asked = [path.partition("?step=")[2].split("%2C") for path in server.asked if "step" in path]
    assert ([len(part) for part in asked], [one for part in asked for one in part]) == ([200, 200, 50], ids)


async def test_without_a_server_nothing_else_suffers(server: Server, tmp_path: Path) -> None:
    """Beside a slurmrestd that hangs another source is read on at its own pace, and the state is this source's alone."""
    server.hangs = True
    stop = asyncio.Event()
    clock = ManualClock(AT)
    hung = JobsSource("c1", SlurmRest(server.url, deadline_s=0.2), interval_s=10.0, clock=clock)
    other = Scripted("other", after(20, stop))
    spool = Spool(tmp_path / "spool")
    collector = Collector([hung, other], spool, clock=clock)
    await asyncio.wait_for(collector.run(stop), 20)
    spool.close()
    assert len(other.read_at) == 20
    assert collector.health["other"].state == "ok"
    assert collector.health["slurm"].state != "ok"
