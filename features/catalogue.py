"""Every feature: which unit it describes, in which unit it is measured, how far it looks back, and which failures it precedes.

The columns of `gpu_features` and `node_features` follow from this list; the query of a family computes them, in this order.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Feature:
    """One precursor signal: `scope` says which unit it describes, `window` how far it looks back (ISO 8601 duration)."""

    name: str
    family: str
    scope: str  # gpu or node
    unit: str
    window: str
    precursor_of: tuple[str, ...]
    meaning: str


Row = tuple[str, str, str, str]  # name, unit, window, meaning

_MEMORY = ("hbm_ue", "sram_ecc")
_ANY_GPU = ("hbm_ue", "sram_ecc", "nvlink", "fell_off_bus", "thermal", "gsp", "gpu_faulty", "pcie_degraded")
_HOST = ("psu_vr", "nic", "cpu", "dram", "ssd", "chassis", "io_board", "switch_cable")


def _family(name: str, scope: str, precursor_of: tuple[str, ...], *rows: Row) -> tuple[Feature, ...]:
    return tuple(Feature(column, name, scope, unit, window, precursor_of, meaning) for column, unit, window, meaning in rows)


_ECC = _family(
    "ecc", "gpu", _MEMORY,
    ("ecc_ce_1h", "count", "PT1H", "corrected ECC errors"),
    ("ecc_ce_24h", "count", "P1D", "corrected ECC errors"),
    ("ecc_ce_7d", "count", "P7D", "corrected ECC errors"),
    ("ecc_ce_trend", "log2", "P7D", "corrected ECC errors of the last day against a usual day of the week"),
    ("ecc_ce_active_polls_7d", "count", "P7D", "samples in which corrected ECC errors had grown"),
    ("ecc_ce_burst_7d", "count", "P7D", "most corrected ECC errors in five minutes, growth over a longer gap spread evenly"),
    ("ecc_ce_age_h", "h", "P30D", "time since corrected ECC errors last grew"),
    ("ecc_ue_24h", "count", "P1D", "uncorrected ECC errors"),
    ("ecc_ue_30d", "count", "P30D", "uncorrected ECC errors"),
    ("sram_ue_30d", "count", "P30D", "uncorrected errors in SRAM"),
    ("remapped_rows_7d", "count", "P7D", "rows remapped or pages retired"),
    ("remapped_rows_life", "count", "", "rows remapped in the life of the GPU"),
    ("remap_pending", "0 or 1", "", "a row remap waits for a reset"),
    ("remap_failure", "0 or 1", "", "a row remap has failed"),
    ("remap_banks_low", "count", "", "memory banks with few or no spare rows"),
)  # fmt: skip
_NVLINK = _family(
    "nvlink", "gpu", ("nvlink",),
    ("nvlink_crc_24h", "count", "P1D", "NVLink CRC errors"),
    ("nvlink_replay_24h", "count", "P1D", "NVLink replays"),
    ("nvlink_recovery_24h", "count", "P1D", "NVLink retrains"),
    ("nvlink_recovery_7d", "count", "P7D", "NVLink retrains"),
    ("nvlink_errors_1h", "count", "PT1H", "NVLink CRC errors and replays"),
    ("nvlink_error_trend", "log2", "P7D", "NVLink errors of the last day against a usual day of the week"),
    ("nvlink_error_share_24h", "0..1", "P1D", "share of samples in which an NVLink counter had grown"),
    ("nvlink_links_down", "count", "P7D", "NVLink links down against the most that were up"),
    ("fabric_not_ready", "0 or 1", "", "registration with the NVLink fabric is not complete"),
)  # fmt: skip
_THROTTLING = _family(
    "throttling", "gpu", ("thermal", "gpu_faulty", "psu_vr"),
    ("hw_thermal_share_1h", "0..1", "PT1H", "share of time under hardware thermal slowdown"),
    ("hw_thermal_share_24h", "0..1", "P1D", "share of time under hardware thermal slowdown"),
    ("sw_thermal_share_24h", "0..1", "P1D", "share of time under software thermal slowdown"),
    ("power_cap_share_24h", "0..1", "P1D", "share of time under the power cap"),
    ("power_brake_share_24h", "0..1", "P1D", "share of time under hardware power brake"),
    ("clock_droop_6h", "ratio", "PT6H", "SM clock under load relative to the fleet's median"),
)  # fmt: skip
_THERMAL = _family(
    "thermal", "gpu", ("thermal",),
    ("temp_excess_own_c", "°C", "PT6H", "temperature at fixed power against the GPU's own past"),
    ("temp_excess_own_vs_node_c", "°C", "P1D", "rise over the GPU's own past beyond that of its node"),
    ("temp_excess_slot_c", "°C", "P1D", "temperature at fixed power against GPUs in the same slot of the fleet"),
    ("temp_excess_node_c", "°C", "P1D", "temperature at fixed power against the other GPUs of its node"),
    ("temp_drift_c_per_day", "°C/d", "P7D", "drift of the temperature at fixed power"),
    ("temp_max_24h_c", "°C", "P1D", "hottest GPU core"),
    ("memory_temp_max_24h_c", "°C", "P1D", "hottest memory"),
    ("thermal_margin_min_24h_c", "°C", "P1D", "smallest distance to slowdown"),
)  # fmt: skip
_POWER = _family(
    "power", "gpu", ("psu_vr", "gpu_faulty"),
    ("power_mean_24h_w", "W", "P1D", "mean power"),
    ("power_swing_24h_w", "W", "P1D", "standard deviation of power"),
    ("power_gap_node_w", "W", "PT6H", "power against the median of its node"),
    ("util_24h", "0..1", "P1D", "mean utilisation"),
)  # fmt: skip
_PCIE = _family(
    "pcie", "gpu", ("fell_off_bus", "pcie_degraded"),
    ("pcie_replay_1h", "count", "PT1H", "PCIe replays"),
    ("pcie_replay_24h", "count", "P1D", "PCIe replays"),
    ("pcie_replay_7d", "count", "P7D", "PCIe replays"),
    ("pcie_correctable_24h", "count", "P1D", "PCIe correctable errors"),
    ("pcie_recovery_24h", "count", "P1D", "PCIe link recoveries"),
    ("pcie_speed_lost", "0..1", "P30D", "PCIe width and generation lost against the best seen"),
)  # fmt: skip
_MISSINGNESS = _family(
    "missingness", "gpu", ("fell_off_bus", "gsp"),
    ("polls_missing_1h", "0..1", "PT1H", "share of the expected samples that are missing"),
    ("polls_missing_24h", "0..1", "P1D", "share of the expected samples that are missing"),
    ("missing_alone", "0 or 1", "PT1H", "silent while the other GPUs of its node speak"),
    ("telemetry_age_s", "s", "P7D", "age of the newest sample, rounded up to 5 minutes"),
    ("latency_trend", "log2", "P7D", "time that a read takes, last hour against the week"),
    ("latency_max_1h_ms", "ms", "PT1H", "longest time that a read took"),
    ("absent_share_24h", "0..1", "P1D", "share of samples that found the GPU absent or lost"),
    ("bad_share_24h", "0..1", "P1D", "share of samples with fields lost, late, stale or blank"),
    ("counter_resets_7d", "count", "P7D", "boots, driver loads and GPU resets"),
    ("counters_back_7d", "count", "P7D", "counters that alone stepped back"),
)  # fmt: skip
_HISTORY = _family(
    "history", "gpu", _ANY_GPU,
    ("failures_life", "count", "", "failures of the GPU, wherever it sat"),
    ("failures_30d", "count", "P30D", "failures of the GPU"),
    ("memory_failures_life", "count", "", "memory failures of the GPU"),
    ("nvlink_failures_life", "count", "", "NVLink failures of the GPU"),
    ("bus_failures_life", "count", "", "times the GPU fell off the bus"),
    ("node_failures_180d", "count", "P180D", "failures of its node's other parts, those that have left included"),
    ("failure_age_d", "d", "", "time since the GPU's last failure"),
    ("repair_age_d", "d", "", "time since the GPU's last repair"),
    ("seat_age_d", "d", "", "time in this seat"),
    ("precursor_xids_1d", "count", "P1D", "XIDs that precede failures"),
    ("precursor_xids_7d", "count", "P7D", "XIDs that precede failures"),
    ("precursor_xids_30d", "count", "P30D", "XIDs that precede failures"),
    ("other_xids_7d", "count", "P7D", "XIDs of applications and unknown ones"),
    ("remap_xids_30d", "count", "P30D", "row remaps that the driver announced (XID 63)"),
)  # fmt: skip
_CHASSIS = _family(
    "chassis", "node", ("psu_vr", "chassis"),
    ("inlet_temp_24h_c", "°C", "P1D", "air at the inlet"),
    ("inlet_excess_c", "°C", "P1D", "inlet air against the fleet's median"),
    ("air_rise_24h_c", "°C", "P1D", "warming of the air through the chassis"),
    ("fan_excess_24h", "ratio", "P1D", "fan speed relative to the fleet's median"),
    ("fan_slowest_24h", "0..1", "P1D", "how far the slowest fan is below the mean"),
    ("psu_spread_24h", "0..1", "P1D", "spread of load over the power supplies"),
    ("psu_ripple_24h_v", "V", "P1D", "spread of the power supplies' input voltage"),
    ("psu_ripple_ratio", "ratio", "P7D", "spread of input voltage, last day against the week"),
    ("psu_missing_24h", "0 or 1", "P1D", "a power supply was missing"),
    ("node_power_24h_w", "W", "P1D", "mean power of the node"),
    ("bad_readings_share_24h", "0..1", "P1D", "share of the BMC's readings without a value"),
    ("chassis_age_s", "s", "P7D", "age of the BMC's newest reading, rounded up to 5 minutes"),
)  # fmt: skip
_NODE_HISTORY = _family(
    "history", "node", (*_HOST, *_ANY_GPU),
    ("node_failures_life", "count", "", "failures of the node's parts"),
    ("node_failures_30d", "count", "P30D", "failures of the node's parts"),
    ("host_failures_life", "count", "", "failures of the node outside its GPUs"),
    ("node_failure_age_d", "d", "", "time since the last failure of one of its parts"),
    ("node_repair_age_d", "d", "", "time since the last repair"),
    ("node_age_d", "d", "", "time since the node came into service"),
    ("failed_jobs_7d", "count", "P7D", "jobs that failed on the node"),
    ("failed_jobs_share_7d", "0..1", "P7D", "share of its jobs that failed"),
)  # fmt: skip
_NODE_GPUS = _family(
    "gpus", "node", (*_HOST,),
    ("telemetry_age_s", "s", "P7D", "age of the newest sample of any of its GPUs, rounded up to 5 minutes"),
    ("polls_missing_24h", "0..1", "P1D", "share of the expected samples of its GPUs that are missing"),
    ("gpus_silent_1h", "count", "PT1H", "GPUs without a sample"),
    ("resets_per_gpu_7d", "count", "P7D", "boots, driver loads and resets per GPU"),
    ("power_brake_share_24h", "0..1", "P1D", "share of time under hardware power brake, mean of its GPUs"),
    ("clock_droop_6h", "ratio", "PT6H", "SM clock under load relative to the fleet's median, mean of its GPUs"),
    ("util_24h", "0..1", "P1D", "mean utilisation of its GPUs"),
    ("temp_max_24h_c", "°C", "P1D", "hottest of its GPUs"),
)  # fmt: skip
_DOMAIN_ROWS: tuple[Row, ...] = (
    ("fleet_rate_90d", "1/d", "P90D", "failures per unit-day of the fleet, without its own"),
    ("chassis_risk_90d", "ratio", "P90D", "failures of the others in its chassis against the fleet's rate"),
    ("rack_risk_90d", "ratio", "P90D", "failures of the others in its rack against the fleet's rate"),
    ("leaf_risk_90d", "ratio", "P90D", "failures of the others under its leaf switch against the fleet's rate"),
    ("power_risk_90d", "ratio", "P90D", "failures of the others on its power shelf against the fleet's rate"),
    ("position_risk_90d", "ratio", "P90D", "failures in nodes of the same position against the fleet's rate"),
    ("slot_risk_90d", "ratio", "P90D", "failures of GPUs in the same slot against the fleet's rate"),
    ("lot_risk_90d", "ratio", "P90D", "failures of the others of its manufacturing lot against the fleet's rate"),
    ("chassis_risk_365d", "ratio", "P365D", "failures of the others in its chassis against the fleet's rate"),
    ("rack_risk_365d", "ratio", "P365D", "failures of the others in its rack against the fleet's rate"),
    ("position_risk_365d", "ratio", "P365D", "failures in nodes of the same position against the fleet's rate"),
    ("rack_risk_7d", "ratio", "P7D", "failures of the others in its rack against the fleet's rate"),
    ("power_risk_7d", "ratio", "P7D", "failures of the others on its power shelf against the fleet's rate"),
)
_DOMAINS = _family("domain", "gpu", _ANY_GPU, *_DOMAIN_ROWS)
_NODE_DOMAINS = _family("domain", "node", (*_HOST, *_ANY_GPU), *(row for row in _DOMAIN_ROWS if row[0] != "slot_risk_90d"))

FEATURES: tuple[Feature, ...] = (
    *_ECC, *_NVLINK, *_THROTTLING, *_THERMAL, *_POWER, *_PCIE, *_MISSINGNESS, *_HISTORY, *_DOMAINS,
    *_CHASSIS, *_NODE_HISTORY, *_NODE_GPUS, *_NODE_DOMAINS,
)  # fmt: skip
