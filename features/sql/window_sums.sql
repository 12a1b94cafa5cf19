-- What each landmark may see of each GPU, added up per ring of its windows; the precursors read nothing else of the roll-ups.
--
-- A window is the sum over its rings: the last hour is ring 1, 6 hours are rings 1-2, 24 hours 1-3, 7 days 1-4, 30 days 1-5 (spans.sql).
-- Sums are of sums, maxima of maxima, and last values those of the newest sample. Sources of one GPU never add up: in each ring the one
-- with the most buckets counts, NVML before the exporter before others where they have equally many.
-- Grain: one row per (as_of, gpu_uuid, ring). Inputs: spans; gpu_rollups_5m, gpu_rollups_1h, gpu_rollups_1d.
-- Output: as_of, ring, node, gpu_uuid, source, the columns of features/buckets.py from `polls` to `sram_threshold_exceeded`, answered_at
-- (newest sample in which the GPU answered).
with parts as (
    select span.as_of, span.ring, part.*
    from spans as span
    join gpu_rollups_1h as part using (started_at)
    where span.tier = '1h' and part.known_at <= span.as_of
    union all
    select span.as_of, span.ring, part.*
    from spans as span
    join gpu_rollups_1d as part using (started_at)
    where span.tier = '1d' and part.known_at <= span.as_of
    union all
    select span.as_of, span.ring, part.*
    from spans as span
    join gpu_rollups_5m as part using (started_at)
    where span.tier = '5m' and part.known_at <= span.as_of
),
sums as (
    select
        as_of,
        ring,
        arg_max(node, last_at) as node,
        gpu_uuid,
        source,
        count(*) as coverage,
        sum(columns('^(polls|absent_polls|bad_polls|elapsed_s|latency_us_sum)$')),
        sum(columns('^(latency_polls|load_polls|power_sum|power_sq_sum|temp_sum|temp_power_sum)$')),
        sum(columns('^(util_sum|util_polls|busy_clock_mhz_sum|busy_polls|sw_power_cap_s|sw_thermal_s|hw_thermal_s|hw_power_brake_s)$')),
        sum(columns('^(pcie_replay|pcie_correctable|pcie_recovery|ecc_ce|ecc_ue|sram_ce|sram_ue|remapped_rows|nvlink_crc|nvlink_replay)$')),
        sum(columns('^(nvlink_recovery|ce_polls|nvlink_error_polls|resets|went_back)$')),
        max(columns('^(latency_us_max|temp_c_max|memory_temp_c_max|ce_max|ce_last_at|nvlink_active_max|pcie_lanes_max)$')),
        min(thermal_margin_c_min) as thermal_margin_c_min,
        arg_max(columns('^(gpu_index|pcie_lanes|nvlink_active|fabric_state)$'), last_at),
        arg_max(columns('^(remap_pending|remap_failure|remap_banks_low|remapped_rows_total)$'), last_at),
        max(last_at) as last_at,
        max(last_at) filter (polls > 0) as answered_at
    from parts
    group by as_of, ring, gpu_uuid, source
),
believed as (
    select as_of, ring, gpu_uuid, arg_max(source, coverage * 4 - source_rank(source)) as source
    from sums
    group by as_of, ring, gpu_uuid
)
select sums.* exclude (coverage)
from sums
join believed using (as_of, ring, gpu_uuid, source)
