-- The samples that a run of the roll-up takes: those of the buckets it closes, and late ones of buckets closed before.
--
-- `stream` stands for the GPU and its source: windows over the long text keys take three times as long.
-- Grain: one row per sample. Inputs: gpu_samples; carry (carry.sql). Parameters: $since and $until (bucket borders), $late_since (how far
-- back late samples are taken: those received after the source's mark), $width_s.
-- Output: stream, the bucket (started_at, revision), is_overtaken (a later sample was rolled up before), what rollup.sql adds up.
select
    sample.node,
    gpu_uuid,
    source,
    hash(gpu_uuid, source) as stream,
    observed_at,
    sample.received_at,
    time_bucket(to_seconds($width_s), observed_at) as started_at,
    if(sample.received_at > started_at + to_seconds($width_s), 1, 0) as revision,
    false as is_carried,
    coalesce(observed_at <= carry.last_at, false) as is_overtaken,
    sample.boot_id,
    if(sample.boot_id is null, null, hash(sample.boot_id)) as boot,
    sample.epoch,
    sample.uptime_s,
    coalesce(gpu_present, true) and not coalesce(list_contains(map_values(quality), 'lost'), false) as is_present,
    coalesce(list_has_any(map_values(quality), ['lost', 'timeout', 'stale', 'blank', 'absent']), false) as is_bad,
    latency_us,
    temp_c,
    memory_temp_c,
    power_w,
    sm_clock_mhz,
    gpu_util_ratio,
    thermal_margin_c,
    gpu_index,
    power_limit_w,
    pcie_link_width * power(2, pcie_link_gen - 1) as pcie_lanes,
    nvlink_active,
    fabric_state,
    recovery_action,
    coalesce(remap_pending or retired_pages_pending, remap_pending, retired_pages_pending)::bigint as remap_pending,
    remap_failure::bigint as remap_failure,
    remap_banks_low + coalesce(remap_banks_none, 0) as remap_banks_low,
    sram_threshold_exceeded::bigint as sram_threshold_exceeded,
    sample.energy_mj_total,
    sample.sw_power_cap_ns_total,
    sample.sw_thermal_ns_total,
    sample.hw_thermal_ns_total,
    sample.hw_power_brake_ns_total,
    sample.pcie_replay_total,
    sample.pcie_correctable_total,
    sample.pcie_l0_to_recovery_total as pcie_recovery_total,
    sample.ecc_ce_volatile_total,
    sample.ecc_ue_volatile_total,
    sample.dram_ce_volatile_total,
    sample.dram_ue_volatile_total,
    sample.sram_ce_volatile_total,
    sample.sram_ue_volatile_total,
    sample.nvlink_crc_total,
    sample.nvlink_replay_total,
    sample.nvlink_recovery_total,
    sample.ecc_ce_aggregate_total,
    sample.ecc_ue_aggregate_total,
    sample.remapped_rows_ce_total,
    sample.remapped_rows_ue_total,
    sample.retired_pages_total
from gpu_samples as sample
left join carry using (gpu_uuid, source)
where observed_at < $until
  and (observed_at >= $since or (observed_at >= $late_since and sample.received_at > coalesce(carry.received_at, '-infinity')))
  and gpu_instance is null
