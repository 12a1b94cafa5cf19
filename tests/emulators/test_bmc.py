"""The emulated BMC keeps to the rules of Redfish where the judges do not look, and fails on purpose only when told to."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import pytest

from emulators.bmc.faults import Rule
from emulators.bmc.profile import PROFILES, Admission
from emulators.bmc.report_hgx import nanoseconds
from emulators.bmc.server import Bmc
from emulators.bmc.streams import QUEUE
from emulators.state import ChassisState, GpuState, LinkState

ROOT = "/redfish/v1"


@dataclass
class Client:
    """A client of one BMC, as plain as can be."""

    bmc: Bmc
    http: aiohttp.ClientSession
    url: str
    headers: dict[str, str]

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, Any]:
        """Send a request; returns status, headers and body."""
        async with self.http.request(
            method, self.url + path, json=body, headers={**self.headers, **headers}, allow_redirects=False
        ) as answer:
            raw = await answer.read()
            return answer.status, answer.headers, json.loads(raw) if raw and "json" in answer.content_type else raw

    @asynccontextmanager
    async def stream(self, query: str = "", **headers: str) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open a stream."""
        accepted = {"Accept": "text/event-stream", **self.headers, **headers}
        async with self.http.get(self.url + self.bmc.profile.admission.path + query, headers=accepted) as answer:
            yield answer


@pytest.fixture
async def serve() -> AsyncIterator[Any]:
    """Start BMCs and clients that are logged in."""
    started: list[Client] = []
    chassis = ChassisState(node="n", serial="s")

    async def start(profile: Any = "strict", gpus: list[GpuState] | None = None, **options: Any) -> Client:
        settings = {"report_interval_s": 0.05, "read_state": lambda: (chassis, gpus or []), "now_ns": time.time_ns, **options}
        bmc = Bmc("bmc1", profile=profile, **settings)
        url = await bmc.start()
        client = Client(bmc, aiohttp.ClientSession(), url, {})
        status, headers, _ = await client.ask(
            "POST", f"{ROOT}/SessionService/Sessions", {"UserName": "forewarn", "Password": "forewarn-test"}
        )
        assert status == 201
        client.headers = {"X-Auth-Token": headers["X-Auth-Token"]}
        started.append(client)
        return client

    yield start
    for client in started:
        await client.http.close()
        await client.bmc.stop()


async def read_until(answer: aiohttp.ClientResponse, wanted: bytes) -> bytes:
    seen = b""
    async with asyncio.timeout(10.0):
        while wanted not in seen:
            chunk = await answer.content.readany()
            assert chunk, f"the stream ended before {wanted!r}"
            seen += chunk
    return seen


async def test_stream_has_a_subscription_while_it_is_open(serve: Any) -> None:
    """Opening a stream makes one subscription of type SSE; closing it removes it."""
    client = await serve()
    async with client.stream() as answer:
        await read_until(answer, b"MetricReport")
        _, _, listed = await client.ask("GET", f"{ROOT}/EventService/Subscriptions")
        _, _, subscription = await client.ask("GET", listed["Members"][0]["@odata.id"])
        assert (listed["Members@odata.count"], subscription["SubscriptionType"]) == (1, "SSE")
    async with asyncio.timeout(10.0):
        while client.bmc.tree.subscriptions:  # noqa: ASYNC110  # the other side's state has no event here
            await asyncio.sleep(0.01)


async def test_deleting_the_subscription_ends_the_stream(serve: Any) -> None:
    """DELETE of a stream's subscription ends the stream, which the protocol validator cannot see."""
    client = await serve()
    async with client.stream() as answer:
        await read_until(answer, b"MetricReport")
        (number,) = client.bmc.tree.subscriptions
        status, _, _ = await client.ask("DELETE", f"{ROOT}/EventService/Subscriptions/{number}")
        assert status == 204
        async with asyncio.timeout(5.0):
            while await answer.content.readany():
                pass


async def test_ending_the_session_leaves_the_stream_open(serve: Any) -> None:
    """A stream outlives the session that opened it."""
    client = await serve()
    async with client.stream() as answer:
        await read_until(answer, b"MetricReport")
        status, _, _ = await client.ask("DELETE", f"{ROOT}/SessionService/Sessions/1")
        assert status == 204
        await read_until(answer, b"MetricReport")
        await read_until(answer, b"MetricReport")


async def test_reader_that_does_not_read_loses_events_and_delays_nobody(serve: Any) -> None:
    """The queue of a stream is bounded and drops its oldest."""
    client = await serve(report_interval_s=60.0)
    reader = client.bmc.streams.open(frozenset({"Event"}), "")
    for number in range(QUEUE + 10):
        client.bmc.send_event("Test.1.0.X", f"number {number}")
    assert reader.queue.qsize() == QUEUE
    assert b'"number 10"' in (reader.queue.get_nowait() or b"")


@pytest.mark.parametrize(
    ("refusal", "status"),
    [("503", 503), ("403", 403), ("close", 200)],
)
async def test_stream_beyond_the_limit(serve: Any, refusal: str, status: int) -> None:
    """A stream too many is refused in the vendor's manner; bmcweb accepts and closes."""
    client = await serve(replace(PROFILES["strict"], admission=Admission(most_streams=0, refusal=refusal)))
    async with client.stream() as answer:
        body = await answer.read()
    assert answer.status == status
    assert (body == b"") == (refusal == "close")


@pytest.mark.parametrize(
    ("profile", "quoted", "unquoted"),
    [("strict", 200, 400), ("idrac9", 400, 200), ("idrac10", 200, 400), ("openbmc", 200, 200), ("ilo", 501, 501)],
)
async def test_dialects_of_the_filter(serve: Any, profile: str, quoted: int, unquoted: int) -> None:
    """Each vendor speaks its dialect; bmcweb takes anything and drops it."""
    client = await serve(profile)
    for query, status in (("'MetricReport'", quoted), ("MetricReport", unquoted)):
        async with client.stream(f"?$filter=EventFormatType%20eq%20{query}") as answer:
            assert answer.status == status


async def test_bmcweb_wants_its_media_type_and_a_strong_account(serve: Any) -> None:
    """Upstream bmcweb finds no stream for `*/*` alone, and an account that may only read gets no stream."""
    client = await serve("openbmc")
    async with client.stream(Accept="*/*") as answer:
        assert answer.status == 404
    client.bmc.accounts.accounts["1"].role = "ReadOnly"
    async with client.stream() as answer:
        assert answer.status == 403
    assert (await client.ask("GET", f"{ROOT}/TelemetryService/MetricReports/PlatformMetrics"))[0] == 200


async def test_sessions_are_limited_and_expire(serve: Any) -> None:
    """Beyond its limit a BMC has no session to give; a session that is not used for its time is gone."""
    client = await serve(replace(PROFILES["strict"], most_sessions=1))
    login = {"UserName": "forewarn", "Password": "forewarn-test"}
    status, headers, _ = await client.ask("POST", f"{ROOT}/SessionService/Sessions", login)
    assert (status, headers["Retry-After"]) == (503, "30")
    client.bmc.accounts.timeout_s = -1.0
    assert (await client.ask("GET", f"{ROOT}/Systems"))[0] == 401


async def test_basic_authentication_and_roles(serve: Any) -> None:
    """Basic authentication works; who may only read changes nothing but the own password."""
    client = await serve()
    await client.ask("POST", f"{ROOT}/AccountService/Accounts", {"UserName": "eve", "Password": "eves-password", "RoleId": "ReadOnly"})
    client.headers = {"Authorization": "Basic " + base64.b64encode(b"eve:eves-password").decode()}
    assert (await client.ask("GET", f"{ROOT}/Systems"))[0] == 200
    assert (await client.ask("PATCH", f"{ROOT}/AccountService/Accounts/1", {"Password": "mine-now"}))[0] == 403
    assert (await client.ask("PATCH", f"{ROOT}/AccountService/Accounts/2", {"Password": "eves-other-one"}))[0] == 200
    assert (await client.ask("GET", f"{ROOT}/Systems"))[0] == 401


async def test_reboot_forgets_sessions_and_streams(serve: Any) -> None:
    """A reboot resets connections and forgets sessions; the BMC is back at the same address after its phases."""
    client = await serve()
    async with client.stream() as answer:
        await read_until(answer, b"MetricReport")
        booting = asyncio.create_task(client.bmc.reboot(booting=[(Rule("*", 503), 0.2)]))
        with pytest.raises((aiohttp.ClientError, AssertionError)):
            await read_until(answer, b"never")
    assert (await client.ask("GET", f"{ROOT}/Systems"))[0] == 503
    await booting
    assert (await client.ask("GET", f"{ROOT}/Systems"))[0] == 401


async def test_rule_delays_and_changes_an_answer(serve: Any) -> None:
    """A rule without status changes the members of the real answer, as often as it says."""
    client = await serve()
    client.bmc.faults.rules.append(Rule(f"{ROOT}/Systems", merge={"Members": None}, drop=("Name",), remaining=1))
    _, _, body = await client.ask("GET", f"{ROOT}/Systems")
    assert (body["Members"], "Name" in body) == (None, False)
    _, _, body = await client.ask("GET", f"{ROOT}/Systems")
    assert len(body["Members"]) == 1


@pytest.mark.parametrize(
    ("profile", "start"),
    [
        ("openbmc", b'id: 0\ndata: {\ndata:   "@odata.'),
        ("idrac9", b"event: MetricReport\nretry: 15000\nid: 1\ndata: {"),
        ("xcc", b'id:1\ndata:{\ndata:    "@odata.'),
        ("ome", b"id: 0\ndata: {"),
    ],
)
async def test_streams_look_like_the_vendors(serve: Any, profile: str, start: bytes) -> None:
    """Fields, spaces, indents and ids are those of the vendor; bmcweb streams reports only while a push subscription wants some."""
    client = await serve(profile)
    if profile == "openbmc":
        push = {"Protocol": "Redfish", "Destination": "http://127.0.0.1:1/", "EventFormatType": "MetricReport"}
        assert (await client.ask("POST", f"{ROOT}/EventService/Subscriptions", push))[0] == 201
    async with client.stream() as answer:
        assert (await read_until(answer, b"\n\n")).startswith(start)


async def test_hgx_reports_look_like_nvidias(serve: Any) -> None:
    """HGX reports have no time of their own, name GPUs from one, mark missing readings as stale `nan`, and spell durations oddly."""
    gpus = [GpuState(gpu_uuid=f"GPU-{slot}", serial=str(slot), pci="", gpu_index=slot) for slot in range(2)]
    gpus[0].clock_event_reasons = 0x4 | 0x40
    gpus[0].sw_power_cap_ns_total = 3 * 86_400 * 10**9 + 1
    gpus[1].links[0] = LinkState(is_up=False, crc_total=5)
    client = await serve("hgx", gpus)
    reports = {report.name: client.bmc.report(report) for report in client.bmc.reports}
    values: dict[str, Any] = {value["MetricProperty"]: value for report in reports.values() for value in report["MetricValues"]}  # type: ignore[attr-defined]
    assert all("Timestamp" not in report for report in reports.values())
    missing = values[f"{ROOT}/Chassis/HGX_GPU_SXM_3/Sensors/HGX_GPU_SXM_3_Power_0"]
    assert (missing["MetricValue"], missing["Oem"]["Nvidia"]["MetricValueStale"]) == ("nan", True)
    base = f"{ROOT}/Systems/HGX_Baseboard_0/Processors/GPU_SXM_1/ProcessorMetrics#"
    assert values[f"{base}/PowerLimitThrottleDuration"]["MetricValue"] == "P3DT0.000000001S"
    assert [values[f"{base}/Oem/Nvidia/ThrottleReasons/{number}"]["MetricValue"] for number in (0, 1)] == [
        "SWPowerCap",
        "HWThermalSlowdown",
    ]
    port = f"{ROOT}/Systems/HGX_Baseboard_0/Processors/GPU_SXM_2/Ports/NVLink_0"
    assert values[f"{port}#/LinkStatus"]["MetricValue"] == "LinkDown"
    assert values[f"{port}/Metrics#/Oem/Nvidia/NVLinkErrors/DataCRCCount"]["MetricValue"] == "5"


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "PT"), (62_500_000_000, "PT1M2.500000000S"), (3 * 86_400 * 10**9, "P3DT"), (3600 * 10**9 + 5, "PT1H0.000000005S")],
)
def test_durations_of_bmcweb(ns: int, text: str) -> None:
    """Durations are written as bmcweb's formatter writes them."""
    assert nanoseconds(ns) == text


async def test_many_bmcs_in_one_process(serve: Any) -> None:
    """Sixteen BMCs in one process answer each on its own."""
    clients = [await serve() for _ in range(16)]
    bodies = await asyncio.gather(*(client.ask("GET", f"{ROOT}/Systems") for client in clients))
    assert [status for status, _, _ in bodies] == [200] * 16
    assert len({client.url for client in clients}) == 16
