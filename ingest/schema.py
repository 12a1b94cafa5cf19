"""The tables that ingest publishes, one record class each; unit and meaning stand beside every column.

Every row carries both clocks: `observed_at` (when it was so, by the fleet's clock) and `received_at` (when the collector had it).
A field that the hardware did not say is None and its code stands in `quality`; a field that this poll's tier does not read is None
without an entry. Counters ending in `_total` are raw int64 readings, never deltas.
"""

from __future__ import annotations

from typing import Annotated

from ingest.tables import Means, Record, table_of

# What a quality code means: docs/tables.md prints this list.
QUALITY = {
    "blank": "empty, non-finite or a blank sentinel of DCGM",
    "invalid": "no value: NaN, infinity, or text or an object where a number was due",
    "not_supported": "this model, mode or driver has no such value",
    "no_permission": "the collector may not read it",
    "lost": "the GPU no longer answers (NVML_ERROR_GPU_IS_LOST)",
    "timeout": "no answer within the deadline, or skipped by the circuit breaker",
    "out_of_range": "impossible by definition; the raw value was dropped",
    "suspect": "possible but implausible; the raw value is kept",
    "with_reserved": "at memory_used_mb: this driver counts the reserved part as used; the raw value is kept",
    "went_back": "one counter alone stepped back: no delta across it",
    "duplicate_conflict": "one scrape gave two different values for the same series",
    "stale": "served from a cache after its source had died",
    "absent": "expected and not delivered",
    "inconsistent": "contradicts other values of the same poll",
    "unit_conflict": "the unit self-check failed",
    "clock_skew": "at observed_at: the source's own time was impossible and receive time stands in; the skew stands behind the code",
    "overflow": "an unsigned counter above int64; its text stands behind the code",
}


class Observed(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What every row says about itself."""

    node: Annotated[str, Means("node name as configured for the target, never a label of the exporter")]
    observed_at_ns: Annotated[int, Means("event time", "UTC")]
    received_at_ns: Annotated[int, Means("when the collector had it", "UTC")]
    source: Annotated[str, Means("nvml, exporter, kernel_log, redfish, slurm, import, api, ...")]
    boot_id: Annotated[str | None, Means("boot of the node, where the source knows it")] = None


class GpuSample(Observed, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU in one poll of one source."""

    gpu_uuid: Annotated[str, Means("identity of the GPU")]
    tier: Annotated[str, Means("which fields this poll asked for: hot, warm or cold (a tier includes the faster ones)")]
    serial: Annotated[str | None, Means("board serial number")] = None
    pci: Annotated[str | None, Means("PCI address, domain:bus:device")] = None
    gpu_index: Annotated[int | None, Means("index at this poll; an attribute, never a key")] = None
    gpu_instance: Annotated[int | None, Means("MIG GPU instance id, None for the whole GPU")] = None
    epoch: Annotated[int | None, Means("counter epoch within the boot: grows at driver reload and GPU reset")] = None
    gpu_present: Annotated[bool | None, Means("False: expected by the inventory and not seen")] = None
    latency_us: Annotated[int | None, Means("time that the calls for this row took; so far, while one hangs", "us")] = None
    quality: Annotated[dict[str, str] | None, Means("code per field that is not ok")] = None
    # hot
    temp_c: Annotated[float | None, Means("GPU core temperature", "°C")] = None
    memory_temp_c: Annotated[float | None, Means("memory temperature", "°C")] = None
    power_w: Annotated[float | None, Means("power, instant where the source has it", "W")] = None
    energy_mj_total: Annotated[int | None, Means("energy since driver load", "mJ")] = None
    sm_clock_mhz: Annotated[float | None, Means("SM clock", "MHz")] = None
    memory_clock_mhz: Annotated[float | None, Means("memory clock", "MHz")] = None
    clock_event_reasons: Annotated[int | None, Means("bit mask of current clock-event reasons", "bits")] = None
    sw_power_cap_ns_total: Annotated[int | None, Means("time under software power cap", "ns")] = None
    sw_thermal_ns_total: Annotated[int | None, Means("time under software thermal slowdown", "ns")] = None
    hw_thermal_ns_total: Annotated[int | None, Means("time under hardware thermal slowdown", "ns")] = None
    hw_power_brake_ns_total: Annotated[int | None, Means("time under hardware power brake", "ns")] = None
    gpu_util_ratio: Annotated[float | None, Means("share of time with a kernel running", "0..1")] = None
    memory_util_ratio: Annotated[float | None, Means("share of time with memory traffic", "0..1")] = None
    gr_active_ratio: Annotated[float | None, Means("share of time with the graphics or compute engine active", "0..1")] = None
    sm_active_ratio: Annotated[float | None, Means("share of time with a warp on an SM, over all SMs", "0..1")] = None
    tensor_active_ratio: Annotated[float | None, Means("share of time with the tensor pipe active", "0..1")] = None
    dram_active_ratio: Annotated[float | None, Means("share of time with device memory active", "0..1")] = None
    memory_used_mb: Annotated[float | None, Means("memory in use without the reserved part", "MiB")] = None
    memory_total_mb: Annotated[float | None, Means("memory size", "MiB")] = None
    pcie_replay_total: Annotated[int | None, Means("PCIe replays; only its rate means anything", "count")] = None
    recovery_action: Annotated[int | None, Means("recovery the driver asks for; 0 none", "code")] = None
    xid_last: Annotated[int | None, Means("last XID by DCGM's sticky gauge; a hint, never an event count", "code")] = None
    xid_last_age_s: Annotated[float | None, Means("time since xid_last was first seen to change to this value", "s")] = None
    uptime_s: Annotated[float | None, Means("since driver load or GPU reset", "s")] = None
    # warm
    ecc_ce_volatile_total: Annotated[int | None, Means("corrected ECC errors since driver load", "count")] = None
    ecc_ue_volatile_total: Annotated[int | None, Means("uncorrected ECC errors since driver load", "count")] = None
    ecc_ce_aggregate_total: Annotated[int | None, Means("corrected ECC errors, lifetime", "count")] = None
    ecc_ue_aggregate_total: Annotated[int | None, Means("uncorrected ECC errors, lifetime", "count")] = None
    dram_ce_volatile_total: Annotated[int | None, Means("corrected errors in device memory since driver load", "count")] = None
    dram_ue_volatile_total: Annotated[int | None, Means("uncorrected errors in device memory since driver load", "count")] = None
    sram_ce_volatile_total: Annotated[int | None, Means("corrected errors in SRAM since driver load", "count")] = None
    sram_ue_volatile_total: Annotated[int | None, Means("uncorrected errors in SRAM since driver load", "count")] = None
    sram_threshold_exceeded: Annotated[bool | None, Means("vendor RMA criterion for SRAM")] = None
    remapped_rows_ce_total: Annotated[int | None, Means("rows remapped for corrected errors", "count")] = None
    remapped_rows_ue_total: Annotated[int | None, Means("rows remapped for uncorrected errors", "count")] = None
    remap_pending: Annotated[bool | None, Means("a remap waits for a reset")] = None
    remap_failure: Annotated[bool | None, Means("a remap has failed: vendor RMA criterion")] = None
    remap_banks_low: Annotated[int | None, Means("banks with few spare rows left", "count")] = None
    remap_banks_none: Annotated[int | None, Means("banks without spare rows", "count")] = None
    retired_pages_total: Annotated[int | None, Means("retired pages, before Ampere", "count")] = None
    retired_pages_pending: Annotated[bool | None, Means("a page waits to be retired")] = None
    thermal_margin_c: Annotated[float | None, Means("distance to slowdown", "°C")] = None
    power_limit_w: Annotated[float | None, Means("enforced power limit", "W")] = None
    pcie_link_gen: Annotated[int | None, Means("current PCIe generation", "")] = None
    pcie_link_width: Annotated[int | None, Means("current PCIe width", "lanes")] = None
    pcie_correctable_total: Annotated[int | None, Means("PCIe correctable errors", "count")] = None
    pcie_l0_to_recovery_total: Annotated[int | None, Means("PCIe link recoveries", "count")] = None
    nvlink_active: Annotated[int | None, Means("NVLink links that are up", "count")] = None
    nvlink_crc_total: Annotated[int | None, Means("NVLink CRC errors over all links", "count")] = None
    nvlink_replay_total: Annotated[int | None, Means("NVLink replays over all links", "count")] = None
    nvlink_recovery_total: Annotated[int | None, Means("NVLink recoveries (retrains) over all links", "count")] = None
    fabric_state: Annotated[int | None, Means("0 not supported, 1 not started, 2 in progress, 3 completed", "code")] = None
    # cold
    ecc_mode: Annotated[bool | None, Means("ECC on; off makes every ECC counter unknown, not zero")] = None
    gpu_model: Annotated[str | None, Means("product name")] = None
    driver_version: Annotated[str | None, Means("driver version")] = None


class LinkSample(Observed, frozen=True, kw_only=True, omit_defaults=True):
    """One NVLink of one GPU in one poll."""

    gpu_uuid: Annotated[str, Means("identity of the GPU")]
    link: Annotated[int, Means("link number")]
    is_up: Annotated[bool | None, Means("link state")] = None
    speed_mb_s: Annotated[float | None, Means("link speed", "MB/s")] = None
    crc_total: Annotated[int | None, Means("CRC errors", "count")] = None
    replay_total: Annotated[int | None, Means("replays", "count")] = None
    recovery_total: Annotated[int | None, Means("recoveries (retrains)", "count")] = None
    recovery_failed_total: Annotated[int | None, Means("failed recoveries: link down", "count")] = None
    quality: Annotated[dict[str, str] | None, Means("code per field that is not ok")] = None


class ChassisReading(Observed, frozen=True, kw_only=True, omit_defaults=True):
    """One reading of a BMC that is not a GPU field of `gpu_samples`."""

    sensor: Annotated[str, Means("stable id of the series: property path without host and report")]
    quantity: Annotated[str, Means("canonical signal: inlet_temp_c, fan_rpm, psu_input_w, power_w, power_state, presence, ...")]
    device: Annotated[str | None, Means("what it belongs to: chassis, psu0, fan3, gpu uuid, ...")] = None
    value: Annotated[float | None, Means("reading in the unit of the quantity; None with a quality code when it is missing")] = None
    text: Annotated[str | None, Means("value of a quantity that is not a number")] = None
    unit: Annotated[str | None, Means("unit as mapped")] = None
    quality: Annotated[str | None, Means("code when the reading is not ok")] = None
    time_quality: Annotated[
        str | None,
        Means("why observed_at is not the BMC's own time: zone_missing, clock_unset, clock_skew, time_invalid (and its text), time_absent"),
    ] = None


class OtherReading(Observed, frozen=True, kw_only=True, omit_defaults=True):
    """Imported telemetry under a name of its own."""

    device: Annotated[str | None, Means("device id, None for the node")] = None
    name: Annotated[str, Means("name as imported")]
    value: Annotated[float | None, Means("reading; None with a quality code where it was no number")] = None
    quality: Annotated[str | None, Means("code when the reading is not ok")] = None


class TopologyRow(Observed, frozen=True, kw_only=True, omit_defaults=True):
    """One node's place in one kind of failure domain, from `observed_at` on."""

    kind: Annotated[str, Means("chassis, rack, power, leaf_switch, nvlink_domain, lot, position, or a site's own")]
    domain: Annotated[str, Means("id of the domain within its kind")]


class Event(Observed, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened once."""

    kind: Annotated[str, Means("xid, sxid, bus_loss, gpu_missing, nvml_event, bmc, failure, error, maintenance")]
    gpu_uuid: Annotated[str | None, Means("GPU concerned, where the source names it")] = None
    pci: Annotated[str | None, Means("PCI address in the text, domain:bus:device")] = None
    gpu_instance: Annotated[int | None, Means("MIG GPU instance id, None for the whole GPU")] = None
    compute_instance: Annotated[int | None, Means("MIG compute instance id, None for the whole GPU instance")] = None
    code: Annotated[int | None, Means("XID or SXid")] = None
    use: Annotated[str | None, Means("class of the catalogue: label, precursor, weak, noise, exclude, unknown")] = None
    root_code: Annotated[int | None, Means("XID that caused this one, by the driver or by the merge")] = None
    is_sympathetic: Annotated[bool | None, Means("follows from another event")] = None
    link: Annotated[int | None, Means("NVLink concerned")] = None
    recovery_action: Annotated[int | None, Means("recovery action that XID 154 announces", "code")] = None
    recovery_action_before: Annotated[int | None, Means("recovery action that XID 154 says was asked for until then", "code")] = None
    kernel_seq: Annotated[int | None, Means("sequence number of the kernel log record")] = None
    mode: Annotated[str | None, Means("failure mode, where an imported event names it")] = None
    detail: Annotated[str | None, Means("text of the event")] = None


class InventoryRow(Observed, frozen=True, kw_only=True, omit_defaults=True):
    """A device came to or left a seat; a seat's end is unknown until it happens."""

    gpu_uuid: Annotated[str | None, Means("device; None: the node itself, for fleets known by their nodes")] = None
    action: Annotated[str, Means("insert or remove")]
    serial: Annotated[str | None, Means("board serial number: history follows it over nodes")] = None
    pci: Annotated[str | None, Means("PCI address of the seat")] = None
    slot: Annotated[int | None, Means("position in the node")] = None
    model: Annotated[str | None, Means("product name")] = None
    lot: Annotated[str | None, Means("manufacturing lot")] = None
    driver_version: Annotated[str | None, Means("driver version")] = None


class GpuPods(Observed, frozen=True, kw_only=True, omit_defaults=True):
    """Which pods are on a GPU, when that has changed and once per hour; the newest row of a GPU wins."""

    gpu_uuid: Annotated[str, Means("identity of the GPU")]
    gpu_instance: Annotated[int | None, Means("MIG GPU instance id, None for the whole GPU")] = None
    pods: Annotated[tuple[str, ...], Means("namespace/pod/container; none: the pods have gone")] = ()


class Job(Observed, frozen=True, kw_only=True, omit_defaults=True):
    """State of a job at `observed_at`; the newest row of a job wins."""

    job_id: Annotated[str, Means("id at the scheduler")]
    state: Annotated[str, Means("pending, running, completed, failed, node_fail, preempted, cancelled, timeout, out_of_memory")]
    nodes: Annotated[tuple[str, ...], Means("names of its nodes")] = ()
    gpus: Annotated[int | None, Means("GPUs in all", "count")] = None
    submitted_at_ns: Annotated[int | None, Means("submit time", "UTC")] = None
    started_at_ns: Annotated[int | None, Means("start of this run", "UTC")] = None
    ended_at_ns: Annotated[int | None, Means("end of this run", "UTC")] = None
    exit_code: Annotated[int | None, Means("exit code")] = None
    restarts: Annotated[int | None, Means("times requeued", "count")] = None
    checkpoint_mode: Annotated[str | None, Means("periodic, per_iter, jit or replica, as declared")] = None
    checkpoint_interval_s: Annotated[float | None, Means("as declared", "s")] = None
    is_elastic: Annotated[bool | None, Means("goes on with fewer nodes, as declared")] = None
    tolerates_f: Annotated[int | None, Means("node failures survived without a restore, as declared")] = None
    sync: Annotated[str | None, Means("tight or loose, as declared")] = None


class JobProgress(Observed, frozen=True, kw_only=True, omit_defaults=True):
    """What a job says about itself."""

    job_id: Annotated[str, Means("id at the scheduler")]
    step: Annotated[int | None, Means("training step")] = None
    step_time_s: Annotated[float | None, Means("duration of a step", "s")] = None
    flop_utilisation_ratio: Annotated[float | None, Means("model FLOP utilisation", "0..1")] = None
    checkpoint_at_ns: Annotated[int | None, Means("end of the newest complete checkpoint", "UTC")] = None


class Outcome(Observed, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a node: the label source."""

    outcome_id: Annotated[str, Means("idempotency key")]
    kind: Annotated[str, Means("failed_in_service, failed_while_drained, diag_failed, part_replaced, no_fault_found, ...")]
    gpu_uuid: Annotated[str | None, Means("component concerned")] = None
    mode: Annotated[str | None, Means("failure mode")] = None
    recommendation_id: Annotated[str | None, Means("recommendation it answers")] = None
    confidence: Annotated[str | None, Means("confirmed or suspected")] = None
    detail: Annotated[str | None, Means("free text")] = None


class SourceState(Observed, frozen=True, kw_only=True, omit_defaults=True):
    """How a source of a node is, when it changed and once per hour; telemetry's health, never the node's."""

    state: Annotated[str, Means("ok, partial, empty, error(<status>), stale, hung, driver_mismatch, unreachable, ...")]
    detail: Annotated[str | None, Means("what was seen")] = None
    expected: Annotated[int | None, Means("series or GPUs expected", "count")] = None
    seen: Annotated[int | None, Means("series or GPUs seen", "count")] = None


GPU_SAMPLES = table_of(GpuSample, "gpu_samples", "One wide row per GPU, poll and source.", ("node", "gpu_uuid", "observed_at"))
LINK_SAMPLES = table_of(LinkSample, "link_samples", "One row per NVLink and poll.", ("node", "gpu_uuid", "link", "observed_at"))
CHASSIS_READINGS = table_of(ChassisReading, "chassis_readings", "Readings of BMCs.", ("node", "sensor", "observed_at"))
OTHER_READINGS = table_of(OtherReading, "other_readings", "Imported telemetry with names of its own.", ("node", "observed_at"))
TOPOLOGY = table_of(TopologyRow, "topology", "Which failure domains a node is in.", ("node", "observed_at"))
EVENTS = table_of(Event, "events", "XIDs and other things that happened once.", ("node", "observed_at"))
INVENTORY = table_of(InventoryRow, "inventory", "Devices inserted and removed, as a stream.", ("node", "observed_at"))
GPU_PODS = table_of(GpuPods, "gpu_pods", "Which pods are on a GPU.", ("node", "gpu_uuid", "observed_at"))
JOBS = table_of(Job, "jobs", "The scheduler's jobs.", ("node", "job_id", "observed_at"))
JOB_PROGRESS = table_of(JobProgress, "job_progress", "Steps and checkpoints of jobs.", ("node", "job_id", "observed_at"))
OUTCOMES = table_of(Outcome, "outcomes", "What became of nodes.", ("node", "observed_at"))
SOURCE_STATES = table_of(SourceState, "source_states", "Health of the telemetry itself.", ("node", "observed_at"))

TABLES = {
    table.name: table
    for table in (
        GPU_SAMPLES,
        LINK_SAMPLES,
        CHASSIS_READINGS,
        OTHER_READINGS,
        TOPOLOGY,
        EVENTS,
        INVENTORY,
        GPU_PODS,
        JOBS,
        JOB_PROGRESS,
        OUTCOMES,
        SOURCE_STATES,
    )
}
TABLE_OF_RECORD: dict[type[Record], str] = {table.record: table.name for table in TABLES.values() if table.record}
