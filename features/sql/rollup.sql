-- Samples to closed buckets: what adds up, the largest values, the last values, and the growth of counters across their resets.
--
-- A counter epoch begins when the boot changes, the collector's epoch grows, the uptime goes back, or two counters since driver load step
-- back together. Growth into a new epoch is the new value (a lower bound); a counter that alone steps back gives none and is counted;
-- the first reading ever seen is a baseline. Growth is booked in the order of arrival: a sample that a later one has overtaken, in this
-- run or in an earlier one, adds its gauges and no growth.
--
-- The burst of corrected errors is what five minutes brought, not what a poll did: polls add up, and growth over a longer gap is spread
-- evenly over it. So it is the same for any interval and whichever polls are missing.
--
-- Grain: one row per (gpu_uuid, source, bucket, revision); revision 1 holds what was received after the bucket's end.
-- Inputs: samples (samples.sql); carry (carry.sql). Parameters: $width_s. Output: columns of features/buckets.py, GpuRollup.
with carried as (
    select
        hash(gpu_uuid, source) as stream,
        last_at,
        received_at,
        if(boot_id is null, null, hash(boot_id)) as boot,
        * exclude (node, gpu_uuid, source, last_at, received_at, boot_id)
    from carry
),
arrivals as materialized (
    select
        stream,
        observed_at,
        received_at,
        started_at,
        revision,
        observed_at = lag(observed_at) over polls as is_repeat,
        is_overtaken or received_at > min(received_at) over later as is_overtaken
    from samples
    window
        polls as (partition by stream order by observed_at, received_at),
        later as (partition by stream order by observed_at, received_at rows between 1 following and unbounded following)
),
overtaken as (
    select distinct stream, observed_at, received_at
    from arrivals
    where is_overtaken
),
repeats as (
    select stream, started_at, revision, count(*) as repeats
    from arrivals
    where is_repeat
    group by stream, started_at, revision
),
readings as (
    select
        stream, observed_at, received_at, started_at, revision, boot, epoch, uptime_s, false as is_carried, columns('_total$')
    from samples
    anti join overtaken using (stream, observed_at, received_at)
    union all by name
    select *, last_at as observed_at, true as is_carried
    from carried
),
compared as (
    select
        *,
        lag(observed_at) over chain as observed_before,
        lag(if(coalesce(energy_mj_total, pcie_replay_total, hw_thermal_ns_total) is null, null, observed_at) ignore nulls) over chain
            as hot_before,
        lag(if(coalesce(ecc_ce_volatile_total, nvlink_crc_total, pcie_correctable_total) is null, null,
            observed_at) ignore nulls) over chain
            as warm_before,
        lag(boot ignore nulls) over chain as boot_before,
        lag(epoch ignore nulls) over chain as epoch_before,
        lag(uptime_s ignore nulls) over chain as uptime_before,
        lag(columns('_total$') ignore nulls) over chain as 'before_\0'
    from readings
    window chain as (partition by stream order by observed_at, received_at)
),
judged as materialized (
    select
        * exclude (boot, epoch, uptime_s, boot_before, epoch_before, uptime_before),
        coalesce(boot <> boot_before or epoch > epoch_before or uptime_s < uptime_before or 2 <= (
            stepped_back(energy_mj_total, before_energy_mj_total, false)
            + stepped_back(sw_power_cap_ns_total, before_sw_power_cap_ns_total, false)
            + stepped_back(sw_thermal_ns_total, before_sw_thermal_ns_total, false)
            + stepped_back(hw_thermal_ns_total, before_hw_thermal_ns_total, false)
            + stepped_back(hw_power_brake_ns_total, before_hw_power_brake_ns_total, false)
            + stepped_back(pcie_replay_total, before_pcie_replay_total, false)
            + stepped_back(pcie_correctable_total, before_pcie_correctable_total, false)
            + stepped_back(pcie_recovery_total, before_pcie_recovery_total, false)
            + stepped_back(ecc_ce_volatile_total, before_ecc_ce_volatile_total, false)
            + stepped_back(nvlink_crc_total, before_nvlink_crc_total, false)
            + stepped_back(nvlink_replay_total, before_nvlink_replay_total, false)
            + stepped_back(nvlink_recovery_total, before_nvlink_recovery_total, false)
        ), false) as is_reset
    from compared
    where not is_carried
),
resets as (
    select stream, list(observed_at) as reset_times
    from judged
    where is_reset
    group by stream
),
steps as not materialized (
    select
        judged.*,
        coalesce(len(list_filter(reset_times, lambda began: began > hot_before and began <= observed_at)) > 0, false) as is_reset_since_hot,
        coalesce(len(list_filter(reset_times, lambda began: began > warm_before and began <= observed_at)) > 0, false)
            as is_reset_since_warm,
        growth(sram_ce_volatile_total, before_sram_ce_volatile_total, is_reset_since_warm) as sram_ce,
        growth(sram_ue_volatile_total, before_sram_ue_volatile_total, is_reset_since_warm) as sram_ue,
        coalesce(
            growth(ecc_ce_volatile_total, before_ecc_ce_volatile_total, is_reset_since_warm),
            growth(dram_ce_volatile_total, before_dram_ce_volatile_total, is_reset_since_warm) + coalesce(sram_ce, 0),
            growth(ecc_ce_aggregate_total, before_ecc_ce_aggregate_total, false)
        ) as ecc_ce,
        coalesce(
            growth(ecc_ue_volatile_total, before_ecc_ue_volatile_total, is_reset_since_warm),
            growth(dram_ue_volatile_total, before_dram_ue_volatile_total, is_reset_since_warm) + coalesce(sram_ue, 0),
            growth(ecc_ue_aggregate_total, before_ecc_ue_aggregate_total, false)
        ) as ecc_ue,
        growth(remapped_rows_ce_total, before_remapped_rows_ce_total, false) as remapped_ce,
        growth(remapped_rows_ue_total, before_remapped_rows_ue_total, false) as remapped_ue,
        coalesce(remapped_ce + remapped_ue, remapped_ce, remapped_ue, growth(retired_pages_total, before_retired_pages_total, false))
            as remapped_rows,
        growth(nvlink_crc_total, before_nvlink_crc_total, is_reset_since_warm) as nvlink_crc,
        growth(nvlink_replay_total, before_nvlink_replay_total, is_reset_since_warm) as nvlink_replay,
        growth(nvlink_recovery_total, before_nvlink_recovery_total, is_reset_since_warm) as nvlink_recovery
    from judged
    left join resets using (stream)
),
grown as (
    select
        stream,
        started_at,
        revision,
        sum(if(observed_before is null, null, least(epoch_us(observed_at) - epoch_us(observed_before), 3_600_000_000))) / 1e6 as elapsed_s,
        sum(growth(sw_power_cap_ns_total, before_sw_power_cap_ns_total, is_reset_since_hot)) / 1e9 as sw_power_cap_s,
        sum(growth(sw_thermal_ns_total, before_sw_thermal_ns_total, is_reset_since_hot)) / 1e9 as sw_thermal_s,
        sum(growth(hw_thermal_ns_total, before_hw_thermal_ns_total, is_reset_since_hot)) / 1e9 as hw_thermal_s,
        sum(growth(hw_power_brake_ns_total, before_hw_power_brake_ns_total, is_reset_since_hot)) / 1e9 as hw_power_brake_s,
        sum(growth(pcie_replay_total, before_pcie_replay_total, is_reset_since_hot)) as pcie_replay,
        sum(growth(pcie_correctable_total, before_pcie_correctable_total, is_reset_since_warm)) as pcie_correctable,
        sum(growth(pcie_recovery_total, before_pcie_recovery_total, is_reset_since_warm)) as pcie_recovery,
        sum(ecc_ce) as ecc_ce,
        sum(ecc_ue) as ecc_ue,
        sum(sram_ce) as sram_ce,
        sum(sram_ue) as sram_ue,
        sum(remapped_rows) as remapped_rows,
        sum(nvlink_crc) as nvlink_crc,
        sum(nvlink_replay) as nvlink_replay,
        sum(nvlink_recovery) as nvlink_recovery,
        count(*) filter (ecc_ce > 0) as ce_polls,
        max(observed_at) filter (ecc_ce > 0) as ce_last_at,
        count(*) filter (greatest(nvlink_crc, nvlink_replay, nvlink_recovery) > 0) as nvlink_error_polls,
        count(*) filter (is_reset) as resets,
        sum(
            stepped_back(energy_mj_total, before_energy_mj_total, is_reset_since_hot)
            + stepped_back(sw_power_cap_ns_total, before_sw_power_cap_ns_total, is_reset_since_hot)
            + stepped_back(sw_thermal_ns_total, before_sw_thermal_ns_total, is_reset_since_hot)
            + stepped_back(hw_thermal_ns_total, before_hw_thermal_ns_total, is_reset_since_hot)
            + stepped_back(hw_power_brake_ns_total, before_hw_power_brake_ns_total, is_reset_since_hot)
            + stepped_back(pcie_replay_total, before_pcie_replay_total, is_reset_since_hot)
            + stepped_back(pcie_correctable_total, before_pcie_correctable_total, is_reset_since_warm)
            + stepped_back(pcie_recovery_total, before_pcie_recovery_total, is_reset_since_warm)
            + stepped_back(ecc_ce_volatile_total, before_ecc_ce_volatile_total, is_reset_since_warm)
            + stepped_back(nvlink_crc_total, before_nvlink_crc_total, is_reset_since_warm)
            + stepped_back(nvlink_replay_total, before_nvlink_replay_total, is_reset_since_warm)
            + stepped_back(nvlink_recovery_total, before_nvlink_recovery_total, is_reset_since_warm)
            + stepped_back(ecc_ce_aggregate_total, before_ecc_ce_aggregate_total, false)
            + stepped_back(remapped_rows_ue_total, before_remapped_rows_ue_total, false)
        ) as went_back,
        arg_max(columns('^[^b].*_total$'), observed_at)
    from steps
    group by stream, started_at, revision
),
bursts as (
    select stream, started_at, revision, least(max(ce_5m), 9e18)::bigint as ce_max  -- a counter may be anything
    from (
        select
            stream,
            started_at,
            revision,
            ceil(sum(ecc_ce * 3e8 / greatest(3e8, epoch_us(observed_at) - epoch_us(warm_before)))) as ce_5m
        from steps
        where ecc_ce is not null
        group by stream, started_at, revision, time_bucket(interval 5 minutes, observed_at)
    )
    group by stream, started_at, revision
),
seen as (
    select
        any_value(gpu_uuid) as gpu_uuid,
        any_value(source) as source,
        arg_max(node, observed_at) as node,
        started_at,
        greatest(started_at + to_seconds($width_s), max(received_at)) as known_at,
        max(received_at) as last_received_at,
        revision,
        stream,
        count(*) filter (is_present) as polls,
        count(*) filter (not is_present) as absent_polls,
        count(*) filter (is_bad) as bad_polls,
        max(observed_at) as last_at,
        sum(latency_us) as latency_us_sum,
        max(latency_us) as latency_us_max,
        count(latency_us) as latency_polls,
        count(temp_c + power_w) as load_polls,
        sum(power_w - 400) filter (temp_c is not null) as power_sum,
        sum((power_w - 400) * (power_w - 400)) filter (temp_c is not null) as power_sq_sum,
        sum(temp_c - 50) filter (power_w is not null) as temp_sum,
        sum((temp_c - 50) * (power_w - 400)) as temp_power_sum,
        max(temp_c) as temp_c_max,
        max(memory_temp_c) as memory_temp_c_max,
        min(thermal_margin_c) as thermal_margin_c_min,
        sum(gpu_util_ratio) as util_sum,
        count(gpu_util_ratio) as util_polls,
        sum(sm_clock_mhz) filter (gpu_util_ratio >= 0.5) as busy_clock_mhz_sum,
        count(sm_clock_mhz) filter (gpu_util_ratio >= 0.5) as busy_polls,
        arg_max(gpu_index, observed_at) as gpu_index,
        arg_max(power_limit_w, observed_at) as power_limit_w,
        arg_max(pcie_lanes, observed_at) as pcie_lanes,
        max(pcie_lanes) as pcie_lanes_max,
        arg_max(nvlink_active, observed_at) as nvlink_active,
        max(nvlink_active) as nvlink_active_max,
        arg_max(fabric_state, observed_at) as fabric_state,
        arg_max(recovery_action, observed_at) as recovery_action,
        arg_max(remap_pending, observed_at) as remap_pending,
        arg_max(remap_failure, observed_at) as remap_failure,
        arg_max(remap_banks_low, observed_at) as remap_banks_low,
        arg_max(remapped_rows_ce_total + remapped_rows_ue_total, observed_at) as remapped_rows_total,
        arg_max(sram_threshold_exceeded, observed_at) as sram_threshold_exceeded,
        arg_max(boot_id, observed_at) as boot_id,
        arg_max(epoch, observed_at) as epoch,
        arg_max(uptime_s, observed_at) as uptime_s
    from samples
    group by stream, started_at, revision
)
select
    seen.* exclude (stream, polls, last_received_at),
    last_received_at as received_at,
    polls - coalesce(repeats, 0) as polls,
    grown.* exclude (stream, started_at, revision),
    ce_max
from seen
left join grown using (stream, started_at, revision)
left join bursts using (stream, started_at, revision)
left join repeats using (stream, started_at, revision)
