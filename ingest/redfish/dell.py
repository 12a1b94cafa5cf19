"""Map Dell's metric ids to canonical signals: the id repeats from part to part, the FQDD tells the part.

Units follow `redfishToOtel.yaml` of Dell's iDRAC-Telemetry-Reference-Tools. Ids are compared without case, since their spelling differs
inside the same project. What has no stated unit or is a window of the BMC's own stays `raw`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from ingest.redfish.signal import UNMAPPED, Signal, Words, unit_of
from ingest.schema import ChassisReading

_Row = tuple[str, float]
_HEALTH: Words = {"ok": 1.0, "degraded": 0.0, "critical": 0.0}
_KELVIN = 273.15

# Of a GPU: FQDD Video.Slot.31-1, or the thermal sensor's own name for it, GPUTemp31.
_GPU: Mapping[str, _Row] = {
    "primarytemperature": ("gpu_temp_c", 1.0),
    "secondarytemperature": ("gpu_secondary_temp_c", 1.0),
    "memorytemperature": ("hbm_temp_c", 1.0),
    "boardtemperature": ("gpu_board_temp_c", 1.0),
    "temperaturereading": ("gpu_temp_c", 1.0),
    "powerconsumption": ("gpu_power_w", 0.001),
    "gpuusage": ("gpu_util_ratio", 0.01),
    "gpumemoryusage": ("hbm_used_ratio", 0.01),
    "gpumembandwidthusage": ("hbm_util_ratio", 0.01),
    "gpuclockfrequency": ("gpu_clock_mhz", 1.0),
    "gpumemoryclockfrequency": ("hbm_clock_mhz", 1.0),
    "gpupciecorrectableerrorcount": ("pcie_corr_errors_total", 1.0),
    "sbecounterfb": ("hbm_ecc_corr_volatile_total", 1.0),
    "dbecounterfb": ("hbm_ecc_unc_volatile_total", 1.0),
    "cumulativesbecounterfb": ("hbm_ecc_corr_total", 1.0),
    "cumulativedbecounterfb": ("hbm_ecc_unc_total", 1.0),
    "sberetiredpages": ("pages_retired_sbe_total", 1.0),
    "dberetiredpages": ("pages_retired_dbe_total", 1.0),
}
_SRAM = re.compile(r"(?:cumulative)?(s|d)becounter(?:fbl2cache|gr\w*)")
_GPU_WORDS: Mapping[str, tuple[str, Words]] = {
    "gpuhealth": ("gpu_health", _HEALTH),
    "gpustatus": ("gpu_status", _HEALTH),
    "powerbrakestate": ("power_brake", {"set": 1.0, "released": 0.0}),
    "powersupplystatus": ("power_supply_status", {}),
    "boardpowersupplystatus": ("board_power_supply_status", {}),
    "thermalalertstate": ("thermal_alert", {"pending": 1.0, "notpending": 0.0}),
}

_PARTS: Mapping[str, _Row] = {
    "rpmreading": ("fan_rpm", 1.0),
    "temperaturereading": ("temp_c", 1.0),
    "voltagereading": ("voltage_v", 1.0),
    "ampsreading": ("current_a", 1.0),
    "wattsreading": ("power_w", 1.0),
    "psutemperaturereading": ("psu_temp_c", 1.0),
    "psurpmreading": ("psu_fan_rpm", 1.0),
    "cpupower": ("cpu_power_w", 1.0),
    "pkgpwr": ("cpu_power_w", 1.0),
    "drampwr": ("dram_power_w", 1.0),
    "cpupkgenergy": ("cpu_energy_j_total", 1e-6),
    "drampkgenergy": ("dram_energy_j_total", 1e-6),
    "thermalcrtlcircuitactivation": ("cpu_thermal_throttle_s_total", 0.001),
    "dramthrottling": ("dram_throttle_s_total", 0.001),
    "cpuviolationcounter": ("cpu_violation_s_total", 0.001),
    "cpulimitingcounter": ("cpu_limiting_s_total", 0.001),
    "ddrlimitingcounter": ("dram_limiting_s_total", 0.001),
    "rxerrorpktfcserrors": ("nic_rx_fcs_errors_total", 1.0),
    "rxerrorpktalignmenterrors": ("nic_rx_alignment_errors_total", 1.0),
    "discardedpkts": ("nic_discarded_total", 1.0),
    "rdmatotalprotectionerrors": ("nic_rdma_protection_errors_total", 1.0),
    "rdmatotalprotocolerrors": ("nic_rdma_protocol_errors_total", 1.0),
    "rxbytes": ("nic_rx_bytes_total", 1.0),
    "txbytes": ("nic_tx_bytes_total", 1.0),
    "sfptemperature": ("optic_temp_c", 1.0),
    "sfpvoltage": ("optic_voltage_v", 1.0),
    "txbiascurrent": ("optic_tx_bias_ma", 1.0),
    "txoutputpower": ("optic_tx_power_mw", 1.0),
    "rxinputpower": ("optic_rx_power_mw", 1.0),
    "percentageused": ("drive_used_ratio", 0.01),
    "availablespare": ("drive_spare_ratio", 0.01),
    "criticalwarning": ("drive_critical_warning", 1.0),
    "mediadataintegrityerrorslower": ("drive_media_errors_total", 1.0),
    "drivetemperature": ("drive_temp_c", 1.0),
    "reallocatedblockcount": ("drive_reallocated_total", 1.0),
    "uncorrectableerrorcount": ("drive_uncorrectable_total", 1.0),
    "crcerrorcount": ("drive_crc_errors_total", 1.0),
    "currentpendingsectorcount": ("drive_pending_sectors", 1.0),
    "percentdriveliferemaining": ("drive_life_ratio", 0.01),
    "correctableeccerror": ("dimm_ecc_corr_total", 1.0),
    "uncorrectableeccerror": ("dimm_ecc_unc_total", 1.0),
}
_SUPPLY: Mapping[str, _Row] = {"wattsreading": ("psu_input_w", 1.0), "voltagereading": ("psu_input_v", 1.0)}
_WHOLE: Mapping[str, _Row] = {
    "systeminputpower": ("system_in_power_w", 1.0),
    "systemoutputpower": ("system_out_power_w", 1.0),
    "systempowerconsumption": ("power_w", 1.0),
    "totalcpupower": ("cpu_total_power_w", 1.0),
    "totalmemorypower": ("memory_total_power_w", 1.0),
    "totalfanpower": ("fan_total_power_w", 1.0),
    "totalpciepower": ("pcie_total_power_w", 1.0),
    "totalstoragepower": ("storage_total_power_w", 1.0),
    "totalfpgapower": ("fpga_total_power_w", 1.0),
    "systemheadroominstantaneous": ("power_headroom_w", 1.0),
    "sysracktempdelta": ("air_delta_c", 1.0),
    "psuefficiency": ("psu_efficiency_ratio", 0.01),
    "sysnetairflow": ("airflow_cfm", 1.0),
}

_DEVICES = tuple(
    (re.compile(pattern, re.IGNORECASE), device)
    for pattern, device in (
        (r"Video\.Slot\.(\d+)-\d+", "gpu{}"),
        (r".*#GPUTemp(\d+)", "gpu{}"),
        (r"(?:0x[0-9a-f]+\|\|)?Fan\.Embedded\.(\w+)", "fan{}"),
        (r"PSU\.Slot\.(\d+)", "psu{}"),
        (r"CPU\.Socket\.(\d+)", "cpu{}"),
    )
)
_INLET = re.compile(r".*#SystemBoardInletTemp", re.IGNORECASE)
_OUTLET = re.compile(r".*#SystemBoardExhaustTemp", re.IGNORECASE)


@lru_cache(maxsize=65_536)
def signal_of_metric_id(metric_id: str, context: str) -> Signal:
    """Find the signal of a metric id about the part that `context` (FQDD or ContextID) names."""
    name = metric_id.lower()
    if name == "temperaturereading" and (quantity := _air(context)):
        return Signal(quantity, "chassis", unit_of(quantity))
    if name in _WHOLE:
        return _scaled(_WHOLE[name], "chassis")
    device = device_of(context)
    if device is not None and device.startswith("gpu"):
        return _of_gpu(name, device)
    return _of_part(name, device)


def _of_part(name: str, device: str | None) -> Signal:
    if name == "linkstatus":
        return Signal("link_up", device, words={"up": 1.0, "down": 0.0})
    if name in ("compositetemperature", "compositetemparature"):  # both spellings occur
        return Signal("drive_temp_c", device, "°C", offset=-_KELVIN)
    if device is not None and device.startswith("psu") and name in _SUPPLY:
        return _scaled(_SUPPLY[name], device)
    return _scaled(_PARTS[name], device) if name in _PARTS else UNMAPPED._replace(device=device)


def device_of(context: str) -> str | None:
    """Name the part behind an FQDD; one that no rule knows stays as it is."""
    for pattern, device in _DEVICES:
        if found := pattern.fullmatch(context):
            return device.format(found[1].lower())
    return f"dell:{context}" if context else None


def _air(context: str) -> str | None:
    if _INLET.fullmatch(context):
        return "inlet_temp_c"
    return "outlet_temp_c" if _OUTLET.fullmatch(context) else None


def _of_gpu(name: str, device: str) -> Signal:
    if name in _GPU:
        return _scaled(_GPU[name], device)
    if name in _GPU_WORDS:
        quantity, words = _GPU_WORDS[name]
        return Signal(quantity, device, words=words)
    if found := _SRAM.fullmatch(name):
        volatile = "" if name.startswith("cumulative") else "_volatile"
        return _scaled((f"sram_ecc_{'corr' if found[1] == 's' else 'unc'}{volatile}_total", 1.0), device)
    return UNMAPPED._replace(device=device)


_HALF = re.compile(r"(?P<report>[^:]*):(?P<metric_id>[^:]+)(?P<half>Low|High)(?P<context>:.*)?")


def join_halves(readings: Iterable[ChassisReading]) -> list[ChassisReading]:
    """Join the 32-bit halves (`...Low`, `...High`) of counters into readings of their own, where both are of one instant."""
    halves: dict[tuple[str, str, str, int], dict[str, ChassisReading]] = {}
    for reading in readings:
        if reading.value is not None and reading.sensor[:1] != "/" and (found := _HALF.fullmatch(reading.sensor)):
            key = (found["report"], found["metric_id"], found["context"] or "", reading.observed_at_ns)
            halves.setdefault(key, {})[found["half"]] = reading
    return [_joined(*key[:3], pair["Low"], pair["High"]) for key, pair in halves.items() if len(pair) == 2]


def _joined(report: str, metric_id: str, context: str, *pair: ChassisReading) -> ChassisReading:
    low, high = pair
    signal = signal_of_metric_id(metric_id, context.removeprefix(":"))
    value = ((low.value or 0.0) + 2.0**32 * (high.value or 0.0)) * signal.scale
    is_finite = math.isfinite(value)
    return msgspec.structs.replace(
        low,
        sensor=f"{report}:{metric_id}{context}",
        quantity=signal.quantity,
        value=value if is_finite else None,
        text=None,
        unit=signal.unit,
        quality=low.quality or high.quality if is_finite else "invalid",
    )


def _scaled(row: _Row, device: str | None) -> Signal:
    quantity, scale = row
    return Signal(quantity, device, unit_of(quantity), scale)
