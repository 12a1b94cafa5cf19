"""The machine behind a BMC: its parts by the names of the profile, and its state as sensors show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from emulators.bmc.profile import Profile
from emulators.state import ChassisState, GpuState

State = tuple[ChassisState, list[GpuState]]
ReadState = Callable[[], State]
ROOT = "/redfish/v1"
_TEMPERATURE, _POWER, _ROTATION, _VOLTAGE = ("Temperature", "Cel"), ("Power", "W"), ("Rotational", "RPM"), ("Voltage", "V")


@dataclass(frozen=True, kw_only=True)
class Sensor:
    """One sensor at one instant; `value` is None while its part is absent or lost."""

    path: str
    reading_type: str
    units: str
    context: str
    value: float | None
    is_present: bool = True
    basis: str | None = None

    @property
    def id(self) -> str:
        """Name the sensor."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Machine:
    """Paths of a machine's parts."""

    profile: Profile
    read_state: ReadState

    @property
    def system(self) -> str:
        """Tell the path of the computer system."""
        return f"{ROOT}/Systems/{self.profile.system}"

    @property
    def chassis(self) -> str:
        """Tell the path of the node's chassis."""
        return f"{ROOT}/Chassis/{self.profile.chassis}"

    def gpu(self, slot: int) -> str:
        """Name a GPU as this BMC does."""
        return self.profile.gpu.format(slot + self.profile.first_gpu)

    def processor(self, slot: int) -> str:
        """Tell the path of a GPU's processor."""
        return f"{self.system}/Processors/{self.gpu(slot)}"

    def memory(self, slot: int) -> str:
        """Tell the path of a GPU's memory."""
        return f"{self.system}/Memory/{self.gpu(slot)}_DRAM_0"

    def gpu_chassis(self, slot: int) -> str:
        """Tell the path of the chassis that holds a GPU's sensors."""
        return f"{ROOT}/Chassis/HGX_{self.gpu(slot)}" if self.profile.reports == "hgx" else self.chassis

    def chassis_paths(self) -> list[str]:
        """List all chassis."""
        chassis, _ = self.read_state()
        return list(dict.fromkeys([self.chassis, *(self.gpu_chassis(slot) for slot in range(len(chassis.gpu_temps_c)))]))

    def sensors(self) -> list[Sensor]:
        """List the sensors with their readings."""
        chassis, gpus = self.read_state()
        by_slot = {gpu.gpu_index: gpu for gpu in gpus if not gpu.is_lost and not gpu.is_hidden}
        is_known = bool(gpus)
        found = [*self._of_chassis(chassis)]
        for slot, temp_c in enumerate(chassis.gpu_temps_c):
            gpu = by_slot.get(slot)
            found.append(self._gpu_sensor(slot, "TEMP_0", "Temperature", None if is_known and gpu is None else temp_c))
            if self.profile.reports == "hgx":
                found += self._of_hgx_gpu(slot, gpu)
        return found

    def _of_chassis(self, chassis: ChassisState) -> Iterator[Sensor]:
        yield self._sensor("Inlet_Temp", _TEMPERATURE, "Intake", chassis.inlet_temp_c)
        yield self._sensor("Outlet_Temp", _TEMPERATURE, "Exhaust", chassis.outlet_temp_c)
        yield self._sensor("Total_Power", _POWER, "Chassis", chassis.power_w)
        for number, rpm in enumerate(chassis.fan_rpm):
            yield self._sensor(f"Fan_{number}_Speed", _ROTATION, "Fan", rpm)
        for number, is_present in enumerate(chassis.psu_is_present):
            power_w, volts = (values[number] if is_present else None for values in (chassis.psu_input_w, chassis.psu_input_v))
            yield self._sensor(f"PSU_{number}_Input_Power", _POWER, "PowerSupply", power_w, is_present=is_present)
            yield self._sensor(f"PSU_{number}_Input_Voltage", _VOLTAGE, "PowerSupply", volts, is_present=is_present)

    def _of_hgx_gpu(self, slot: int, gpu: GpuState | None) -> Iterator[Sensor]:
        yield self._gpu_sensor(slot, "TEMP_1", "Temperature", gpu.thermal_margin_c if gpu else None, basis="Headroom")
        yield self._gpu_sensor(slot, "DRAM_0_Temp_0", "Temperature", gpu.memory_temp_c if gpu else None)
        yield self._gpu_sensor(slot, "Power_0", "Power", gpu.power_w if gpu else None, units="W")
        yield self._gpu_sensor(slot, "Energy_0", "EnergyJoules", gpu.energy_mj_total / 1000 if gpu else None, units="J")

    def _sensor(self, name: str, kind: tuple[str, str], context: str, value: float | None, *, is_present: bool = True) -> Sensor:
        reading_type, units = kind
        path = f"{self.chassis}/Sensors/{name}"
        return Sensor(path=path, reading_type=reading_type, units=units, context=context, value=value, is_present=is_present)

    def _gpu_sensor(self, slot: int, name: str, kind: str, value: float | None, *, units: str = "Cel", basis: str | None = None) -> Sensor:
        prefix = f"HGX_{self.gpu(slot)}" if self.profile.reports in ("hgx", "plain") else self.gpu(slot)
        path = f"{self.gpu_chassis(slot)}/Sensors/{prefix}_{name}"
        return Sensor(path=path, reading_type=kind, units=units, context="GPU", value=value, basis=basis)
