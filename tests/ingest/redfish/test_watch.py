"""A fault of ours, or what no rule foresaw, costs a BMC neither its peace nor what else it says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any

import pytest

from emulators.bmc.faults import Rule
from emulators.bmc.messages import error
from ingest.metrics import REDFISH_FAILURES, REDFISH_REJECTED
from ingest.redfish.backoff import Backoff
from ingest.redfish.browse import Getter
from ingest.redfish.logs import LogReader
from ingest.redfish.payloads import Body
from ingest.redfish.watch import BmcWatch, Patience
from ingest.schema import SourceState
from ingest.xid import catalogue_of

QUICK = {"poll_s": 200.0, "answer_s": 2.0, "first_delay_s": 0.02, "most_delay_s": 0.1, "login_s": 0.2, "trial_s": 0.3, "check_s": 0.2}
NO_FILTER: tuple[str, ...] = ()  # not even the empty one: to open a stream is a fault of ours, after the BMC was learnt


class Longest(random.Random):
    """Draws the longest delay."""

    def uniform(self, _: float, b: float) -> float:
        """Draw the upper bound."""
        return b


class Faulty(LogReader):
    """Reads logs, but until it is mended fails at that: a fault of ours after the first answers."""

    is_mended = False

    async def read(self, bmc: Getter, paths: Iterable[str], *, since_ns: int) -> list[Body]:
        """Read."""
        if not self.is_mended:
            raise ArithmeticError
        return await super().read(bmc, paths, since_ns=since_ns)


async def delays(rig: Any, settled_s: float, filters: tuple[str, ...]) -> list[float]:
    """Attempt to watch a BMC five times; returns the delays after them."""
    patience = Patience(**QUICK, settled_s=settled_s)
    watch = BmcWatch(
        "gpu001",
        rig.target(),
        clock=rig.clock,
        connecting=asyncio.Semaphore(1),
        rng=Longest(),
        patience=patience,
        catalogue=catalogue_of(None),
        filters=filters,
    )
    backoff = Backoff(Longest(), first_s=1.0, most_s=10.0)
    try:
        return [await watch._attempt(backoff) for _ in range(5)]
    finally:
        await watch.close()


async def test_fault_of_ours_is_backed_off_from(rig: Any) -> None:
    """Each attempt that ends by a fault of ours right after the BMC was learnt is followed by twice the delay of the one before."""
    await rig.serve()
    assert await delays(rig, 60.0, NO_FILTER) == [1.0, 2.0, 4.0, 8.0, 10.0]


async def test_refusal_after_learning_is_backed_off_from(rig: Any) -> None:
    """A BMC that tells what it offers and then lets nobody in is asked less and less often."""
    refused = Rule("/redfish/v1/TelemetryService/MetricReports/*", 401, error("NoValidSession"))
    await rig.serve(setup=lambda bmc: bmc.faults.rules.append(refused))
    assert await delays(rig, 60.0, ("",)) == [1.0, 2.0, 4.0, 8.0, 10.0]


async def test_bmc_that_was_served_for_a_while_starts_with_the_first_delay(rig: Any) -> None:
    """What ends after the BMC was served for long enough is no sign of what ended before."""
    await rig.serve()
    assert await delays(rig, 0.0, NO_FILTER) == [1.0] * 5


async def test_state_does_not_flap(rig: Any) -> None:
    """A fault of ours that comes back is one state until the BMC was served for a while without it."""
    slow = Rule("/redfish/v1/TelemetryService/MetricReports/*", latency_s=0.03)
    no_stream = Rule("*/EventService/SSE", 501)
    await rig.serve(profile="hgx", setup=lambda bmc: bmc.faults.rules.extend([slow, no_stream]))
    before = REDFISH_FAILURES._value.get()
    source = await rig.watch(patience=Patience(**QUICK, settled_s=0.5))
    source._watches[0]._logs = faulty = Faulty()
    await rig.until(lambda _: REDFISH_FAILURES._value.get() - before >= 5)
    assert rig.states.count("error") == 1
    assert rig.states[-1] == "error"
    faulty.is_mended = True
    await rig.until(lambda _: rig.states[-1] == "ok")
    assert rig.states.count("error") == 1


EVENT = b'data: {"Events":[{"MessageId":"Test.1.0.X","EventId":"%(name)s","Message":"%(name)s"}]}\n\n'


@pytest.mark.parametrize(
    "before",
    [
        b"retry: " + b"9" * 5000 + b"\n",
        b"retry: " + b"9" * 400 + b"\n",
        b"id: a\x0bb\n",
        b'data: {"MetricValues":[{"MetricProperty":"/redfish/v1/Chassis/C/Sensors/T","MetricValue":"P' + b"9" * 400 + b'D"}]}\n\n',
        b'data: {"Events":[{"MessageId":"Test.1.0.X","MessageArgs":' + b"[" * 900 + b"]" * 900 + b"}]}\n\n",
        b'\xef\xbb\xbfdata: {"MetricValues":' + b"[" * 30_000 + b"\n\n",
    ],
    ids=["retry of 5000 digits", "retry of 400 digits", "id with a control character", "days without end", "nested", "nested without end"],
)
async def test_hostile_stream_ends_nothing(rig: Any, before: bytes) -> None:
    """Whatever a stream holds, the event after it is read, and so is what comes over the next stream."""
    bmc = await rig.serve(profile="hgx", report_interval_s=10_000.0)
    failures = REDFISH_FAILURES._value.get()
    await rig.watch(patience=Patience(**QUICK))
    for message in (b"first", b"second"):
        await rig.until(lambda _: bmc.streams.readers)
        for reader in list(bmc.streams.readers.values()):
            reader.send(before + EVENT % {b"name": message})
        await rig.until(lambda _, message=message: any(f'"message":"{message.decode()}"' in event.detail for event in rig.events))
        for number in list(bmc.streams.readers):
            bmc.streams.close(number)
    assert REDFISH_FAILURES._value.get() == failures


async def test_bmc_whose_certificates_cannot_be_read_stops_no_other(rig: Any, tmp_path: Any) -> None:
    """It has a state that says so; the others are read."""
    (tmp_path / "broken.pem").write_text("no certificate")
    await rig.serve()
    await rig.watch({"n0": rig.target(url="https://127.0.0.1:1", ca=tmp_path / "broken.pem"), "n1": rig.target()})
    await rig.until(lambda _: rig.readings("inlet_temp_c", "n1"))
    said = {(row.state, row.detail) for row in rig.rows if isinstance(row, SourceState) and row.node == "n0"}
    assert said == {("bad_ca", f"ca_file {tmp_path / 'broken.pem'}: SSLError")}
    await rig.until(lambda _: not rig.source.unheard)


async def test_record_that_no_rule_foresaw_is_counted(rig: Any) -> None:
    """An event whose reading fails in a way that nobody thought of costs itself alone."""

    class Broken(type(catalogue_of(None))):  # type: ignore[misc]
        def use(self, code: int) -> str:
            raise ArithmeticError(code)

    bmc = await rig.serve(profile="hgx", report_interval_s=10_000.0)
    counted = REDFISH_REJECTED.labels("internal_error")
    before = counted._value.get()
    source = await rig.watch(patience=Patience(**QUICK))
    source._watches[0]._intake._catalogue = Broken({})
    await rig.until(lambda _: bmc.streams.readers)
    bmc.send_event("Test.1.0.Xid", "XID: 79")
    bmc.send_event("Test.1.0.Other", "other")
    await rig.until(lambda _: rig.events)
    assert '"message":"other"' in rig.events[0].detail
    assert counted._value.get() == before + 1
