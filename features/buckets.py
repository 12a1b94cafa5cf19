"""The roll-up tables: closed buckets of one GPU and source that hold only what adds up, so that any longer window is a sum of them.

A row is a *part* of a bucket. Part one holds the samples received by the end of the bucket; what comes later makes further parts with
a later `known_at`. Reading as of t means: take the parts with `known_at <= t` and add them up (sum the sums, take the largest maximum and
the last value). Growth of a counter is booked once, in the order of arrival: a sample that comes after a later one was rolled up adds
its gauges but no growth, because that growth is in the later bucket already.
"""

from __future__ import annotations

from typing import Annotated

from ingest.tables import Means, Record, Table, table_of


class Part(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What every part of a bucket says about itself."""

    node: Annotated[str, Means("node name")]
    started_at_ns: Annotated[int, Means("start of the bucket", "UTC")]
    known_at_ns: Annotated[int, Means("end of the bucket, or the latest receipt of a sample in this part if that is later", "UTC")]
    received_at_ns: Annotated[int, Means("latest receipt of a sample in this part", "UTC")]
    revision: Annotated[int, Means("0 samples received by the end of the bucket, 1 late ones; the parts add up")]


class GpuRollup(Part, frozen=True, kw_only=True, omit_defaults=True):
    """One part of a bucket of one GPU as one source saw it."""

    gpu_uuid: Annotated[str, Means("identity of the GPU")]
    source: Annotated[str, Means("nvml, exporter, redfish, ...; several sources of one bucket never add up, the best one counts")]
    polls: Annotated[int, Means("samples in which the GPU answered, without repeats of the same instant", "count")]
    absent_polls: Annotated[int, Means("samples that say that the GPU was not there or lost", "count")]
    bad_polls: Annotated[int, Means("samples with a field lost, late, stale, blank or absent", "count")]
    last_at_ns: Annotated[int, Means("newest sample of any kind", "UTC")]
    elapsed_s: Annotated[float | None, Means("time between samples that growth was measured over", "s")] = None
    latency_us_sum: Annotated[float | None, Means("sum of read latencies", "us")] = None
    latency_us_max: Annotated[float | None, Means("largest read latency", "us")] = None
    latency_polls: Annotated[int | None, Means("samples with a latency", "count")] = None
    # gauges: sums about 400 W and 50 °C, so that squares keep their digits
    load_polls: Annotated[int | None, Means("samples with both temperature and power", "count")] = None
    power_sum: Annotated[float | None, Means("sum of power - 400 W over them", "W")] = None
    power_sq_sum: Annotated[float | None, Means("sum of its squares", "W²")] = None
    temp_sum: Annotated[float | None, Means("sum of temperature - 50 °C over them", "°C")] = None
    temp_power_sum: Annotated[float | None, Means("sum of products of the two", "°C W")] = None
    temp_c_max: Annotated[float | None, Means("hottest GPU core", "°C")] = None
    memory_temp_c_max: Annotated[float | None, Means("hottest memory", "°C")] = None
    thermal_margin_c_min: Annotated[float | None, Means("smallest distance to slowdown", "°C")] = None
    util_sum: Annotated[float | None, Means("sum of the GPU's utilisation", "0..1")] = None
    util_polls: Annotated[int | None, Means("samples with a utilisation", "count")] = None
    busy_clock_mhz_sum: Annotated[float | None, Means("sum of SM clocks of busy samples (utilisation >= 0.5)", "MHz")] = None
    busy_polls: Annotated[int | None, Means("busy samples with a clock", "count")] = None
    # growth of counters; None: no two readings to compare
    sw_power_cap_s: Annotated[float | None, Means("time under software power cap", "s")] = None
    sw_thermal_s: Annotated[float | None, Means("time under software thermal slowdown", "s")] = None
    hw_thermal_s: Annotated[float | None, Means("time under hardware thermal slowdown", "s")] = None
    hw_power_brake_s: Annotated[float | None, Means("time under hardware power brake", "s")] = None
    pcie_replay: Annotated[int | None, Means("PCIe replays", "count")] = None
    pcie_correctable: Annotated[int | None, Means("PCIe correctable errors", "count")] = None
    pcie_recovery: Annotated[int | None, Means("PCIe link recoveries", "count")] = None
    ecc_ce: Annotated[int | None, Means("corrected ECC errors", "count")] = None
    ecc_ue: Annotated[int | None, Means("uncorrected ECC errors", "count")] = None
    sram_ce: Annotated[int | None, Means("corrected errors in SRAM", "count")] = None
    sram_ue: Annotated[int | None, Means("uncorrected errors in SRAM", "count")] = None
    remapped_rows: Annotated[int | None, Means("rows remapped or pages retired", "count")] = None
    nvlink_crc: Annotated[int | None, Means("NVLink CRC errors", "count")] = None
    nvlink_replay: Annotated[int | None, Means("NVLink replays", "count")] = None
    nvlink_recovery: Annotated[int | None, Means("NVLink recoveries (retrains)", "count")] = None
    ce_polls: Annotated[int | None, Means("samples in which corrected errors had grown", "count")] = None
    ce_max: Annotated[int | None, Means("most corrected errors in five minutes, growth over a longer gap spread evenly", "count")] = None
    ce_last_at_ns: Annotated[int | None, Means("newest sample in which corrected errors had grown", "UTC")] = None
    nvlink_error_polls: Annotated[int | None, Means("samples in which any NVLink counter had grown", "count")] = None
    resets: Annotated[int | None, Means("beginnings of a counter epoch: boot, driver load or GPU reset", "count")] = None
    went_back: Annotated[int | None, Means("counters that alone stepped back: no growth across it", "count")] = None
    # last values
    gpu_index: Annotated[int | None, Means("index, an attribute")] = None
    power_limit_w: Annotated[float | None, Means("enforced power limit", "W")] = None
    pcie_lanes: Annotated[float | None, Means("PCIe width times transfer rate relative to generation 1", "lanes")] = None
    pcie_lanes_max: Annotated[float | None, Means("most of them in one sample", "lanes")] = None
    nvlink_active: Annotated[int | None, Means("NVLink links that are up", "count")] = None
    nvlink_active_max: Annotated[int | None, Means("most NVLink links up in one sample", "count")] = None
    fabric_state: Annotated[int | None, Means("fabric registration", "code")] = None
    recovery_action: Annotated[int | None, Means("recovery that the driver asks for", "code")] = None
    remap_pending: Annotated[int | None, Means("1: a remap or retirement waits for a reset", "0 or 1")] = None
    remap_failure: Annotated[int | None, Means("1: a remap has failed", "0 or 1")] = None
    remap_banks_low: Annotated[int | None, Means("banks with few or no spare rows", "count")] = None
    remapped_rows_total: Annotated[int | None, Means("rows remapped in the GPU's life", "count")] = None
    sram_threshold_exceeded: Annotated[int | None, Means("1: vendor RMA criterion for SRAM", "0 or 1")] = None
    # readings that the next bucket measures growth from
    boot_id: Annotated[str | None, Means("boot of the node")] = None
    epoch: Annotated[int | None, Means("collector's count of counter epochs")] = None
    uptime_s: Annotated[float | None, Means("since driver load or GPU reset", "s")] = None
    energy_mj_total: Annotated[int | None, Means("energy since driver load", "mJ")] = None
    sw_power_cap_ns_total: Annotated[int | None, Means("time under software power cap", "ns")] = None
    sw_thermal_ns_total: Annotated[int | None, Means("time under software thermal slowdown", "ns")] = None
    hw_thermal_ns_total: Annotated[int | None, Means("time under hardware thermal slowdown", "ns")] = None
    hw_power_brake_ns_total: Annotated[int | None, Means("time under hardware power brake", "ns")] = None
    pcie_replay_total: Annotated[int | None, Means("PCIe replays", "count")] = None
    pcie_correctable_total: Annotated[int | None, Means("PCIe correctable errors", "count")] = None
    pcie_recovery_total: Annotated[int | None, Means("PCIe link recoveries", "count")] = None
    ecc_ce_volatile_total: Annotated[int | None, Means("corrected ECC errors since driver load", "count")] = None
    ecc_ue_volatile_total: Annotated[int | None, Means("uncorrected ECC errors since driver load", "count")] = None
    dram_ce_volatile_total: Annotated[int | None, Means("corrected errors in memory since driver load", "count")] = None
    dram_ue_volatile_total: Annotated[int | None, Means("uncorrected errors in memory since driver load", "count")] = None
    sram_ce_volatile_total: Annotated[int | None, Means("corrected errors in SRAM since driver load", "count")] = None
    sram_ue_volatile_total: Annotated[int | None, Means("uncorrected errors in SRAM since driver load", "count")] = None
    nvlink_crc_total: Annotated[int | None, Means("NVLink CRC errors", "count")] = None
    nvlink_replay_total: Annotated[int | None, Means("NVLink replays", "count")] = None
    nvlink_recovery_total: Annotated[int | None, Means("NVLink recoveries", "count")] = None
    ecc_ce_aggregate_total: Annotated[int | None, Means("corrected ECC errors, lifetime", "count")] = None
    ecc_ue_aggregate_total: Annotated[int | None, Means("uncorrected ECC errors, lifetime", "count")] = None
    remapped_rows_ce_total: Annotated[int | None, Means("rows remapped for corrected errors", "count")] = None
    remapped_rows_ue_total: Annotated[int | None, Means("rows remapped for uncorrected errors", "count")] = None
    retired_pages_total: Annotated[int | None, Means("retired pages", "count")] = None


class NodeRollup(Part, frozen=True, kw_only=True, omit_defaults=True):
    """One part of an hour of one node's chassis, from the readings of its BMC."""

    readings: Annotated[int, Means("readings with a value", "count")]
    bad_readings: Annotated[int, Means("readings without a value", "count")]
    last_at_ns: Annotated[int, Means("newest reading", "UTC")]
    inlet_temp_c_sum: Annotated[float | None, Means("sum of inlet temperatures", "°C")] = None
    inlet_polls: Annotated[int | None, Means("inlet readings", "count")] = None
    outlet_temp_c_sum: Annotated[float | None, Means("sum of outlet temperatures", "°C")] = None
    outlet_polls: Annotated[int | None, Means("outlet readings", "count")] = None
    fan_rpm_sum: Annotated[float | None, Means("sum over fans and readings", "rpm")] = None
    fan_polls: Annotated[int | None, Means("fan readings", "count")] = None
    fan_rpm_min: Annotated[float | None, Means("slowest fan", "rpm")] = None
    fan_rpm_max: Annotated[float | None, Means("fastest fan", "rpm")] = None
    psu_input_w_min: Annotated[float | None, Means("least loaded power supply", "W")] = None
    psu_input_w_max: Annotated[float | None, Means("most loaded power supply", "W")] = None
    psu_input_v_sum: Annotated[float | None, Means("sum of input voltages - 230 V", "V")] = None
    psu_input_v_sq_sum: Annotated[float | None, Means("sum of their squares about 230 V", "V²")] = None
    psu_input_v_polls: Annotated[int | None, Means("input voltage readings", "count")] = None
    psu_present_min: Annotated[float | None, Means("0: a power supply was missing", "0 or 1")] = None
    power_w_sum: Annotated[float | None, Means("sum of the node's power", "W")] = None
    power_polls: Annotated[int | None, Means("node power readings", "count")] = None


_SORT = ("node", "gpu_uuid", "source", "started_at")
_GPU = table_of(GpuRollup, "gpu_rollups", "", _SORT).own_columns


def _tier(name: str, meaning: str) -> Table:
    return Table(name, meaning, _GPU, _SORT, time="started_at", record=GpuRollup)


GPU_ROLLUPS_5M = _tier("gpu_rollups_5m", "Five-minute buckets of one GPU and source, of the last days only.")
GPU_ROLLUPS_1H = _tier("gpu_rollups_1h", "Hours of one GPU and source.")
GPU_ROLLUPS_1D = _tier("gpu_rollups_1d", "UTC days of one GPU and source.")
NODE_ROLLUPS_1H = Table(
    "node_rollups_1h",
    "Hours of one node's chassis.",
    table_of(NodeRollup, "node_rollups_1h", "", ()).own_columns,
    ("node", "started_at"),
    time="started_at",
    record=NodeRollup,
)
