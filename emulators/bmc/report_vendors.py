"""The metric reports of Dell's iDRAC, Lenovo's XCC and HPE's iLO, and the choice among all."""

from __future__ import annotations

from collections.abc import Iterator

from emulators.bmc import report_hgx
from emulators.bmc.machine import Machine
from emulators.bmc.messages import Body
from emulators.bmc.reports import Metric, Report, bare_sensors, decimal, platform_metrics
from emulators.state import GpuState


def reports_of(kind: str) -> tuple[Report, ...]:
    """List the reports of a kind of BMC."""
    return {
        "plain": (Report(name="PlatformMetrics", metrics=platform_metrics),),
        "openbmc": (Report(name="PlatformMetrics", metrics=bare_sensors),),
        "hgx": report_hgx.reports(),
        "dell": _DELL,
        "lenovo": (Report(name="PowerMetrics", metrics=_power_control), Report(name="ThermalMetrics", metrics=_thermal)),
        "hpe": (Report(name="PowerMetrics", metrics=_power_control),),
    }[kind]


def _row(metric_id: str, value: str, fqdd: str, label: str) -> Metric:
    """Write a value as iDRAC does: the metric id repeats, the FQDD tells the component."""
    dell: Body = {
        "@odata.type": "#DellMetricReportValue.v1_0_0.DellMetricReportValue",
        "ContextID": fqdd,
        "Label": f"{label} {metric_id}",
        "Source": "PMT",
        "FQDD": fqdd,
    }
    return Metric(metric_id=metric_id, value=value, oem={"Dell": dell})


def _thermal_sensor(machine: Machine) -> list[Metric]:
    chassis, _ = machine.read_state()
    readings = {"SystemBoardInletTemp": chassis.inlet_temp_c, "SystemBoardExhaustTemp": chassis.outlet_temp_c}
    readings |= {f"GPUTemp{machine.profile.first_gpu + slot}": temp_c for slot, temp_c in enumerate(chassis.gpu_temps_c)}
    return [_row("TemperatureReading", str(round(value)), f"iDRAC.Embedded.1#{name}", name) for name, value in readings.items()]


def _fan_sensor(machine: Machine) -> list[Metric]:
    chassis, _ = machine.read_state()
    fans = enumerate(chassis.fan_rpm, 1)
    return [_row("RPMReading", str(round(rpm)), f"Fan.Embedded.{number}A", f"Fan {number}") for number, rpm in fans]


def _power(machine: Machine) -> list[Metric]:
    chassis, _ = machine.read_state()
    return [
        _row("SystemInputPower", str(round(sum(chassis.psu_input_w))), "PowerMetrics", "System Input"),
        _row("SystemPowerConsumption", str(round(chassis.power_w)), "PowerMetrics", "System"),
    ]


def _supplies(machine: Machine) -> list[Metric]:
    chassis, _ = machine.read_state()
    found = []
    for number, is_present in enumerate(chassis.psu_is_present):
        if is_present:  # a supply that is not there is left out
            fqdd = f"PSU.Slot.{number + 1}"
            found.append(_row("WattsReading", decimal(chassis.psu_input_w[number]), fqdd, f"PS{number + 1} Input"))
            found.append(_row("VoltageReading", decimal(chassis.psu_input_v[number]), fqdd, f"PS{number + 1} Voltage"))
    return found


def _gpu_metrics(machine: Machine) -> list[Metric]:
    return [metric for gpu in machine.read_state()[1] if not gpu.is_lost for metric in _gpu(gpu, machine.gpu(gpu.gpu_index))]


def _gpu(gpu: GpuState, fqdd: str) -> Iterator[Metric]:
    yield _row("PrimaryTemperature", str(round(gpu.temp_c)), fqdd, "GPU")
    if gpu.memory_temp_c is not None:
        yield _row("MemoryTemperature", str(round(gpu.memory_temp_c)), fqdd, "GPU")
    yield _row("PowerConsumption", str(round(gpu.power_w * 10) * 100), fqdd, "GPU")  # mW in steps of 100
    yield _row("GPUUsage", str(round(gpu.gpu_util_ratio * 100)), fqdd, "GPU")
    yield _row("GPUHealth", "OK", fqdd, "GPU")
    yield _row("PowerBrakeState", "Set" if gpu.clock_event_reasons & 0x80 else "Released", fqdd, "GPU")


def _gpu_statistics(machine: Machine) -> list[Metric]:
    found = []
    for gpu in machine.read_state()[1]:
        counters = {
            "SBECounterFB": gpu.dram_ce_volatile_total,
            "DBECounterFB": gpu.dram_ue_volatile_total,
            "CumulativeSBECounterFB": gpu.dram_ce_aggregate_total,
            "CumulativeDBECounterFB": gpu.dram_ue_aggregate_total,
        }
        found += [_row(name, str(value), machine.gpu(gpu.gpu_index), "GPU") for name, value in counters.items()]
    return found


_DELL = (
    Report(name="ThermalSensor", metrics=_thermal_sensor),
    Report(name="FanSensor", metrics=_fan_sensor),
    Report(name="PowerMetrics", metrics=_power),
    Report(name="Sensor", metrics=_supplies),
    Report(name="GPUMetrics", metrics=_gpu_metrics),
    Report(name="GPUStatistics", metrics=_gpu_statistics),
)


def _power_control(machine: Machine) -> list[Metric]:
    """Write power as integers, by properties of the deprecated Power resource, as XCC and iLO do."""
    chassis, _ = machine.read_state()
    base = f"{machine.chassis}/Power#"
    metrics = [Metric(metric_id="PowerConsumedWatts", prop=f"{base}/PowerControl/0/PowerConsumedWatts", value=str(round(chassis.power_w)))]
    for number, is_present in enumerate(chassis.psu_is_present):
        if is_present:
            watts = str(round(chassis.psu_input_w[number]))
            metrics.append(Metric(metric_id="PowerInputWatts", prop=f"{base}/PowerSupplies/{number}/PowerInputWatts", value=watts))
    return metrics


def _thermal(machine: Machine) -> list[Metric]:
    chassis, _ = machine.read_state()
    base = f"{machine.chassis}/Thermal#"
    ambient = Metric(metric_id="AmbientTemp", prop=f"{machine.chassis}/Sensors/Inlet_Temp#/Reading", value=str(round(chassis.inlet_temp_c)))
    fans = enumerate(chassis.fan_rpm)
    return [ambient, *(Metric(metric_id="Fan", prop=f"{base}/Fans/{number}/Reading", value=str(round(rpm))) for number, rpm in fans)]
