"""A node's state as its BMC's sensors show it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from emulators.state import ChassisState, GpuState

State = tuple[ChassisState, list[GpuState]]
ReadState = Callable[[], State]
CHASSIS = "/redfish/v1/Chassis/Baseboard"
SYSTEM = "/redfish/v1/Systems/System"


@dataclass(frozen=True, kw_only=True)
class Sensor:
    """One sensor at one instant; `value` is None while its part is absent."""

    id: str
    reading_type: str
    units: str
    context: str
    value: float | None
    is_present: bool = True

    @property
    def path(self) -> str:
        """Tell where the sensor is found."""
        return f"{CHASSIS}/Sensors/{self.id}"


def sensors_of(state: State) -> list[Sensor]:
    """List the sensors of a machine with their readings."""
    chassis, gpus = state
    found = [
        _temperature("Inlet_Temp", "Intake", chassis.inlet_temp_c),
        _temperature("Outlet_Temp", "Exhaust", chassis.outlet_temp_c),
        Sensor(id="Total_Power", reading_type="Power", units="W", context="Chassis", value=chassis.power_w),
    ]
    for number, rpm in enumerate(chassis.fan_rpm):
        found.append(Sensor(id=f"Fan_{number}_Speed", reading_type="Rotational", units="RPM", context="Fan", value=rpm))
    for number, is_present in enumerate(chassis.psu_is_present):
        found += _supply(number, is_present, chassis)
    lost = {gpu.gpu_index for gpu in gpus if gpu.is_lost or gpu.is_hidden}
    for slot, temp_c in enumerate(chassis.gpu_temps_c):
        found.append(_temperature(f"HGX_GPU_{slot}_TEMP_0", "GPU", None if slot in lost else temp_c))
    return found


def _temperature(name: str, context: str, value: float | None) -> Sensor:
    return Sensor(id=name, reading_type="Temperature", units="Cel", context=context, value=value)


def _supply(number: int, is_present: bool, chassis: ChassisState) -> list[Sensor]:
    power_w = chassis.psu_input_w[number] if is_present else None
    volts = chassis.psu_input_v[number] if is_present else None
    kinds = (("Input_Power", "Power", "W", power_w), ("Input_Voltage", "Voltage", "V", volts))
    return [
        Sensor(id=f"PSU_{number}_{name}", reading_type=kind, units=units, context="PowerSupply", value=value, is_present=is_present)
        for name, kind, units, value in kinds
    ]
