"""Readings of the BMCs of an emulated fleet in bulk, hourly; they answer also while their host is down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from emulators.chassis import FANS, PSUS
from emulators.defects import Defects
from emulators.draws import Flags
from emulators.history_columns import constant, named, rows_of, timestamps
from emulators.layout import HOUR_NS, NS
from emulators.telemetry import Columns
from emulators.world import World
from ingest.schema import CHASSIS_READINGS


@dataclass(frozen=True)
class Sensor:
    """One series of a BMC: the column (and the part of it) that it shows, and how it is named."""

    column: str
    part: int
    path: str
    quantity: str
    device: str
    unit: str = ""
    texts: tuple[str, ...] = ()


def _sensors() -> tuple[Sensor, ...]:
    sensors = "/Chassis/Baseboard/Sensors/"
    listed = [
        Sensor("inlet_temp_c", 0, sensors + "Inlet_Temp", "inlet_temp_c", "chassis", "°C"),
        Sensor("outlet_temp_c", 0, sensors + "Outlet_Temp", "outlet_temp_c", "chassis", "°C"),
        Sensor("power_w", 0, sensors + "Total_Power", "power_w", "chassis", "W"),
        Sensor("power_is_on", 0, "/Systems/System#/PowerState", "power_state", "chassis", "", ("Off", "On")),
    ]
    listed += [Sensor("fan_rpm", i, f"{sensors}Fan_{i}_Speed", "fan_rpm", f"fan{i}", "RPM") for i in range(FANS)]
    for i in range(PSUS):
        supply = f"{sensors}PSU_{i}_Input_"
        listed.append(Sensor("psu_input_w", i, supply + "Power", "psu_input_w", f"psu{i}", "W"))
        listed.append(Sensor("psu_input_v", i, supply + "Voltage", "psu_input_v", f"psu{i}", "V"))
        listed.append(Sensor("psu_is_present", i, supply + "Power#/Status/State", "presence", f"psu{i}", "", ("Absent", "Enabled")))
    listed += [Sensor("gpu_temps_c", i, f"{sensors}HGX_GPU_{i}_TEMP_0", "gpu_temp_c", f"gpu{i}", "°C") for i in range(8)]
    return tuple(listed)


SENSORS = _sensors()


def chassis_readings(world: World, from_ns: int, until_ns: int) -> pa.Table:
    """Read all BMCs once an hour."""
    due = np.arange(from_ns, until_ns, HOUR_NS, dtype=np.int64)
    nodes = np.repeat(np.arange(len(world.nodes)), len(due))
    at = np.tile(due, len(world.nodes))
    read = world.chassis.columns(nodes, at)
    received = at + Defects(world.spec).latency_ns(nodes, (at - world.spec.start_ns) // (world.spec.cadence_s * NS))
    common = {
        "node": named(pa.array([node.name for node in world.nodes]), nodes),
        "observed_at": timestamps(at),
        "received_at": timestamps(received),
        "source": constant("redfish", np.ones(len(nodes), bool)),
    }
    shown = [sensor for sensor in SENSORS if sensor.part < _parts(read[sensor.column])]
    series = [rows_of(CHASSIS_READINGS, common | _series(sensor, _part(read, sensor), _is_blank(read, sensor))) for sensor in shown]
    return pa.concat_tables(series, promote_options="none")


def _series(sensor: Sensor, values: NDArray[Any], is_blank: Flags) -> dict[str, Any]:
    everywhere = np.ones(len(values), bool)
    return {
        "sensor": constant(sensor.path, everywhere),
        "quantity": constant(sensor.quantity, everywhere),
        "device": constant(sensor.device, everywhere),
        "value": pa.array(values.astype(np.float64), mask=is_blank),
        "unit": constant(sensor.unit, everywhere & bool(sensor.unit)),
        "text": named(pa.array(sensor.texts), values.astype(np.int64)) if sensor.texts else constant("", ~everywhere),
        "quality": constant("blank", is_blank),
    }


def _parts(values: NDArray[Any]) -> int:
    return 1 if values.ndim == 1 else int(values.shape[1])


def _part(read: Columns, sensor: Sensor) -> NDArray[Any]:
    values = read[sensor.column]
    return values if values.ndim == 1 else np.ascontiguousarray(values[:, sensor.part])


def _is_blank(read: Columns, sensor: Sensor) -> Flags:
    """Tell where a power supply is not there to be measured."""
    present: Flags = read["psu_is_present"][:, sensor.part % PSUS]
    return ~present if sensor.column in ("psu_input_w", "psu_input_v") else np.zeros(len(present), bool)
