"""Map a series to its canonical signal: name, unit and conversion.

The tables follow the property names of the DMTF schemas and of NVIDIA's bmcweb (`metric_report_utils.hpp`); Dell's metric ids are in
`dell`, sensors by their names in `sensors`. A pattern is matched against the whole JSON pointer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from ingest.redfish.dell import signal_of_metric_id
from ingest.redfish.identity import Series, place_of
from ingest.redfish.sensors import SensorFacts, signal_of_sensor
from ingest.redfish.signal import PRESENCE_WORDS, UNMAPPED, Signal, Words, unit_of

LINK_WORDS: Words = {"linkup": 1.0, "linkdown": 0.0, "nolink": 0.0}
PCIE_WORDS: Words = {f"gen{generation}": float(generation) for generation in range(1, 8)}
POWER_WORDS: Words = {"on": 1.0, "off": 0.0}


class _Rule(NamedTuple):
    pointer: re.Pattern[str]
    quantity: str  # `{}` takes the pattern's groups, spelled as _SPELL has it
    scale: float = 1.0
    words: Words | None = None


def _rules(*rows: tuple[str, str] | tuple[str, str, float] | tuple[str, str, float, Words]) -> tuple[_Rule, ...]:
    return tuple(_Rule(re.compile(row[0]), *row[1:]) for row in rows)


_SPELL: Mapping[str, str] = {
    "Correctable": "corr", "Uncorrectable": "unc", "NonFatal": "nonfatal", "L0ToRecovery": "l0_recovery",
    "ReplayRollover": "replay_rollover", "NAKSent": "nak_sent", "NAKReceived": "nak_received",
    "UnsupportedRequest": "unsupported_request", "PowerLimit": "power", "ThermalLimit": "thermal", "Hardware": "hw",
    "GlobalSoftware": "sw", "GPUContext": "gpu_context", "FlitCRC": "crc_flit", "DataCRC": "crc_data", "PF_FLR_": "flr",
    "NVLinkRaw": "nvlink_raw", "NVLinkData": "nvlink_data", "PCIeRaw": "pcie_raw", "SMActivity": "sm_active",
    "SMOccupancy": "sm_occupancy", "TensorCoreActivity": "tensor_active", "FP16Activity": "fp16_active",
    "FP32Activity": "fp32_active", "FP64Activity": "fp64_active", "GraphicsEngineActivity": "gr_engine_active",
    "IntegerActivity": "integer_active", "IntergerActivity": "integer_active", "SymbolErrors": "symbol_errors",
    "LinkErrorRecoveryCount": "recovery", "LinkDownedCount": "recovery_failed", "MalformedPackets": "malformed",
    "RXRemotePhysicalErrors": "remote_phy_errors", "RXSwitchRelayErrors": "relay_errors", "VL15Dropped": "vl15_dropped",
    "QP1Dropped": "qp1_dropped", "NeighborMTUDiscards": "mtu_discards", "TXWait": "tx_wait", "VL15TXBytes": "vl15_tx_bytes",
    "VL15TXPackets": "vl15_tx_packets", "RXFrames": "rx_frames", "TXFrames": "tx_frames", "TXDiscards": "tx_discards",
}  # fmt: skip

_PCIE_ERRORS = (
    (r"/PCIeErrors/(Correctable|NonFatal|Fatal)ErrorCount", "pcie_{}_errors_total"),
    (r"/PCIeErrors/(L0ToRecovery|Replay|ReplayRollover|NAKSent|NAKReceived|UnsupportedRequest)Count", "pcie_{}_total"),
)
_PERCENT = 0.01
_ACTIVITIES = (
    "SMActivity|SMOccupancy|TensorCoreActivity|FP16Activity|FP32Activity|FP64Activity|GraphicsEngineActivity"
    "|IntegerActivity|IntergerActivity|DMMA|HMMA|IMMA|NVDec|NVJpg|NVOfa"
)
_LINK_COUNTERS = (
    "SymbolErrors|LinkErrorRecoveryCount|LinkDownedCount|MalformedPackets|RXRemotePhysicalErrors|RXSwitchRelayErrors"
    "|VL15Dropped|QP1Dropped|NeighborMTUDiscards|TXWait|VL15TXBytes|VL15TXPackets"
)

_TABLES: Mapping[str, tuple[_Rule, ...]] = {
    "processor": _rules(
        (r"/CacheMetricsTotal/LifeTime/(Correctable|Uncorrectable)ECCErrorCount", "sram_ecc_{}_total"),
        *_PCIE_ERRORS,
        (r"/(PowerLimit|ThermalLimit)ThrottleDuration", "throttle_{}_s_total"),
        (r"/Oem/Nvidia/(Hardware|GlobalSoftware)ViolationThrottleDuration", "throttle_{}_violation_s_total"),
        (r"/Oem/Nvidia/Accumulated(SM|GPUContext)UtilizationDuration", "{}_busy_s_total"),
        (r"/Oem/Nvidia/ThrottleReasons(?:/\d+)?", "throttle_reason_set"),
        (r"/Oem/Nvidia/PCIe(TX|RX)Bytes", "pcie_{}_bytes_total"),
        (r"/BandwidthPercent", "util_ratio", _PERCENT),
        (r"/OperatingSpeedMHz", "clock_mhz"),
        (rf"/Oem/Nvidia/({_ACTIVITIES})(?:Utilization)?Percent", "prof_{}_ratio", _PERCENT),
        (r"/Oem/Nvidia/(NVDec|NVJpg)InstanceUtilizationPercent/\d+", "prof_{}_instance_ratio", _PERCENT),
        (r"/Oem/Nvidia/(NVLinkRaw|NVLinkData|PCIeRaw)(Tx|Rx)BandwidthGbps", "{}_{}_gbps"),
        (r"/(Conventional|Fundamental|PF_FLR_)Reset(Entry|Exit)Count", "gpu_reset_{}_{}_total"),
        (r"/IRoTResetExitCount", "gpu_reset_irot_total"),
        (r"/LastResetType", "gpu_last_reset_type"),
        (r"/Oem/Nvidia/SRAMECCErrorThresholdExceeded", "sram_threshold_exceeded"),
        (r"/Status/State", "gpu_state"),
    ),
    "memory": _rules(
        (r"/LifeTime/(Correctable|Uncorrectable)ECCErrorCount", "hbm_ecc_{}_total"),
        (r"/Oem/Nvidia/RowRemapping/(Correctable|Uncorrectable)RowRemappingCount", "row_remap_{}_total"),
        (r"/Oem/Nvidia/RowRemapping/(Max|High|Partial|Low|No)Availabi?li?ty?BankCount", "remap_banks_{}"),
        (r"/Oem/Nvidia/RowRemappingFailed", "row_remap_failed"),
        (r"/Oem/Nvidia/RowRemappingPending", "row_remap_pending"),
        (r"/BandwidthPercent", "hbm_util_ratio", _PERCENT),
        (r"/CapacityUtilizationPercent", "hbm_used_ratio", _PERCENT),
        (r"/OperatingSpeedMHz", "hbm_clock_mhz"),
    ),
    "port": _rules(
        (r"/CurrentSpeedGbps", "link_speed_gbps"),
        (r"/MaxSpeedGbps", "link_speed_max_gbps"),
        (r"/LinkStatus", "link_up", 1.0, LINK_WORDS),
        (r"/Oem/Nvidia/(TX|RX)Width", "link_{}_lanes"),
        (r"/Oem/Nvidia/NVLinkErrors/(Replay|Recovery|FlitCRC|DataCRC)Count", "nvlink_{}_total"),
        (r"/Oem/Nvidia/NVLinkErrors/(Training|Runtime)Error", "nvlink_{}_error"),
        (r"/(TX|RX)Bytes", "link_{}_bytes_total"),
        (r"/Oem/Nvidia/(TX|RX)NoProtocolBytes", "link_{}_payload_bytes_total"),
        (r"/RXErrors", "link_rx_errors_total"),
        (r"/Networking/(RXFrames|TXFrames|TXDiscards)", "link_{}_total"),
        (r"/Oem/Nvidia/(Intentional|Unintentional)LinkDownCount", "link_down_{}_total"),
        (r"/Oem/Nvidia/LinkDownReasonCode", "link_down_reason"),
        (r"/Oem/Nvidia/TotalRawBER", "link_raw_ber"),
        (r"/Oem/Nvidia/BitErrorRate", "link_ber"),
        (rf"/Oem/Nvidia/({_LINK_COUNTERS})", "link_{}_total"),
        (r"/Oem/Nvidia/NVLink(Raw|Data)(Tx|Rx)BandwidthGbps", "link_{}_{}_gbps"),
        *_PCIE_ERRORS,
    ),
    "switch": _rules(
        (r"/InternalMemoryMetrics/LifeTime/(Correctable|Uncorrectable)ECCErrorCount", "nvswitch_ecc_{}_total"),
        *_PCIE_ERRORS,
    ),
    "pcie_device": _rules(
        (r"/PCIeInterface/PCIeType", "pcie_gen", 1.0, PCIE_WORDS),
        (r"/PCIeInterface/LanesInUse", "pcie_lanes"),
        (r"/PCIeInterface/MaxLanes", "pcie_lanes_max"),
        (r"/Status/State", "gpu_state"),
        *_PCIE_ERRORS,
    ),
    "psu": _rules(
        (r"/InputPowerWatts(?:/Reading)?", "psu_input_w"),
        (r"/InputVoltage(?:/Reading)?", "psu_input_v"),
        (r"/OutputPowerWatts(?:/Reading)?", "psu_output_w"),
        (r"/TemperatureCelsius(?:/Reading)?", "psu_temp_c"),
        (r"/FanSpeedPercent/SpeedRPM", "psu_fan_rpm"),
        (r"/Status/State", "presence", 1.0, PRESENCE_WORDS),
        (r"/Status/Health", "health"),
    ),
    "fan": _rules((r"/SpeedPercent/SpeedRPM", "fan_rpm"), (r"/SpeedPercent/Reading", "fan_ratio", _PERCENT), (r"/Status/Health", "health")),
    "thermal": _rules(
        (r"/TemperatureSummaryCelsius/Intake/Reading", "inlet_temp_c"),
        (r"/TemperatureSummaryCelsius/Exhaust/Reading", "outlet_temp_c"),
        (r"/Temperatures/\d+/ReadingCelsius", "temp_c"),
        (r"/Fans/\d+/Reading", "fan_rpm"),
    ),
    "power": _rules(
        (r"/PowerControl/\d+/PowerConsumedWatts", "power_w"),
        (r"/PowerSupplies/\d+/(?:LastPowerInputWatts|PowerInputWatts)", "psu_input_w"),
        (r"/PowerSupplies/\d+/PowerOutputWatts", "psu_output_w"),
        (r"/PowerSupplies/\d+/LineInputVoltage", "psu_input_v"),
        (r"/PowerSupplies/\d+/Status/State", "presence", 1.0, PRESENCE_WORDS),
        (r"/Voltages/\d+/ReadingVolts", "voltage_v"),
    ),
    "environment": _rules(
        (r"/PowerWatts/Reading", "power_w"), (r"/TemperatureCelsius/Reading", "temp_c"),
        (r"/EnergykWh/Reading", "energy_j_total", 3_600_000.0),
    ),
    "machine": _rules(
        (r"/PowerState", "power_state", 1.0, POWER_WORDS), (r"/Status/State", "state"), (r"/Status/Health(?:Rollup)?", "health"),
        (r"/IndicatorLED", "indicator"),
    ),
}  # fmt: skip


def signal_of(series: Series, facts: SensorFacts | None = None) -> Signal:
    """Find the canonical signal of a series; `facts` are those of its Sensor resource, where they were read."""
    if series.metric_id:
        return signal_of_metric_id(series.metric_id, series.context)
    return _signal_of(series.path, series.pointer, facts)


@lru_cache(maxsize=65_536)
def _signal_of(path: str, pointer: str, facts: SensorFacts | None) -> Signal:
    place = place_of(path)
    if place is None:
        return UNMAPPED._replace(device=None)
    if place.kind == "sensor":
        return signal_of_sensor(path, pointer, facts)
    for rule in _TABLES[place.kind]:
        if found := rule.pointer.fullmatch(pointer):
            return _signal(rule, found, _device(place.kind, place.device, pointer))
    return UNMAPPED._replace(device=place.device)


def _signal(rule: _Rule, found: re.Match[str], device: str) -> Signal:
    quantity = rule.quantity.format(*(_SPELL.get(word, word.lower()) for word in found.groups()))
    if quantity in ("util_ratio", "clock_mhz"):  # the same property of GPUs and CPUs
        quantity = f"{device.rstrip('0123456789')}_{quantity}"
    return Signal(quantity, device, unit=unit_of(quantity), scale=rule.scale, words=rule.words)


_INDEXED = re.compile(r"/(PowerSupplies|Fans)/(\d+)/.*")


def _device(kind: str, device: str, pointer: str) -> str:
    """Name the part inside a deprecated Power or Thermal resource, whose parts are elements of arrays."""
    if kind in ("power", "thermal") and (found := _INDEXED.fullmatch(pointer)):
        return f"{'psu' if found[1] == 'PowerSupplies' else 'fan'}{found[2]}"
    return device
