"""The source against an emulated BMC: readings, reconnects, sessions and what it says about itself."""

from __future__ import annotations

import asyncio
from typing import Any

from emulators.bmc.faults import NOT_READY, Rule
from ingest.schema import ChassisReading, SourceState
from ingest.source import Pace


async def test_streamed_readings_carry_the_chassis(rig: Any) -> None:
    """Every part of a chassis arrives as a reading of its canonical quantity, device and unit, at the BMC's own time."""
    rig.chassis.inlet_temp_c = 24.5
    rig.chassis.psu_is_present[2] = False
    await rig.serve()
    source = await rig.watch()
    assert source.pace is Pace.WALL
    await rig.until(lambda _: rig.readings("gpu_temp_c"))
    rows = [row for row in rig.rows if isinstance(row, ChassisReading)]
    found = {(row.quantity, row.device): (row.value, row.text, row.unit, row.quality) for row in rows}
    assert found[("inlet_temp_c", "chassis")] == (24.5, None, "°C", None)
    assert found[("outlet_temp_c", "chassis")] == (40.0, None, "°C", None)
    assert found[("power_w", "chassis")] == (4800.0, None, "W", None)
    assert found[("fan_rpm", "fan5")] == (9000.0, None, "RPM", None)
    assert found[("psu_input_w", "psu0")] == (1200.0, None, "W", None)
    assert found[("psu_input_v", "psu3")] == (230.0, None, "V", None)
    assert found[("psu_input_w", "psu2")] == (None, None, "W", "blank")
    assert found[("presence", "psu2")] == (0.0, "Absent", None, None)
    assert found[("presence", "psu1")] == (1.0, "Enabled", None, None)
    assert found[("power_state", "chassis")] == (1.0, "On", None, None)
    assert found[("gpu_temp_c", "gpu7")] == (30.0, None, "°C", None)
    assert {row.node for row in rows} == {"gpu001"}
    streamed = rig.readings("inlet_temp_c")[0]
    assert streamed.time_quality is None
    assert 0 <= streamed.received_at_ns - streamed.observed_at_ns < 200 * 10**9


async def test_change_in_the_machine_is_an_event(rig: Any) -> None:
    """A power supply that is pulled is an event of kind bmc that names it."""
    await rig.serve()
    await rig.watch()
    await rig.until(lambda _: rig.readings("presence"))
    rig.chassis.psu_is_present[1] = False
    await rig.until(lambda _: rig.events)
    assert rig.events[0].kind == "bmc"
    assert '"component":"/Chassis/Baseboard/Sensors/PSU_1_Input_Power"' in rig.events[0].detail


async def test_stream_that_ends_is_opened_again_and_its_gap_is_told(rig: Any) -> None:
    """After the end of a stream there is a gap from the last byte on, then ok again, and readings go on."""
    bmc = await rig.serve()
    await rig.watch()
    await rig.until(lambda _: len(rig.readings("inlet_temp_c")) > 2)
    heard_ns = rig.readings("inlet_temp_c")[-1].received_at_ns
    bmc.streams.close_all()
    await rig.until(lambda _: "gap" in rig.states)
    gap = next(row for row in rig.rows if isinstance(row, SourceState) and row.state == "gap")
    assert gap.observed_at_ns >= heard_ns
    assert gap.received_at_ns > gap.observed_at_ns
    await rig.until(lambda _: rig.states[-1] == "ok")
    count = len(rig.readings("inlet_temp_c"))
    await rig.until(lambda _: len(rig.readings("inlet_temp_c")) > count + 2)


async def test_session_that_expires_is_renewed_once(rig: Any) -> None:
    """When the BMC has forgotten the session, the next request logs in again, once, and the stream tells the last event it had."""
    bmc = await rig.serve()
    await rig.watch()
    await rig.until(lambda _: len(rig.readings("inlet_temp_c")) > 1)
    assert list(bmc.accounts.sessions) == ["1"]
    bmc.accounts.sessions.clear()
    bmc.streams.close_all()
    await rig.until(lambda _: "gap" in rig.states)
    count = len(rig.readings("inlet_temp_c"))
    await rig.until(lambda _: len(rig.readings("inlet_temp_c")) > count + 2)
    assert list(bmc.accounts.sessions) == ["2"]
    opened = [seen.headers.get("Last-Event-ID") for seen in bmc.seen if seen.target.endswith("/SSE")]
    assert opened[0] is None
    assert int(opened[-1]) >= 1


async def test_bmc_that_is_away_is_unreachable_until_it_is_back(rig: Any) -> None:
    """A BMC that does not answer is `unreachable`, and `ok` with fresh readings when it is back."""
    await rig.serve()
    await rig.watch()
    await rig.until(lambda _: rig.readings("inlet_temp_c"))
    port = int(rig.urls[0].rpartition(":")[2])
    await rig.bmc.stop()
    await rig.until(lambda _: rig.states[-1] == "unreachable")
    await rig.serve(port=port)
    count = len(rig.readings("inlet_temp_c"))
    await rig.until(lambda _: rig.states[-1] == "ok" and len(rig.readings("inlet_temp_c")) > count + 2)


async def test_bmc_that_reboots_is_not_ready_until_its_reports_are_back(rig: Any) -> None:
    """A BMC without its services after a reboot is still booting: it is not taken for one that has none."""
    bmc = await rig.serve()
    await rig.watch()
    await rig.until(lambda _: rig.readings("inlet_temp_c"))
    phases = [(Rule("*", 400, NOT_READY), 1.5), (Rule("/redfish/v1/TelemetryService", 404), 0.5), (Rule("*", 503), 0.2)]
    rebooting = asyncio.create_task(bmc.reboot(down_s=0.05, booting=phases))
    await rig.until(lambda _: "not_ready" in rig.states)
    await rig.until(lambda _: rebooting.done())
    count = len(rig.readings("inlet_temp_c"))
    await rig.until(lambda _: rig.states[-1] == "ok" and len(rig.readings("inlet_temp_c")) > count + 2)
    assert "empty" not in rig.states


async def test_wrong_password_is_unauthorized(rig: Any) -> None:
    """Wrong credentials are a state of the source, said once."""
    bmc = await rig.serve()
    await rig.watch({"gpu001": rig.target(password="wrong")})
    await rig.until(lambda _: sum(seen.method == "POST" for seen in bmc.seen) >= 2)
    assert rig.states == ["unauthorized"]


async def test_session_is_given_back(rig: Any) -> None:
    """Closing the source ends the session at the BMC."""
    bmc = await rig.serve()
    source = await rig.watch()
    await rig.until(lambda _: rig.readings("inlet_temp_c"))
    assert len(bmc.accounts.sessions) == 1
    await source.close()
    assert bmc.accounts.sessions == {}


async def test_one_bmc_delays_no_other(rig: Any) -> None:
    """A BMC that answers nothing in time leaves the readings of another alone."""
    await rig.serve(setup=lambda bmc: bmc.faults.rules.append(Rule("*", 200, latency_s=60.0)))
    await rig.serve()
    await rig.watch({"slow": rig.target(0), "quick": rig.target(1)})
    await rig.until(lambda _: len(rig.readings("inlet_temp_c", "quick")) > 3)
    assert rig.readings("inlet_temp_c", "slow") == []


async def test_state_is_said_every_hour(rig: Any) -> None:
    """A state that holds is repeated once per hour of fleet time."""
    await rig.serve()
    await rig.watch()
    await rig.until(lambda _: "delivered" in rig.details)
    said = [row for row in rig.rows if isinstance(row, SourceState)][-1]
    rows = await rig.source.read(said.observed_at_ns + 3599 * 10**9)
    assert [row for row in rows if isinstance(row, SourceState)] == []
    rows = await rig.source.read(said.observed_at_ns + 3600 * 10**9)
    assert [row.state for row in rows if isinstance(row, SourceState)] == ["ok"]


async def test_rows_queued_at_the_end_are_not_lost(rig: Any) -> None:
    """What was taken in before `close` is handed over by the read after it."""
    await rig.serve()
    source = await rig.watch()
    async with asyncio.timeout(10.0):
        while len(source._watches[0].outbox) == 0:  # noqa: ASYNC110  # nothing of the source's own tells it
            await asyncio.sleep(0.01)
    await source.close()
    assert [row for row in await source.read(rig.clock.now_ns()) if isinstance(row, ChassisReading)] != []
