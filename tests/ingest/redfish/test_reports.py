"""A report of any shape becomes rows and counts; no value is lost silently."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulators.bmc.machine import Machine as EmulatedMachine
from emulators.bmc.payload_defects import REPORT_DEFECTS
from emulators.bmc.profile import PROFILES
from emulators.bmc.report_vendors import reports_of
from emulators.bmc.reports import render
from emulators.state import ChassisState
from ingest.clock import parse_time
from ingest.errors import RecordRejected
from ingest.redfish.reports import Machine, decode_report
from ingest.redfish.throttle import SIGNALS
from ingest.schema import ChassisReading

NOW = parse_time("2026-01-02T03:04:10Z")
T = "2026-01-02T03:04:05Z"
INLET = "/redfish/v1/Chassis/C/Sensors/Inlet_Temp"
REASONS = "/redfish/v1/Systems/S/Processors/GPU_0/ProcessorMetrics#/Oem/Nvidia/ThrottleReasons"


def decode(*values: Any, machine: Machine | None = None, **members: Any) -> tuple[list[ChassisReading], Counter[str]]:
    decoded = decode_report({"Id": "X", "MetricValues": list(values), **members}, machine=machine or Machine("n"), received_at_ns=NOW)
    return decoded.readings, +decoded.counts


def value(prop: str = INLET, text: Any = "24", **members: Any) -> dict[str, Any]:
    return {"MetricProperty": prop, "MetricValue": text, "Timestamp": T, **members}


def test_equal_values_of_an_instant_merge() -> None:
    """Two rows of one series, instant and value are one reading; the merge is counted."""
    readings, counts = decode(value(), value(INLET + "#/Reading"))
    assert [reading.value for reading in readings] == [24.0]
    assert counts == {"merged": 1}


def test_different_values_of_an_instant_contradict_each_other() -> None:
    """Two rows of one series and instant with different values leave neither."""
    readings, counts = decode(value(text="24"), value(text="25"), value(text="24"))
    assert [(reading.value, reading.quality) for reading in readings] == [(None, "duplicate_conflict")]
    assert counts["duplicate_conflict"] >= 1


def test_a_bad_value_costs_only_itself() -> None:
    """What is no value, or belongs to no series, is counted by its reason, and the rest is read."""
    readings, counts = decode(None, "text", value("/0"), value("/redfish/v1/Chassis/{C}/x"), {"MetricValue": "1"}, value())
    assert [reading.value for reading in readings] == [24.0]
    assert counts == {"not_a_value": 2, "bad_property": 1, "wildcard": 1, "no_identity": 1}


def test_metric_id_that_repeats_without_context_names_nothing() -> None:
    """A metric id alone names a series only if it is the only one of its report."""
    readings, counts = decode(
        {"MetricId": "A", "MetricValue": "1"}, {"MetricId": "B", "MetricValue": "2"}, {"MetricId": "B", "MetricValue": "3"}
    )
    assert [(reading.sensor, reading.value) for reading in readings] == [("X:A", 1.0)]
    assert counts["no_identity"] == 2


def test_stale_value_is_kept_with_its_flag() -> None:
    """NVIDIA's stale flag marks a value and does not remove it."""
    readings, _ = decode(value(Oem={"Nvidia": {"MetricValueStale": True}}))
    assert [(reading.value, reading.quality) for reading in readings] == [(24.0, "stale")]


def test_gpu_is_named_by_its_uuid_where_the_bmc_tells_it() -> None:
    """The device of a GPU's series is its UUID, with what follows the GPU kept."""
    machine = Machine("n", gpu_uuids={"gpu0": "GPU-aa"})
    readings, _ = decode(
        value("/redfish/v1/Systems/S/Processors/GPU_0/Ports/NVLink_3#/LinkStatus", "LinkUp"),
        value("/redfish/v1/Chassis/C/Sensors/HGX_GPU_0_TEMP_0", "41"),
        value("/redfish/v1/Chassis/C/Sensors/HGX_GPU_1_TEMP_0", "42"),
        machine=machine,
    )
    assert [reading.device for reading in readings] == ["GPU-aa/nvlink3", "GPU-aa", "gpu1"]


def test_throttle_reasons_are_one_signal_each() -> None:
    """The words of one component and instant are one set: each reason is 1 or 0, in whatever case and form they come."""
    sentence = "Clocks are slowed down because GPU or memory has reached its maximum operating temperature"
    readings, _ = decode(value(f"{REASONS}/0", "SwPowerCap"), value(f"{REASONS}/1", sentence))
    derived = {reading.quantity: reading.value for reading in readings if reading.quantity != "throttle_reason_set"}
    assert derived == {
        "throttle_sw_power": 1.0,
        "throttle_hw_slowdown": 0.0,
        "throttle_hw_thermal": 0.0,
        "throttle_hw_power_brake": 0.0,
        "throttle_sync_boost": 0.0,
        "throttle_sw_thermal": 1.0,
    }
    readings, _ = decode(value(REASONS, '["Idle","HWSlowdown"]'))
    assert [reading.quantity for reading in readings if reading.value == 1.0] == ["throttle_hw_slowdown"]


def test_halves_of_a_counter_are_joined() -> None:
    """The 32-bit halves of a Dell counter of one instant are also one reading; halves of different instants are not."""
    context = {"Oem": {"Dell": {"FQDD": "CPU.Socket.1"}}}
    low = {"MetricId": "CPUPkgEnergyLow", "MetricValue": "1000000", "Timestamp": T, **context}
    high = {"MetricId": "CPUPkgEnergyHigh", "MetricValue": "2", "Timestamp": T, **context}
    readings, _ = decode(low, high)
    joined = [(reading.sensor, reading.value) for reading in readings if reading.quantity == "cpu_energy_j_total"]
    assert joined == [("X:CPUPkgEnergy:CPU.Socket.1", (1_000_000 + 2 * 2**32) * 1e-6)]
    readings, _ = decode(low, {**high, "Timestamp": "2026-01-02T03:04:06Z"})
    assert [reading for reading in readings if reading.quantity == "cpu_energy_j_total"] == []


def test_body_without_values_is_no_report() -> None:
    """A report has a list of values or is rejected."""
    with pytest.raises(RecordRejected, match="not_a_report"):
        decode_report({"Id": "X", "MetricValues": None}, machine=Machine("n"), received_at_ns=NOW)


def test_empty_report_is_no_error() -> None:
    """A report may hold nothing."""
    assert decode() == ([], {})


@pytest.mark.parametrize("profile", sorted(PROFILES))
@pytest.mark.parametrize("defect", sorted(REPORT_DEFECTS))
def test_every_value_of_a_defective_report_is_accounted_for(profile: str, defect: str, eight_gpus: Any) -> None:
    """Whatever a vendor's report suffers from, each of its values is a row, merged with one, or counted as rejected."""
    machine = EmulatedMachine(PROFILES[profile], lambda: (ChassisState(node="n", serial="s"), eight_gpus))
    for report in reports_of(PROFILES[profile].reports):
        body: Any = REPORT_DEFECTS[defect](render(report, machine, NOW))
        if defect == "in_event":
            body = body["Events"][0]["Oem"]
        decoded = decode_report(body, machine=Machine("n"), received_at_ns=NOW)
        derived = [reading for reading in decoded.readings if reading.quantity in SIGNALS]
        lost = sum(decoded.counts[reason] for reason in ("merged", "wildcard", "bad_property", "no_identity", "not_a_value"))
        own = len(decoded.readings) - len(derived)
        assert own + lost == len(body["MetricValues"])


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=10)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=8,
)


members = ("MetricProperty", "MetricId", "MetricValue", "Timestamp", "Oem")
entries = st.fixed_dictionaries({}, optional=dict.fromkeys(members, json_values))


@given(st.lists(st.one_of(json_values, entries), max_size=8))
def test_any_json_is_decoded(values: list[Any]) -> None:
    """No list of values raises."""
    readings, counts = decode(*values)
    assert len(readings) + sum(counts.values()) >= len(values)


class Unforeseen(dict[str, Any]):
    """A value that no rule foresaw: to ask for its time fails."""

    def get(self, key: str, default: Any = None) -> Any:
        if key == "Timestamp":
            raise ArithmeticError(key)
        return super().get(key, default)


def test_unforeseen_error_costs_the_value_alone() -> None:
    """A value whose reading fails in a way that nobody thought of is counted, and the rest of the report is read."""
    readings, counts = decode(Unforeseen(value()), value(text="25"))
    assert [reading.value for reading in readings] == [25.0]
    assert counts == {"internal_error": 1}


@pytest.mark.parametrize(
    "text",
    ["P" + "9" * 400 + "D", "P" + "9" * 5000 + "D", "0" * 4990 + "9007199254740993", 10**400],
    ids=["400 digits of days", "5000 digits of days", "zeros", "integer"],
)
def test_number_without_end_costs_itself_alone(text: Any) -> None:
    """A value of hundreds of digits leaves the rest of its report alone."""
    readings, _ = decode(value(INLET + "_2", text), value())
    assert readings[-1].value == 24.0
    assert len(readings) == 2


def test_metric_id_that_is_no_name_costs_itself_alone() -> None:
    """An id that is a number or a list, however long, names no series."""
    readings, counts = decode({"MetricId": 10**5000, "MetricValue": "1"}, {"MetricId": [[]], "MetricValue": "1"}, value())
    assert [reading.value for reading in readings] == [24.0]
    assert counts == {"no_identity": 2}


def test_value_beyond_all_numbers_by_its_unit_is_invalid() -> None:
    """A number that is finite in the BMC's unit and not in ours is invalid, its text kept."""
    readings, _ = decode(value("/redfish/v1/Chassis/C/EnvironmentMetrics#/EnergykWh/Reading", "1e308"))
    assert [(reading.quantity, reading.value, reading.text, reading.quality) for reading in readings] == [
        ("energy_j_total", None, "1e+308", "invalid")
    ]


def test_halves_beyond_all_numbers_are_invalid() -> None:
    """Halves whose sum is no finite number leave a reading without a value."""
    context = {"Timestamp": T, "Oem": {"Dell": {"FQDD": "CPU.Socket.1"}}}
    readings, _ = decode(
        {"MetricId": "CPUPkgEnergyLow", "MetricValue": "1", **context}, {"MetricId": "CPUPkgEnergyHigh", "MetricValue": "1e308", **context}
    )
    joined = [(reading.value, reading.quality) for reading in readings if reading.quantity == "cpu_energy_j_total"]
    assert joined == [(None, "invalid")]
