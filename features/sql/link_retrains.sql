-- NVLink errors, replays and recoveries (retrains), their growth, and links that are down.
--
-- Precursor of nvlink. Grain: one row per (as_of, gpu_uuid). Inputs: window_sums. Output: the features of family nvlink.
with errors as (
    select *, coalesce(nvlink_crc + nvlink_replay, nvlink_crc, nvlink_replay) as nvlink_errors
    from window_sums
    where ring <= 4
)
select
    as_of,
    gpu_uuid,
    sum(nvlink_crc) filter (ring <= 3) as nvlink_crc_24h,
    sum(nvlink_replay) filter (ring <= 3) as nvlink_replay_24h,
    sum(nvlink_recovery) filter (ring <= 3) as nvlink_recovery_24h,
    sum(nvlink_recovery) as nvlink_recovery_7d,
    sum(nvlink_errors) filter (ring <= 1) as nvlink_errors_1h,
    log2((1 + sum(nvlink_errors) filter (ring <= 3)) / (1 + sum(nvlink_errors) filter (ring = 4) / 6.0)) as nvlink_error_trend,
    sum(nvlink_error_polls) filter (ring <= 3 and nvlink_errors is not null) / nullif(sum(polls) filter (ring <= 3), 0)
        as nvlink_error_share_24h,
    max(nvlink_active_max) - arg_max(nvlink_active, last_at) as nvlink_links_down,
    1 - (arg_max(fabric_state, last_at) in (0, 3))::int as fabric_not_ready
from errors
group by as_of, gpu_uuid
