"""Map a Sensor to its canonical signal: by names that vendors fix, else by what its resource says, else by the words of its id."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ingest.redfish.signal import PRESENCE_WORDS, UNMAPPED, Signal, unit_of


class SensorFacts(NamedTuple):
    """What a Sensor resource says about itself."""

    reading_type: str | None = None
    units: str | None = None
    context: str | None = None  # PhysicalContext
    basis: str | None = None  # ReadingBasis


def read_sensor_facts(body: Mapping[str, object]) -> SensorFacts:
    """Take the facts out of a Sensor resource; a member that is not a string is unknown."""
    members = (body.get(name) for name in ("ReadingType", "ReadingUnits", "PhysicalContext", "ReadingBasis"))
    return SensorFacts(*(member if isinstance(member, str) else None for member in members))


# ReadingType -> what the units have to be, quantity, scale (Sensor_v1.xml).
_READINGS: Mapping[str, tuple[frozenset[str], str, float]] = {
    "Temperature": (frozenset({"Cel"}), "temp_c", 1.0),
    "Power": (frozenset({"W"}), "power_w", 1.0),
    "EnergyJoules": (frozenset({"J"}), "energy_j_total", 1.0),
    "EnergyWh": (frozenset({"W.h"}), "energy_j_total", 3600.0),
    "EnergykWh": (frozenset({"kW.h"}), "energy_j_total", 3_600_000.0),
    "Voltage": (frozenset({"V"}), "voltage_v", 1.0),
    "Current": (frozenset({"A"}), "current_a", 1.0),
    "Frequency": (frozenset({"Hz"}), "frequency_hz", 1.0),
    "Rotational": (frozenset({"RPM", "{rev}/min"}), "fan_rpm", 1.0),
    "Percent": (frozenset({"%"}), "percent_ratio", 0.01),
    "Humidity": (frozenset({"%"}), "humidity_ratio", 0.01),
    "Valve": (frozenset({"%"}), "valve_ratio", 0.01),
    "LiquidFlowLPM": (frozenset({"L/min"}), "flow_lpm", 1.0),
    "LiquidFlow": (frozenset({"L/s"}), "flow_lpm", 60.0),
    "PressurekPa": (frozenset({"kPa"}), "pressure_kpa", 1.0),
    "PressurePa": (frozenset({"Pa"}), "pressure_kpa", 0.001),
    "Pressure": (frozenset({"Pa"}), "pressure_kpa", 0.001),
    "AirFlow": (frozenset({"[cft_i]/min", "[ft_i]3/min", "ft3/min"}), "airflow_cfm", 1.0),
    "AirFlowCMM": (frozenset({"m3/min"}), "airflow_cfm", 35.3147),
    "Heat": (frozenset({"kW"}), "heat_w", 1000.0),
}

_GPU = r"(?:HGX_)?GPU_(?:SXM_)?(\d+)"
_MODULE = r"(?:HGX_)?ProcessorModule_(\d+)"
_NAMED = tuple(
    (re.compile(pattern, re.IGNORECASE), quantity, device)
    for pattern, quantity, device in (
        (rf"{_GPU}_TEMP_0", "gpu_temp_c", "gpu{}"),
        (rf"{_GPU}_TEMP_1", "gpu_temp_margin_c", "gpu{}"),  # headroom to the first throttle limit: falls when hot
        (rf"{_GPU}_Power_0", "gpu_power_w", "gpu{}"),
        (rf"{_GPU}_Energy_0", "gpu_energy_j_total", "gpu{}"),
        (rf"{_GPU}_Voltage_0", "gpu_core_voltage_v", "gpu{}"),
        (rf"{_GPU}_DRAM_(\d+)_Temp_0", "hbm_temp_c", "gpu{}/dram{}"),
        (rf"{_GPU}_DRAM_(\d+)_Power_0", "hbm_power_w", "gpu{}/dram{}"),
        (r"(?:HGX_)?Chassis_0_TotalGPU_Power_0", "gpus_power_w", "chassis"),
        # Regulator sensors first: their names contain those of the CPU's power.
        (rf"{_MODULE}.*(?:VREG_CPU_Power|Vreg_0_CpuPower).*", "cpu_vreg_power_w", "cpu{}"),
        (rf"{_MODULE}.*(?:VREG_SOC_Power|Vreg_0_SocPower).*", "soc_vreg_power_w", "cpu{}"),
        (rf"{_MODULE}.*(?:EDP_Current_Limit|EnforcedEDPc).*", "cpu_edp_limit_w", "cpu{}"),
        (rf"{_MODULE}.*(?:EDP_Peak_Limit|EnforcedEDPp).*", "cpu_edp_peak_limit_w", "cpu{}"),
        (rf"{_MODULE}_CPU_\d+_(?:Temp|TempAvg)_\d+", "cpu_temp_c", "cpu{}"),
        (rf"{_MODULE}_CPU_\d+_TempLimit_\d+", "cpu_temp_limit_c", "cpu{}"),
        (rf"{_MODULE}_CPU_\d+_Power_\d+", "cpu_power_w", "cpu{}"),
        (rf"{_MODULE}_CPU_\d+_Energy_\d+", "cpu_energy_j_total", "cpu{}"),
        (rf"{_MODULE}_Inlet_Temp_\d+", "inlet_temp_c", "module{}"),
        (rf"{_MODULE}_Exhaust_Temp_\d+", "outlet_temp_c", "module{}"),
        (r"HGX_BMC.*_Temp_.*", "bmc_temp_c", "bmc"),
        # Power shelves of Delta; their energy_in and energy_out are gauges.
        (r"ps(\d+)_input_voltage", "psu_input_v", "psu{}"),
        (r"ps(\d+)_input_power", "psu_input_w", "psu{}"),
        (r"ps(\d+)_output_power", "psu_output_w", "psu{}"),
        (r"(?:ps\d+_)?energy_(?:in|out)", "energy_j", "chassis"),
        # Of Lite-On, whose supplies count from 0.
        (r"voltage_p(\d+)_vin", "psu_input_v", "psu{}"),
    )
)

# Kind of reading by the words of an id, where nothing better is known; the first that occurs wins.
_KINDS = (
    (re.compile(r"temp|_tmp"), "temp_c"),
    (re.compile(r"fan.*(?:pwm|percent|duty)"), "fan_ratio"),
    (re.compile(r"fan|tach|rpm"), "fan_rpm"),
    (re.compile(r"energy"), "energy_j_total"),
    (re.compile(r"volt|vin\b|vout\b"), "voltage_v"),
    (re.compile(r"power|pwr|watt"), "power_w"),
    (re.compile(r"curr|amps"), "current_a"),
)
_PARTS = tuple(
    (re.compile(pattern), device)
    for pattern, device in (
        (r"(?:psu|ps|power_?supply)_?(\d+)", "psu{}"),
        (r"gpu_?(?:sxm_?)?(\d+)", "gpu{}"),
        (r"cpu_?(\d+)", "cpu{}"),
        (r"fan\D*(\d+)", "fan{}"),
    )
)
_INLET = re.compile(r"inlet|intake|ambient")
_OUTLET = re.compile(r"outlet|exhaust")
_WHOLE = re.compile(r"total|chassis|system|node|platform")


def signal_of_sensor(path: str, pointer: str, facts: SensorFacts | None) -> Signal:
    """Find the signal of a Sensor's reading or state by its path (`/Chassis/C/Sensors/ID`)."""
    _, _, chassis, _, sensor = path.split("/", 4)
    name = sensor.lower()
    part = _part(name)
    if pointer == "/Status/State":
        quantity = "presence" if part else "state"
        return Signal(quantity, part or f"chassis:{chassis}", words=PRESENCE_WORDS if part else None)
    if pointer:
        return UNMAPPED._replace(device=f"chassis:{chassis}")
    for pattern, named, owner in _NAMED:
        if found := pattern.fullmatch(sensor):
            return Signal(named, owner.format(*found.groups()), unit_of(named))
    kind, scale = _kind(name, facts)
    if kind is None:
        return UNMAPPED._replace(device=part or f"chassis:{chassis}")
    quantity, device = _refine(kind, name, part, facts)
    return Signal(quantity, device or f"chassis:{chassis}", unit_of(quantity), scale)


def _part(name: str) -> str | None:
    for pattern, device in _PARTS:
        if found := pattern.search(name):
            return device.format(*found.groups())
    return None


def _kind(name: str, facts: SensorFacts | None) -> tuple[str | None, float]:
    if facts is None or facts.reading_type is None:
        kind = next((kind for pattern, kind in _KINDS if pattern.search(name)), None)
        return kind, 0.01 if kind == "fan_ratio" else 1.0
    units, kind, scale = _READINGS.get(facts.reading_type, (frozenset[str](), None, 1.0))
    if facts.units not in units:  # type and units contradict each other, or neither is known
        return None, 1.0
    return ("temp_margin_c" if kind == "temp_c" and facts.basis == "Headroom" else kind), scale


def _refine(kind: str, name: str, part: str | None, facts: SensorFacts | None) -> tuple[str, str | None]:
    """Turn a kind of reading into the signal of its part: `temp_c` of an inlet is `inlet_temp_c` of the chassis."""
    context = (facts.context or "") if facts else ""
    if kind == "temp_c" and (context == "Intake" or _INLET.search(name)) and not part:
        return "inlet_temp_c", "chassis"
    if kind == "temp_c" and (context == "Exhaust" or _OUTLET.search(name)) and not part:
        return "outlet_temp_c", "chassis"
    if kind == "power_w" and part is None and _WHOLE.search(name):
        return "power_w", "chassis"
    if part and part.startswith("psu"):
        return _refine_psu(kind, name), part
    if part and part.startswith(("gpu", "cpu")) and kind in ("temp_c", "temp_margin_c", "power_w", "energy_j_total", "voltage_v"):
        return f"{part[:3]}_{kind}", part
    return kind, part


def _refine_psu(kind: str, name: str) -> str:
    side = "output" if "out" in name else "input"
    named = {"power_w": f"psu_{side}_w", "voltage_v": f"psu_{side}_v", "current_a": f"psu_{side}_a", "temp_c": "psu_temp_c"}
    return named.get(kind, "psu_fan_rpm" if kind == "fan_rpm" else kind)
