"""The stream survives what networks and BMCs do to it, and gives way to polls where the BMC refuses it."""

from __future__ import annotations

import asyncio
import resource
from dataclasses import replace
from typing import Any

import pytest

from emulators.bmc.faults import HTML, NO_LICENCE, NOT_READY, Rule, Wire
from emulators.bmc.messages import error
from emulators.bmc.profile import PROFILES, Admission, Framing, Profile, Replay
from ingest.metrics import REDFISH_BYTES, REDFISH_REJECTED, REDFISH_STREAM_ENDS
from ingest.redfish.sse import MAX_EVENT_BYTES
from ingest.redfish.stream import FILTERS_REPORTS_ONLY
from ingest.redfish.watch import Patience
from ingest.schema import SourceState

STRICT = PROFILES["strict"]
PATIENCE = Patience(poll_s=200.0, answer_s=2.0, first_delay_s=0.05, most_delay_s=0.2, trial_s=0.3, check_s=0.2)
LIMIT = error("EventSubscriptionLimitExceeded")


def opened(bmc: Any) -> list[str]:
    """List the targets under which the stream was asked for."""
    return [seen.target for seen in bmc.seen if seen.target.startswith(bmc.profile.admission.path)]


def strict(**changes: Any) -> Profile:
    return replace(STRICT, **changes)


@pytest.mark.parametrize(
    "framing",
    [
        Framing(indent=4, has_space=False, comment_s=0.02),
        Framing(line_end=b"\r\n", indent=2, split_bytes=7),
        Framing(line_end=b"\r", names_event=True, retry_ms=1000),
        Framing(has_bom=True, ids="absent", split_bytes=1),
        Framing(ids="constant", is_ascii=True, is_chunked=False),
    ],
    ids=["lenovo", "crlf in pieces of 7", "cr, event and retry", "bom in single bytes", "constant id until the end of the connection"],
)
async def test_framings(rig: Any, framing: Framing) -> None:
    """Reports arrive whole in whatever manner they are framed and cut."""
    await rig.serve(profile=strict(framing=framing))
    await rig.watch()
    await rig.until(lambda _: len(rig.readings("inlet_temp_c")) > 2)
    assert {reading.value for reading in rig.readings("inlet_temp_c")} == {24.0}


@pytest.mark.parametrize("kind", ["reset", "eof", "html", "joined"])
async def test_stream_that_breaks_is_opened_again(rig: Any, kind: str) -> None:
    """After a stream that breaks off inside an event, or is a web page, or runs events into one, a new one delivers."""
    await rig.serve(setup=lambda bmc: bmc.faults.wires.append(Wire(kind, after=1, remaining=1)))
    await rig.watch(patience=replace(PATIENCE, event_s=0.3))
    await rig.until(lambda _: len(opened(rig.bmc)) >= 2)
    count = len(rig.readings("inlet_temp_c"))
    await rig.until(lambda _: len(rig.readings("inlet_temp_c")) > count + 2)
    assert {reading.value for reading in rig.readings("inlet_temp_c")} == {24.0}


async def test_drip_is_read(rig: Any) -> None:
    """A stream that comes a byte at a time is a stream."""
    await rig.serve(report_interval_s=2000.0, setup=lambda bmc: bmc.faults.wires.append(Wire("drip")))
    await rig.watch()
    bmc = rig.bmc
    await rig.until(lambda _: opened(bmc))
    bmc.send_event("Test.1.0.Slow", "slowly")
    await rig.until(lambda _: rig.events)
    assert '"message":"slowly"' in rig.events[0].detail


async def test_silent_stream_is_probed_and_given_up_when_the_bmc_is_dead(rig: Any) -> None:
    """A stream that stalls while the BMC answers stays; one whose BMC does not answer either is ended after three probes."""
    ended = REDFISH_STREAM_ENDS.labels("TimeoutError")
    before = ended._value.get()
    bmc = await rig.serve(profile="hgx", setup=lambda bmc: bmc.faults.wires.append(Wire("stall", remaining=1)))
    await rig.watch(patience=replace(PATIENCE, probe_s=0.1))
    await rig.until(lambda _: sum(seen.target.endswith("/SessionService") for seen in bmc.seen) >= 4)
    assert ended._value.get() == before
    bmc.faults.rules.append(Rule("/redfish/v1/SessionService", 500))
    await rig.until(lambda _: ended._value.get() > before)
    bmc.faults.rules.clear()
    await rig.until(lambda _: len(opened(bmc)) == 2)


async def test_comments_that_stop_end_the_stream(rig: Any) -> None:
    """Case 02: comments are signs of life: a stream that had them and has none is ended, though the BMC answers."""
    profile = replace(PROFILES["hgx"], framing=Framing(comment_s=0.05))
    bmc = await rig.serve(profile=profile, setup=lambda bmc: bmc.faults.wires.append(Wire("stall", after=1, remaining=1)))
    before = REDFISH_BYTES._value.get()
    await rig.watch(patience=replace(PATIENCE, probe_s=0.1, silence_s=0.4))
    await rig.until(lambda _: REDFISH_BYTES._value.get() > before + 100)
    bmc.send_event("Test.1.0.First", "first")
    await rig.until(lambda _: rig.events)
    bmc.send_event("Test.1.0.Second", "nothing more comes")
    await rig.until(lambda _: len(opened(bmc)) == 2)


async def test_stream_waits_as_long_as_it_was_told(rig: Any) -> None:
    """Case 11: after `retry: 1500` the stream is not opened again within 1.5 s."""
    bmc = await rig.serve(profile=strict(framing=Framing(retry_ms=1500)))
    await rig.watch()
    await rig.until(lambda _: len(rig.readings("inlet_temp_c")) > 2)
    loop = asyncio.get_running_loop()
    bmc.streams.close_all()
    closed_s = loop.time()
    await rig.until(lambda _: len(opened(bmc)) == 2)
    assert loop.time() - closed_s >= 1.5


def test_an_event_may_have_eight_mebibytes() -> None:
    """Case 44: that is the bound unless told otherwise."""
    assert MAX_EVENT_BYTES == 8 * 2**20


async def test_refusal_by_closing_leads_to_polls(rig: Any) -> None:
    """Case 35: three streams that end at once without an event are a refusal; reports are polled, and the stream is left alone."""
    crowded = Admission(most_streams=0, refusal="close")
    bmc = await rig.serve(profile=strict(admission=crowded, framing=Framing(is_chunked=False)))
    await rig.watch()
    await rig.until(lambda _: len(rig.readings("inlet_temp_c")) >= 2)
    assert "poll (stream refused)" in rig.details
    assert len(opened(bmc)) == 3


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (Rule("*/SSE", 403, error("InsufficientPrivilege")), "stream forbidden"),
        (Rule("*/SSE", 403, NO_LICENCE), "stream not_licensed"),
        (Rule("*/SSE", 501), "stream not_offered"),
        (Rule("*/SSE", 404), "stream missing"),
    ],
)
async def test_stream_that_is_not_for_us_is_given_up(rig: Any, rule: Rule, reason: str) -> None:
    """Missing rights, licence or service mean polls at once, without another attempt and without another login."""
    bmc = await rig.serve(setup=lambda bmc: bmc.faults.rules.append(rule))
    await rig.watch()
    await rig.until(lambda _: len(rig.readings("inlet_temp_c")) >= 2)
    assert f"poll ({reason})" in rig.details
    assert len(opened(bmc)) == 1
    assert sum(seen.method == "POST" for seen in bmc.seen) == 1


async def test_limit_is_no_matter_of_credentials(rig: Any) -> None:
    """Case 36: 503 with Retry-After and 403 with a limit are waited for as told, reports are polled meanwhile, nobody logs in again."""
    bmc = await rig.serve(
        setup=lambda bmc: bmc.faults.rules.extend(
            [Rule("*/SSE", 403, LIMIT, remaining=2), Rule("*/SSE", 503, LIMIT, headers={"Retry-After": "1"}, remaining=1)]
        )
    )
    await rig.watch()
    await rig.until(lambda _: "poll (stream limit)" in rig.details)
    await rig.until(lambda _: rig.readings("inlet_temp_c"))
    await rig.until(lambda _: "stream (delivered)" in rig.details)
    assert len(opened(bmc)) == 4
    assert sum(seen.method == "POST" for seen in bmc.seen) == 1


@pytest.mark.parametrize("rule", [Rule("*/SSE", 500), Rule("*/SSE", 400, NOT_READY), Rule("*/SSE", 200, HTML, content_type="text/html")])
async def test_trouble_of_the_stream_alone_leads_to_polls(rig: Any, rule: Rule) -> None:
    """A stream that stays in trouble does not end the polls; it is tried again, and taken when it works."""
    bmc = await rig.serve(setup=lambda bmc: bmc.faults.rules.append(rule))
    await rig.watch()
    await rig.until(lambda _: len(rig.readings("inlet_temp_c")) >= 3)
    assert "poll (stream " in rig.details
    bmc.faults.rules.clear()
    await rig.until(lambda _: "stream (delivered)" in rig.details)
    assert set(rig.states) == {"ok"}


async def test_retry_after_is_waited_for(rig: Any) -> None:
    """A stream that is to be opened again in 600 seconds is not asked for before."""
    bmc = await rig.serve(setup=lambda bmc: bmc.faults.rules.append(Rule("*/SSE", 503, LIMIT, headers={"Retry-After": "600"})))
    await rig.watch()
    await rig.until(lambda _: len(rig.readings("inlet_temp_c")) >= 3)
    assert len(opened(bmc)) == 1


@pytest.mark.parametrize(
    ("dialect", "targets"),
    [
        ("quoted", ["?$filter=EventFormatType%20eq%20'MetricReport'"]),
        ("unquoted", ["?$filter=EventFormatType%20eq%20'MetricReport'", "?$filter=EventFormatType%20eq%20MetricReport"]),
        ("none", ["?$filter=EventFormatType%20eq%20'MetricReport'", "?$filter=EventFormatType%20eq%20MetricReport", ""]),
    ],
)
async def test_filter_dialects(rig: Any, dialect: str, targets: list[str]) -> None:
    """Case 41: a 400 or 501 moves on to the next dialect; spaces are %20 and the dollar sign stays."""
    bmc = await rig.serve(profile=strict(admission=Admission(filter=dialect)))
    await rig.watch(filters=FILTERS_REPORTS_ONLY)
    await rig.until(lambda _: "stream (delivered)" in rig.details)
    assert opened(bmc) == [f"/redfish/v1/EventService/SSE{target}" for target in targets]


async def test_filter_is_tried_where_an_open_stream_brings_no_reports(rig: Any) -> None:
    """An unfiltered stream that brings no report is tried with a filter, while reports are polled already."""
    bmc = await rig.serve(profile=strict(streams_reports=False))
    await rig.watch()
    await rig.until(lambda _: len(opened(bmc)) >= 2)
    assert opened(bmc)[:2] == ["/redfish/v1/EventService/SSE", "/redfish/v1/EventService/SSE?$filter=EventFormatType%20eq%20'MetricReport'"]
    await rig.until(lambda _: "poll (not delivered)" in rig.details and rig.readings("inlet_temp_c"))


async def test_endless_event_is_cut_off_and_costs_no_memory(rig: Any) -> None:
    """Case 44: an event without end is dropped at 8 MiB, memory stays flat, and other BMCs go on."""
    too_large = REDFISH_REJECTED.labels("event_too_large")
    before = too_large._value.get()
    await rig.serve(setup=lambda bmc: bmc.faults.wires.append(Wire("endless")))
    await rig.serve()
    await rig.watch({"endless": rig.target(0), "good": rig.target(1)})
    await rig.until(lambda _: too_large._value.get() > before, deadline_s=20.0)
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await rig.until(lambda _: too_large._value.get() > before + 2, deadline_s=20.0)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak_kb < 32 * 1024
    count = len(rig.readings("inlet_temp_c", "good"))
    await rig.until(lambda _: len(rig.readings("inlet_temp_c", "good")) > count + 1)


async def test_event_of_one_large_line_is_read(rig: Any) -> None:
    """Case 45: one line of 0.9 MB with 6,000 values is one report."""
    bmc = await rig.serve(setup=lambda bmc: bmc.faults.wires.append(Wire("big_line", remaining=1)))
    await rig.watch()
    await rig.until(lambda _: opened(bmc))
    bmc.send_event("Test.1.0.Go", "go")
    await rig.until(lambda _: len(rig.readings("link_speed_gbps")) == 6000)


async def test_slow_collector_stops_the_stream_and_loses_no_event(rig: Any) -> None:
    """While nobody drains the source its queue stays bounded; events that the BMC could hold arrive afterwards, each once."""
    bmc = await rig.serve(report_interval_s=10_000.0)
    source = await rig.watch()
    await rig.until(lambda _: opened(bmc) and rig.states)
    for number in range(40):
        bmc.send_event("Test.1.0.Numbered", f"number {number}")
    async with asyncio.timeout(10.0):
        while len(source._watches[0].outbox) < 8:  # noqa: ASYNC110  # nothing of the source's own tells it
            await asyncio.sleep(0.01)
    assert len(source._watches[0].outbox) == 8
    await rig.until(lambda _: len(rig.events) == 40)
    assert [f'"message":"number {number}"' in event.detail for number, event in enumerate(rig.events)] == [True] * 40


@pytest.mark.parametrize("replay", [Replay(), Replay(as_record=True), Replay(on_unknown="ring")], ids=["event", "bare record", "ring"])
async def test_events_missed_are_replayed_once(rig: Any, replay: Replay) -> None:
    """Events that happen while the stream is away arrive once when it is back, in whatever form they are replayed."""
    bmc = await rig.serve(report_interval_s=10_000.0, profile=strict(replay=replay))
    await rig.watch()
    await rig.until(lambda _: opened(bmc))
    bmc.send_event("Test.1.0.One", "one")
    await rig.until(lambda _: rig.events)
    for number in list(bmc.streams.readers):
        bmc.streams.close(number)
    bmc.send_event("Test.1.0.Two", "two")
    await rig.until(lambda _: len(rig.events) >= 2)
    bmc.send_event("Test.1.0.Three", "three")
    await rig.until(lambda _: len(rig.events) >= 3)
    assert [event.detail.partition('"message":"')[2].partition('"')[0] for event in rig.events] == ["one", "two", "three"]


async def test_buffer_that_was_exceeded_is_a_gap(rig: Any) -> None:
    """A BMC that says that it cannot replay all leaves a gap in the record."""
    bmc = await rig.serve(report_interval_s=10_000.0, profile=strict(replay=Replay(ring=2, on_unknown="message")))
    await rig.watch()
    await rig.until(lambda _: opened(bmc))
    bmc.send_event("Test.1.0.First", "first")
    await rig.until(lambda _: rig.events)
    for number in list(bmc.streams.readers):
        bmc.streams.close(number)
    for number in range(5):
        bmc.send_event("Test.1.0.Lost", f"lost {number}")
    await rig.until(lambda rows: [row for row in rows if isinstance(row, SourceState) and "exceeded" in (row.detail or "")])


async def test_record_that_is_a_reference_is_fetched(rig: Any) -> None:
    """A record that is only a reference is read from where it points, again if it is not there yet."""
    bmc = await rig.serve(report_interval_s=10_000.0, profile="hgx")
    await rig.watch()
    await rig.until(lambda _: opened(bmc) and rig.states)
    path = f"{bmc.tree.log_path}/77"
    record = {"MessageId": "ResourceEvent.1.0.ResourceErrorsDetected", "Oem": {"Nvidia": {"ErrorId": "XID 79"}}, "EventId": "77"}
    bmc.tree.keep("77", record | {"EventTimestamp": "2026-01-02T03:04:05Z"})
    bmc.faults.rules.append(Rule(path, 404, remaining=1))
    bmc.streams.send_event({"@odata.id": path})
    await rig.until(lambda _: rig.events)
    assert (rig.events[0].kind, rig.events[0].code) == ("xid", 79)
