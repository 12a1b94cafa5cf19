"""The source against an emulated BMC: readings, reconnects, sessions and what it says about itself."""

from __future__ import annotations

from typing import Any

from ingest.schema import ChassisReading, Event, SourceState
from ingest.source import Pace


def readings(rows: list[Any], quantity: str) -> list[ChassisReading]:
    return [row for row in rows if isinstance(row, ChassisReading) and row.quantity == quantity]


def states(rows: list[Any]) -> list[str]:
    return [row.state for row in rows if isinstance(row, SourceState)]


async def test_streamed_readings_carry_the_chassis(rig: Any) -> None:
    """Every part of a chassis arrives as a reading of its canonical quantity, device and unit, at the BMC's own time."""
    rig.chassis.inlet_temp_c = 24.5
    rig.chassis.psu_is_present[2] = False
    await rig.serve()
    source = await rig.watch()
    assert source.pace is Pace.WALL
    await rig.until(lambda rows: readings(rows, "gpu_temp_c"))
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
    streamed = readings(rows, "inlet_temp_c")[0]
    assert streamed.time_quality is None
    assert 0 <= streamed.received_at_ns - streamed.observed_at_ns < 100 * 10**9


async def test_change_in_the_machine_is_an_event(rig: Any) -> None:
    """A power supply that is pulled is an event of kind bmc that names it."""
    await rig.serve()
    await rig.watch()
    await rig.until(lambda rows: readings(rows, "presence"))
    rig.chassis.psu_is_present[1] = False
    event = await rig.until(lambda rows: [row for row in rows if isinstance(row, Event)])
    assert event[0].kind == "bmc"
    assert "/Chassis/Baseboard/Sensors/PSU_1_Input_Power" in event[0].detail


async def test_stream_that_ends_is_opened_again_and_its_gap_is_told(rig: Any) -> None:
    """After the end of a stream there is a gap from the last byte on, then ok again, and readings go on."""
    bmc = await rig.serve()
    await rig.watch()
    await rig.until(lambda rows: len(readings(rows, "inlet_temp_c")) > 2)
    heard_ns = readings(rig.rows, "inlet_temp_c")[-1].received_at_ns
    bmc.streams.close_all()
    await rig.until(lambda rows: "gap" in states(rows))
    gap = next(row for row in rig.rows if isinstance(row, SourceState) and row.state == "gap")
    assert gap.observed_at_ns >= heard_ns
    assert gap.received_at_ns > gap.observed_at_ns
    await rig.until(lambda rows: states(rows)[-1] == "ok")
    count = len(readings(rig.rows, "inlet_temp_c"))
    await rig.until(lambda rows: len(readings(rows, "inlet_temp_c")) > count + 2)


async def test_session_that_expires_is_renewed_once(rig: Any) -> None:
    """When the BMC has forgotten the session, the next request logs in again, and only once."""
    bmc = await rig.serve()
    await rig.watch()
    await rig.until(lambda rows: len(readings(rows, "inlet_temp_c")) > 1)
    assert list(bmc.accounts.sessions) == ["1"]
    bmc.accounts.sessions.clear()
    bmc.streams.close_all()
    await rig.until(lambda rows: "gap" in states(rows))
    count = len(readings(rig.rows, "inlet_temp_c"))
    await rig.until(lambda rows: len(readings(rows, "inlet_temp_c")) > count + 2)
    assert list(bmc.accounts.sessions) == ["2"]


async def test_bmc_that_is_away_is_unreachable_until_it_is_back(rig: Any) -> None:
    """A BMC that does not answer is `unreachable`, and `ok` with fresh readings when it is back."""
    await rig.serve()
    await rig.watch()
    await rig.until(lambda rows: readings(rows, "inlet_temp_c"))
    await rig.bmc.stop()
    await rig.until(lambda rows: states(rows)[-1] == "unreachable")
    await rig.serve()
    count = len(readings(rig.rows, "inlet_temp_c"))
    await rig.until(lambda rows: states(rows)[-1] == "ok" and len(readings(rows, "inlet_temp_c")) > count + 2)


async def test_wrong_password_is_unauthorized_and_not_hammered(rig: Any) -> None:
    """Wrong credentials are a state of the source."""
    await rig.serve()
    await rig.watch(password="wrong")
    await rig.until(lambda rows: states(rows) == ["unauthorized"])


async def test_session_is_given_back(rig: Any) -> None:
    """Closing the source ends the session at the BMC."""
    bmc = await rig.serve()
    source = await rig.watch()
    await rig.until(lambda rows: readings(rows, "inlet_temp_c"))
    assert len(bmc.accounts.sessions) == 1
    await source.close()
    assert bmc.accounts.sessions == {}


async def test_bmc_without_metric_streams_is_polled_without_repetition(rig: Any) -> None:
    """Where the stream delivers no reports they are polled, and a value is passed on once per time of the BMC."""
    await rig.serve(profile="openbmc")
    await rig.watch()
    await rig.until(lambda rows: len(readings(rows, "gpu_temp_c")) >= 24)
    stamps = [(row.sensor, row.observed_at_ns) for row in readings(rig.rows, "gpu_temp_c")]
    assert len(stamps) == len(set(stamps))
