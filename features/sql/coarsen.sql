-- Hours to UTC days: the parts of an hour add up to the parts of a day.
--
-- Grain: one row per (gpu_uuid, source, day, revision); revision 1 holds what was received after the day's end.
-- Inputs: hours (columns of features/buckets.py, GpuRollup); carry (carry.sql over the days before). Parameters: $since and $until (day
-- borders), $late_since (how far back late parts are taken: those received after the source's mark).
-- Output: columns of features/buckets.py, GpuRollup.
with parts as (
    select
        part.* exclude (started_at, revision),
        date_trunc('day', started_at) as started_at,
        if(part.received_at > date_trunc('day', part.started_at) + interval 1 day, 1, 0) as revision
    from hours as part
    left join carry using (gpu_uuid, source)
    where part.started_at < $until
      and (
        part.started_at >= $since
        or (part.started_at >= $late_since and part.received_at > coalesce(carry.received_at, '-infinity'))
    )
)
select
    node,
    started_at,
    greatest(started_at + interval 1 day, max(received_at)) as known_at,
    max(received_at) as received_at,
    revision,
    gpu_uuid,
    source,
    sum(columns('^(polls|absent_polls|bad_polls|elapsed_s|latency_us_sum)$')),
    sum(columns('^(latency_polls|load_polls|power_sum|power_sq_sum|temp_sum|temp_power_sum)$')),
    sum(columns('^(util_sum|util_polls|busy_clock_mhz_sum|busy_polls|sw_power_cap_s|sw_thermal_s|hw_thermal_s|hw_power_brake_s)$')),
    sum(columns('^(pcie_replay|pcie_correctable|pcie_recovery|ecc_ce|ecc_ue|sram_ce|sram_ue|remapped_rows|nvlink_crc|nvlink_replay)$')),
    sum(columns('^(nvlink_recovery|ce_polls|nvlink_error_polls|resets|went_back)$')),
    max(columns('^(latency_us_max|temp_c_max|memory_temp_c_max|ce_max|ce_last_at|nvlink_active_max|pcie_lanes_max)$')),
    min(thermal_margin_c_min) as thermal_margin_c_min,
    arg_max(columns('^(gpu_index|power_limit_w|pcie_lanes|nvlink_active)$'), last_at),
    arg_max(columns('^(fabric_state|recovery_action|remap_pending|remap_failure)$'), last_at),
    arg_max(columns('^(remap_banks_low|sram_threshold_exceeded|boot_id|epoch|uptime_s)$'), last_at),
    arg_max(columns('_total$'), last_at),
    max(last_at) as last_at
from parts
group by node, started_at, revision, gpu_uuid, source
