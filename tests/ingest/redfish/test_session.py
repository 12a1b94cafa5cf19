"""Requests to a BMC: who is asked, with which credentials, and what is refused before it is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from emulators.bmc.certificates import Authority, server_context
from emulators.bmc.faults import HTML, NO_SESSION_LEFT, Rule
from ingest.redfish.outcomes import Outcome, Refused
from ingest.redfish.session import BmcSession
from ingest.redfish.target import RedfishTarget

ROOT = "/redfish/v1"


@pytest.fixture
async def sessions() -> AsyncIterator[Any]:
    """Open sessions that are closed after the test."""
    made: list[BmcSession] = []

    def make(target: RedfishTarget, **options: Any) -> BmcSession:
        made.append(
            BmcSession(target, **{"connecting": asyncio.Semaphore(4), "answer_timeout_s": 2.0, "login_interval_s": 30.0, **options})
        )
        return made[-1]

    yield make
    for session in made:
        await session.close()


async def refused(session: BmcSession, path: str = ROOT) -> Refused:
    with pytest.raises(Refused) as refusal:
        await session.get(path)
    return refusal.value


def logins(bmc: Any) -> int:
    return sum(seen.method == "POST" for seen in bmc.seen)


async def test_one_session_serves_all_requests(rig: Any, sessions: Any) -> None:
    """Requests at the same time share one login."""
    bmc = await rig.serve()
    session = sessions(rig.target())
    bodies = await asyncio.gather(*(session.get(ROOT) for _ in range(5)))
    assert {body["UUID"] for body in bodies} == {bmc.tree.uuid}
    assert logins(bmc) == 1


async def test_expired_session_costs_one_login_and_never_a_loop(rig: Any, sessions: Any) -> None:
    """Case 37: a 401 is answered by one login and one repetition; a second 401 is an answer. The old session is deleted."""
    bmc = await rig.serve()
    session = sessions(rig.target())
    await session.get(ROOT)
    bmc.accounts.sessions.clear()
    await session.get(f"{ROOT}/Systems")
    assert logins(bmc) == 2
    assert [seen.target for seen in bmc.seen if seen.method == "DELETE"] == [f"{ROOT}/SessionService/Sessions/1"]
    bmc.faults.rules.append(Rule(f"{ROOT}/Systems", 401))
    assert (await refused(session, f"{ROOT}/Systems")).outcome is Outcome.UNAUTHORIZED
    assert logins(bmc) == 3


async def test_refused_login_is_not_repeated_for_a_while(rig: Any, sessions: Any) -> None:
    """After a login that was refused, requests are refused with the same reason without asking the BMC."""
    bmc = await rig.serve()
    session = sessions(rig.target(password="wrong"))
    assert [(await refused(session)).outcome for _ in range(3)] == [Outcome.UNAUTHORIZED] * 3
    assert logins(bmc) == 1


async def test_basic_authentication_only_where_it_is_allowed(rig: Any, sessions: Any) -> None:
    """A BMC without a session to give is asked with Basic authentication if the configuration allows it, and else left alone."""
    bmc = await rig.serve(
        setup=lambda bmc: bmc.faults.rules.append(Rule(f"{ROOT}/SessionService/Sessions", 503, NO_SESSION_LEFT, method="POST"))
    )
    assert (await refused(sessions(rig.target()))).outcome is Outcome.LIMIT
    body = await sessions(rig.target(allows_basic=True)).get(f"{ROOT}/Systems")
    assert body["Members@odata.count"] == 1
    assert bmc.seen[-1].headers["Authorization"].startswith("Basic ")


async def test_page_instead_of_json_is_refused(rig: Any, sessions: Any) -> None:
    """A login page with status 200, a body that is no JSON, and a redirect are not read."""
    bmc = await rig.serve()
    session = sessions(rig.target())
    await session.get(ROOT)
    for rule, outcome in (
        (Rule("*/Systems", 200, HTML, content_type="text/html"), Outcome.WRONG_TYPE),
        (Rule("*/Systems", 200, b"{not json"), Outcome.WRONG_TYPE),
        (Rule("*/Systems", 200, b"[1]"), Outcome.WRONG_TYPE),
        (Rule("*/Systems", 302, b"", headers={"Location": "https://elsewhere.example.com/"}), Outcome.TRANSIENT),
    ):
        bmc.faults.rules = [rule]
        assert (await refused(session, f"{ROOT}/Systems")).outcome is outcome


async def test_body_without_end_is_cut_off(rig: Any, sessions: Any) -> None:
    """A body beyond 16 MiB is refused."""
    bmc = await rig.serve()
    session = sessions(rig.target())
    await session.get(ROOT)
    bmc.faults.rules = [Rule("*/Systems", 200, b'"' + b"x" * (17 * 1024 * 1024) + b'"')]
    assert (await refused(session, f"{ROOT}/Systems")).outcome is Outcome.WRONG_TYPE


@pytest.mark.parametrize("link", ["https://elsewhere.example.com/redfish/v1", "//elsewhere.example.com/redfish/v1"])
async def test_link_to_another_origin_is_not_followed(rig: Any, sessions: Any, link: str) -> None:
    """Credentials go to the configured origin and nowhere else."""
    bmc = await rig.serve()
    assert (await refused(sessions(rig.target()), link)).outcome is Outcome.WRONG_TYPE
    assert list(bmc.seen) == []


async def test_ids_with_a_hash_are_escaped(rig: Any, sessions: Any) -> None:
    """A `#` inside an id is part of the path, not the start of a fragment."""
    bmc = await rig.serve()
    await refused(sessions(rig.target()), f"{ROOT}/Chassis/C/Sensors/iDRAC.Embedded.1#GPUTemp31")
    assert bmc.seen[-1].target == f"{ROOT}/Chassis/C/Sensors/iDRAC.Embedded.1%23GPUTemp31"


async def test_answer_that_does_not_come_is_unreachable(rig: Any, sessions: Any) -> None:
    """A BMC that accepts and says nothing is unreachable after the deadline, and says so without credentials."""
    bmc = await rig.serve()
    session = sessions(rig.target(), answer_timeout_s=0.2)
    await session.get(ROOT)
    bmc.faults.rules.append(Rule("*", 200, latency_s=30.0))
    refusal = await refused(session)
    assert (refusal.outcome, refusal.state, refusal.detail) == (Outcome.UNREACHABLE, "unreachable", "TimeoutError")


async def test_password_is_in_no_text(rig: Any) -> None:
    """A target's text does not tell its password."""
    await rig.serve()
    assert "forewarn-test" not in repr(rig.target())


async def test_tls_is_verified(rig: Any, sessions: Any, tmp_path: Path) -> None:
    """A BMC's certificate is checked for issuer, host and date; a renewed one is taken at the next connection."""
    authority = Authority(tmp_path, datetime.now(UTC)).create()
    other = Authority(tmp_path / "other", datetime.now(UTC))
    other.folder.mkdir()
    other.create()
    await rig.serve(tls=server_context(authority.issue()))
    assert (await sessions(rig.target(ca=authority.path)).get(ROOT))["Id"] == "RootService"
    assert (await refused(sessions(rig.target(ca=other.path)))).detail == "ClientConnectorCertificateError"
    assert (await sessions(rig.target(verify=False)).get(ROOT))["Id"] == "RootService"
    await rig.serve(tls=server_context(authority.issue("bmc.example.com")))
    assert (await refused(sessions(rig.target(ca=authority.path)))).outcome is Outcome.UNREACHABLE
    expired = server_context(authority.issue(days=-1))
    await rig.serve(tls=expired)
    session = sessions(rig.target(ca=authority.path))
    assert (await refused(session)).outcome is Outcome.UNREACHABLE
    expired.load_cert_chain(authority.issue())
    assert (await session.get(ROOT))["Id"] == "RootService"


async def test_connections_under_way_are_bounded(rig: Any, sessions: Any) -> None:
    """A slot of the process's bound is free again after every connection, made or failed."""
    await rig.serve()
    connecting = asyncio.Semaphore(1)
    await sessions(rig.target(), connecting=connecting).get(ROOT)
    dead = sessions(RedfishTarget(url="http://127.0.0.1:1", username="u", password="p"), connecting=connecting)
    assert (await refused(dead)).outcome is Outcome.UNREACHABLE
    assert not connecting.locked()
    await sessions(rig.target(), connecting=connecting).get(ROOT)


@pytest.mark.parametrize("link", ["redfish/v1/Systems", ".example.com/redfish/v1", "@elsewhere.example.com/", "http://[", "//["])
async def test_link_that_is_no_path_is_not_followed(rig: Any, sessions: Any, link: str) -> None:
    """A link that would change the host when it is put behind the origin, or that is none, is refused unasked."""
    bmc = await rig.serve()
    assert (await refused(sessions(rig.target()), link)).outcome is Outcome.WRONG_TYPE
    assert list(bmc.seen) == []


@pytest.mark.parametrize("last_id", ["a\x0bb", "a\x00b", "a\r\nX-Auth-Token: b", "\x7f", "\ud800", "x" * 100_000])
async def test_id_that_no_header_holds_is_not_told(rig: Any, sessions: Any, last_id: str) -> None:
    """A stream is opened also after an event whose id cannot be told."""
    bmc = await rig.serve()
    async with sessions(rig.target()).stream(f"{ROOT}/EventService/SSE", last_event_id=last_id):
        pass
    assert "Last-Event-ID" not in bmc.seen[-1].headers


async def test_id_beyond_ascii_is_told(rig: Any, sessions: Any) -> None:
    """An id of other letters is told as it is."""
    bmc = await rig.serve()
    async with sessions(rig.target()).stream(f"{ROOT}/EventService/SSE", last_event_id="\u00e9\t7"):
        pass
    assert bmc.seen[-1].headers["Last-Event-ID"] == "\u00e9\t7"


@pytest.mark.parametrize(
    "header",
    [b"X-Auth-Token: a\xffb", b"X-Auth-Token: a\x7fb", b"X-Auth-Token: t\r\nLocation: http://[", b"X-Auth-Token: t"],
    ids=["no text", "a control character", "no location", "fit"],
)
async def test_answer_to_a_login_that_cannot_be_used_is_no_fault_of_ours(sessions: Any, header: bytes) -> None:
    """A token that no header can hold is a refusal; a location that is no link is none to delete."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 2\r\n" + header + b"\r\n\r\n{}")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        session = sessions(RedfishTarget(url=f"http://127.0.0.1:{port}", username="u", password="p"))
        if b": t" in header:
            assert await session.get(ROOT) == {}
        else:
            assert (await refused(session)).outcome in (Outcome.WRONG_TYPE, Outcome.UNREACHABLE)
        await session.close()


async def test_error_that_is_nested_without_end_is_a_refusal(rig: Any, sessions: Any) -> None:
    """A 400 whose body no parser can hold is an answer like other 400s."""
    bmc = await rig.serve()
    session = sessions(rig.target())
    await session.get(ROOT)
    bmc.faults.rules = [Rule("*", 400, b'{"error":{"a":' + b"[" * 30_000)]
    assert (await refused(session)).state == "error(400)"


async def test_certificates_that_cannot_be_read_are_a_refusal(sessions: Any, tmp_path: Path) -> None:
    """A file of certificates that is missing, a folder or none is told at every request, until it is mended."""
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    for ca, error in ((tmp_path / "missing.pem", "FileNotFoundError"), (tmp_path, "IsADirectoryError"), (broken, "SSLError")):
        session = sessions(RedfishTarget(url="https://127.0.0.1:1", username="u", password="p", ca=ca))
        refusal = await refused(session)
        assert (refusal.state, refusal.detail) == ("bad_ca", f"ca_file {ca}: {error}")
    Authority(tmp_path, datetime.now(UTC)).create().path.replace(broken)
    assert (await refused(session)).outcome is Outcome.UNREACHABLE
