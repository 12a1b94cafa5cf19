-- The health of the telemetry itself: polls that are missing, age, latency, and a GPU that is silent while its node's others speak.
--
-- Precursor of fell_off_bus and gsp, where the numbers stay calm and the telemetry goes. Expected polls are the median of
-- the same window and source over all GPUs that spoke in the last day, so that an outage of a collector or of the whole fleet marks nobody.
-- Grain: one row per (as_of, gpu_uuid), of every unit. Inputs: window_sums, units. Output: the features of family missingness.
with sums as (
    select
        as_of,
        gpu_uuid,
        arg_max(source, last_at) as source,
        coalesce(sum(polls) filter (ring <= 1), 0) as polls_1h,
        coalesce(sum(polls) filter (ring <= 3), 0) as polls_24h,
        sum(absent_polls) filter (ring <= 3) as absent_24h,
        sum(bad_polls) filter (ring <= 3) as bad_24h,
        age_s(max(answered_at), as_of) as telemetry_age_s,
        sum(latency_us_sum) filter (ring <= 1) / nullif(sum(latency_polls) filter (ring <= 1), 0) as latency_1h_us,
        sum(latency_us_sum) / nullif(sum(latency_polls), 0) as latency_7d_us,
        max(latency_us_max) filter (ring <= 1) as latency_max_1h_us,
        sum(resets) as counter_resets_7d,
        sum(went_back) as counters_back_7d
    from window_sums
    where ring <= 4
    group by as_of, gpu_uuid
),
peers as (
    select
        as_of,
        gpu_uuid,
        sums.* exclude (as_of, gpu_uuid),
        nullif(median(polls_1h) filter (polls_24h > 0) over (partition by as_of, source), 0) as usual_1h,
        nullif(median(polls_24h) filter (polls_24h > 0) over (partition by as_of, source), 0) as usual_24h,
        median(coalesce(polls_1h, 0)) over (partition by as_of, unit.node) as node_1h
    from units as unit
    left join sums using (as_of, gpu_uuid)
)
select
    as_of,
    gpu_uuid,
    not_below_zero(1 - coalesce(polls_1h, 0) / usual_1h) as polls_missing_1h,
    not_below_zero(1 - coalesce(polls_24h, 0) / usual_24h) as polls_missing_24h,
    if(usual_1h is null, null, (coalesce(polls_1h, 0) = 0 and node_1h > 0)::int) as missing_alone,
    telemetry_age_s,
    log2((1 + latency_1h_us) / (1 + latency_7d_us)) as latency_trend,
    latency_max_1h_us / 1e3 as latency_max_1h_ms,
    absent_24h / nullif(polls_24h + absent_24h, 0) as absent_share_24h,
    bad_24h / nullif(polls_24h + absent_24h, 0) as bad_share_24h,
    counter_resets_7d,
    counters_back_7d
from peers
