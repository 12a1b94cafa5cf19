"""What is not streamed is polled: reports, sensors, single resources and logs, each of them gently."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from emulators.bmc.faults import NO_LICENCE, Rule
from emulators.bmc.profile import PROFILES
from ingest.redfish.browse import members
from ingest.redfish.outcomes import Outcome, Refused
from ingest.redfish.payloads import Body
from ingest.redfish.polls import period_of
from ingest.redfish.resources import point
from ingest.redfish.service import Report
from ingest.redfish.values import ABSENT


def gets(bmc: Any, ending: str) -> int:
    return sum(seen.method == "GET" and seen.target.endswith(ending) for seen in bmc.seen)


async def test_hgx_board_is_polled_and_named_by_uuid(rig: Any, eight_gpus: Any) -> None:
    """An HGX BMC's reports on request are polled; a GPU is its UUID although the BMC counts from one."""
    eight_gpus[2].temp_c = 66.0
    rig.gpus, rig.chassis.gpu_temps_c = eight_gpus, [30.0] * 2 + [66.0] + [30.0] * 5
    eight_gpus[2].links[5].recovery_total = 9
    eight_gpus[2].remap_pending = True
    eight_gpus[2].remap_banks_low = 3
    eight_gpus[2].sram_threshold_exceeded = True
    await rig.serve(profile="hgx")
    await rig.watch()
    await rig.until(
        lambda _: rig.readings("nvlink_recovery_total") and rig.readings("gpu_temp_c") and rig.readings("sram_threshold_exceeded")
    )
    uuid = eight_gpus[2].gpu_uuid
    assert next(r.value for r in rig.readings("gpu_temp_c") if r.device == uuid) == 66.0
    assert next(r.sensor for r in rig.readings("gpu_temp_c") if r.device == uuid).endswith("HGX_GPU_SXM_3_TEMP_0")
    assert next(r.value for r in rig.readings("nvlink_recovery_total") if r.device == f"{uuid}/nvlink5") == 9.0
    assert next(r.value for r in rig.readings("row_remap_pending") if r.device == f"{uuid}/dram0") == 1.0
    assert next(r.value for r in rig.readings("remap_banks_low") if r.device == f"{uuid}/dram0") == 3.0
    assert next(r.value for r in rig.readings("sram_threshold_exceeded") if r.device == uuid) == 1.0
    assert "poll (on request)" in rig.details


@pytest.mark.parametrize("profile", ["openbmc", "idrac9", "idrac10", "xcc", "ilo", "ome"])
async def test_every_vendor_tells_the_nodes_power(rig: Any, profile: str, eight_gpus: Any) -> None:
    """Streamed or polled, the power of the node arrives under one name from every kind of BMC."""
    rig.gpus = eight_gpus
    await rig.serve(profile=profile)
    await rig.watch()
    await rig.until(lambda _: [r for r in rig.readings("power_w") if r.device == "chassis"])
    assert {(r.value, r.unit) for r in rig.readings("power_w") if r.device == "chassis"} == {(4800.0, "W")}


async def test_value_is_passed_on_once_per_time_of_the_bmc(rig: Any) -> None:
    """A report that is polled faster than it changes gives each value once."""
    bmc = await rig.serve(profile="hgx")
    stamp = rig.clock.now_ns()
    bmc.now_ns = lambda: stamp  # type: ignore[method-assign]  # a BMC whose clock stands
    await rig.watch()
    await rig.until(lambda _: gets(bmc, "/HGX_PlatformEnvironmentMetrics_0") >= 5)
    assert len(rig.readings("inlet_temp_c")) == 1


async def test_clock_that_was_never_set_is_marked_until_it_jumps(rig: Any) -> None:
    """Readings of a BMC that thinks it is 1970 are placed at their receipt and say so; after the clock is set they are the BMC's own."""
    bmc = await rig.serve()
    bmc.clock_offset_ns = -rig.clock.now_ns()
    await rig.watch()
    await rig.until(lambda _: len(rig.readings("inlet_temp_c")) >= 2)
    unset = rig.readings("inlet_temp_c")[0]
    assert (unset.time_quality or "").startswith("clock_unset:1970-01-01T")
    assert unset.observed_at_ns == unset.received_at_ns
    bmc.clock_offset_ns = 0
    await rig.until(lambda _: rig.readings("inlet_temp_c")[-1].time_quality is None)


async def test_gpu_that_vanishes_is_absent_once(rig: Any, eight_gpus: Any) -> None:
    """The series of a GPU that a report no longer holds are absent in one row each."""
    rig.gpus = eight_gpus
    await rig.serve(profile="hgx")
    await rig.watch()
    await rig.until(lambda _: len(rig.readings("hbm_ecc_corr_total")) >= 8)
    gone = eight_gpus[4].gpu_uuid
    eight_gpus[4].is_lost = True
    rows = await rig.until(lambda _: [r for r in rig.readings("hbm_ecc_corr_total") if r.quality == "absent"])
    count = len(rig.readings("hbm_ecc_corr_total"))
    await rig.until(lambda _: len(rig.readings("hbm_ecc_corr_total")) >= count + 14)
    assert [(row.device, row.value) for row in rows] == [(f"{gone}/dram0", None)]
    assert len([r for r in rig.readings("hbm_ecc_corr_total") if r.quality == "absent"]) == 1


@pytest.mark.parametrize(("expand", "reads_each"), [("none", True), ("lossy", True), ("full", False)])
async def test_bmc_without_telemetry_service_is_read_by_its_sensors(rig: Any, expand: str, reads_each: bool) -> None:
    """Where there are no reports the sensors are read, in one answer where the BMC expands its collections without losing readings."""
    rig.chassis.psu_is_present[0] = False
    bmc = await rig.serve(profile=replace(PROFILES["strict"], has_reports=False, expand=expand))
    await rig.watch()
    await rig.until(lambda _: len(rig.readings("inlet_temp_c")) >= 2)
    assert {(r.value, r.unit) for r in rig.readings("power_w")} == {(4800.0, "W")}
    assert {(r.value, r.quality) for r in rig.readings("psu_input_w") if r.device == "psu0"} == {(None, "blank")}
    assert (gets(bmc, "/Sensors/Inlet_Temp") > 0) == reads_each
    assert sum("$expand" in seen.target for seen in bmc.seen) == {"none": 0, "lossy": 1}.get(expand, gets(bmc, "levels=1)"))


async def test_sensor_with_an_unknown_name_is_asked_what_it_measures(rig: Any) -> None:
    """A sensor that no table knows is read once, and its readings are mapped from then on."""
    path = "/redfish/v1/Chassis/Baseboard/Sensors/Inlet_Temp"
    odd = {
        "@odata.id": "/redfish/v1/Chassis/B/Sensors/x7",
        "ReadingType": "Temperature",
        "ReadingUnits": "Cel",
        "PhysicalContext": "Intake",
    }

    def setup(bmc: Any) -> None:
        bmc.faults.rules.append(Rule("/redfish/v1/Chassis/B/Sensors/x7", 200, odd))
        make = bmc.report

        def renamed(report: Any) -> Any:
            body = make(report)
            for value in body["MetricValues"]:
                if value["MetricProperty"].startswith(path):
                    value["MetricProperty"] = "/redfish/v1/Chassis/B/Sensors/x7"
            return body

        bmc.report = bmc.tree._make_report = renamed

    bmc = await rig.serve(setup=setup)
    await rig.watch()
    await rig.until(lambda _: rig.readings("inlet_temp_c"))
    assert [r.sensor for r in rig.readings("raw")] != []
    assert gets(bmc, "/x7") == 1


async def test_report_without_a_licence_is_asked_once(rig: Any) -> None:
    """A report that is not licensed is unavailable at once and left alone for a day; the others go on."""
    rule = Rule("*/MetricReports/HGX_MemoryMetrics_0", 403, NO_LICENCE)
    bmc = await rig.serve(profile="hgx", setup=lambda bmc: bmc.faults.rules.append(rule))
    await rig.watch()
    await rig.until(lambda _: gets(bmc, "/HGX_PlatformEnvironmentMetrics_0") >= 4 and rig.states[-1] == "partial")
    assert "unavailable (not_licensed)" in rig.details
    assert gets(bmc, "/MetricReports/HGX_MemoryMetrics_0") == 1


async def test_events_come_from_the_log_where_there_is_no_stream(rig: Any) -> None:
    """Without a stream new entries of the log are events; what the log held before is history."""
    bmc = await rig.serve(
        profile="hgx", report_interval_s=10_000.0, setup=lambda bmc: bmc.faults.rules.append(Rule("*/EventService/SSE", 501))
    )
    bmc.send_event("Test.1.0.Before", "before")
    await rig.watch()
    await rig.until(lambda _: gets(bmc, "/Entries") >= 1)
    bmc.send_event("Test.1.0.After", "after", bmc.machine.processor(0))
    await rig.until(lambda _: rig.events)
    assert [event.detail.partition('"message":"')[2].partition('"')[0] for event in rig.events] == ["after"]


async def test_broken_resource_costs_only_itself(rig: Any, eight_gpus: Any) -> None:
    """A resource that answers 500 hides nothing else, while the BMC is looked over and while it is polled; when it is mended it counts."""
    rig.gpus = eight_gpus
    broken = [Rule("*/Memory", 500), Rule("*/PowerSupplies/PSU_1", 500), Rule("*/MetricReports/HGX_MemoryMetrics_0", 500)]
    bmc = await rig.serve(profile="hgx", setup=lambda bmc: bmc.faults.rules.extend(broken))
    await rig.watch()
    await rig.until(lambda _: rig.readings("presence") and rig.readings("gpu_temp_c") and rig.states[-1] == "partial")
    assert {reading.device for reading in rig.readings("presence")} == {"psu0", "psu2", "psu3"}
    bmc.faults.rules.clear()
    await rig.until(lambda _: rig.readings("row_remap_pending") and rig.readings("hbm_ecc_corr_total"))
    assert rig.states[-1] == "ok"


async def test_log_tells_what_happened_after_the_stream_was_lost(rig: Any) -> None:
    """When a stream is refused that was open before, the log's entries since then are events, once each."""
    bmc = await rig.serve(profile="hgx", report_interval_s=10_000.0)
    await rig.watch()
    await rig.until(lambda _: bmc.streams.readers and rig.states)
    bmc.send_event("Test.1.0.One", "one")
    await rig.until(lambda _: rig.events)
    bmc.faults.rules.append(Rule("*/EventService/SSE", 501))
    bmc.streams.close_all()
    await rig.until(lambda _: "stream" not in rig.states and gets(bmc, "/EventService/SSE") >= 2)
    bmc.send_event("Test.1.0.Two", "two")
    await rig.until(lambda _: len(rig.events) >= 2)
    bmc.send_event("Test.1.0.Three", "three")
    await rig.until(lambda _: len(rig.events) >= 3)
    assert [event.detail.partition('"message":"')[2].partition('"')[0] for event in rig.events] == ["one", "two", "three"]


async def test_null_members_and_pages_of_a_collection() -> None:
    """`Members: null` is empty; pages are followed to their end, also when they lead in a circle."""
    pages: dict[str, Any] = {
        "/c": {"Members": [{"@odata.id": "/1"}, None, {"x": 1}], "Members@odata.nextLink": "/c?$skip=1"},
        "/c?$skip=1": {"Members": [{"@odata.id": "/2"}], "Members@odata.nextLink": "/c"},
        "/null": {"Members": None},
    }

    class Pages:
        async def get(self, path: str, *, query: str = "") -> Body:
            name = f"{path}?{query}" if query else path
            if name not in pages:
                raise Refused(Outcome.MISSING, 404)
            return pages[name]

    assert await members(Pages(), "/c") == ["/1", "/2"]
    assert await members(Pages(), "/null") == []
    assert await members(Pages(), "/gone") == []
    assert await members(Pages(), None) == []


@pytest.mark.parametrize(
    ("name", "recurrence_s", "period_s"),
    [
        ("HGX_PlatformEnvironmentMetrics_0", None, 10.0),
        ("HGX_ProcessorPortMetrics_0", None, 60.0),
        ("HGX_ProcessorPortGPMMetrics_0", None, 10.0),
        ("HGX_ProcessorResetMetrics_0", None, 30.0),
        ("HGX_MemoryMetrics_0", None, 10.0),
        ("PowerMetrics", None, 60.0),
        ("PowerMetrics", 300.0, 300.0),
        ("Resources", None, 300.0),
    ],
)
def test_periods(name: str, recurrence_s: float | None, period_s: float) -> None:
    """A report is read at the pace of its kind, never faster than it is made."""
    assert period_of(Report(name=name, path="/r", recurrence_s=recurrence_s)) == period_s


def test_pointers_lead_through_objects() -> None:
    """A pointer leads to a member or nowhere, by NVIDIA's old spelling too."""
    body = {"Oem": {"Nvidia": {"RowRemapping": {"LowAvailablityBankCount": 3}}}, "List": [1]}
    assert point(body, "/Oem/Nvidia/RowRemapping/LowAvailabilityBankCount") == 3
    assert point(body, "/List/0") is ABSENT
    assert point(body, "/Oem/Other") is ABSENT
