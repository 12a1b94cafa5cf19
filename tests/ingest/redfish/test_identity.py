"""A series has one name whatever form its property comes in, and stands for one part of the machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import RecordRejected
from ingest.redfish.identity import Place, place_of, series_of

SENSOR = "/redfish/v1/Chassis/chassis/Sensors/temp0"


def test_sensor_with_and_without_fragment_is_one_series() -> None:
    """A sensor's path, with `#/Reading` or without, with a slash at its end or without, is the same series."""
    forms = [SENSOR, SENSOR + "#/Reading", SENSOR + "/", SENSOR + "/#/Reading"]
    assert {series_of({"MetricProperty": form}, "X").sensor for form in forms} == {"/Chassis/chassis/Sensors/temp0"}


def test_dell_row_is_named_by_report_metric_and_component() -> None:
    """Without property the series is named by report, metric id and FQDD, else ContextID."""
    fqdd = {"MetricId": "TemperatureReading", "Oem": {"Dell": {"FQDD": "Video.Slot.31-1", "ContextID": "other"}}}
    context = {"MetricId": "TemperatureReading", "MetricProperty": "", "Oem": {"Dell": {"ContextID": "Fan.Embedded.1A"}}}
    assert series_of(fqdd, "ThermalSensor").sensor == "ThermalSensor:TemperatureReading:Video.Slot.31-1"
    assert series_of(context, "ThermalSensor").sensor == "ThermalSensor:TemperatureReading:Fan.Embedded.1A"


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"MetricProperty": "/redfish/v1/Chassis/{TWild}/Power#/PowerControl/0/PowerConsumedWatts"}, "wildcard"),
        ({"MetricProperty": "/0"}, "bad_property"),
        ({"MetricProperty": "/Chassis/1/Sensors/x"}, "bad_property"),
        ({"MetricProperty": ""}, "no_identity"),
        ({"MetricProperty": None, "MetricId": 7}, "no_identity"),
        ({}, "no_identity"),
    ],
)
def test_what_cannot_be_named_is_rejected(entry: dict[str, object], reason: str) -> None:
    """A value that belongs to no series is rejected with its reason."""
    with pytest.raises(RecordRejected) as rejection:
        series_of(entry, "X")
    assert rejection.value.reason == reason


def test_pointer_that_fits_no_resource_is_kept_and_marked() -> None:
    """A pointer into the resource itself as if it were an array is a misfit."""
    assert series_of({"MetricProperty": "/redfish/v1/Chassis/Tray_1/Power#/0/PowerConsumedWatts"}, "X").is_misfit
    assert not series_of({"MetricProperty": "/redfish/v1/Chassis/Tray_1/Power#/PowerControl/0/PowerConsumedWatts"}, "X").is_misfit


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/Systems/HGX_Baseboard_0/Processors/GPU_SXM_3/ProcessorMetrics", Place("processor", "gpu3")),
        ("/Systems/HGX_Baseboard_0/Processors/GPU_3", Place("processor", "gpu3")),
        ("/Systems/HGX_Baseboard_0/Processors/GPU_0/Ports/NVLink_17/Metrics", Place("port", "gpu0/nvlink17")),
        ("/Systems/HGX_Baseboard_0/Processors/GPU_0/Ports/PCIe_0", Place("port", "gpu0/pcie")),
        ("/Systems/HGX_Baseboard_0/Memory/GPU_SXM_8_DRAM_0/MemoryMetrics", Place("memory", "gpu8/dram0")),
        ("/Fabrics/HGX_NVLinkFabric_0/Switches/NVSwitch_2/Ports/NVLink_5/Metrics", Place("port", "nvswitch2/nvlink5")),
        ("/Chassis/HGX_GPU_0/PCIeDevices/GPU_0", Place("pcie_device", "gpu0")),
        ("/Chassis/1/PowerSubsystem/PowerSupplies/PSU_2/Metrics", Place("psu", "psu2")),
        ("/Chassis/1/Sensors/anything", Place("sensor", "")),
        ("/Systems/System", Place("machine", "chassis")),
        ("/UpdateService", None),
    ],
)
def test_places(path: str, place: Place | None) -> None:
    """A resource's path tells the part of the machine."""
    assert place_of(path) == place


@given(st.text(max_size=60), st.text(max_size=20))
def test_any_property_is_named_or_rejected(prop: str, metric_id: str) -> None:
    """No property and metric id raise anything but a rejection."""
    try:
        assert series_of({"MetricProperty": prop, "MetricId": metric_id}, "X").sensor
    except RecordRejected:
        return
