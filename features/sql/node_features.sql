-- Every feature of a node as of each landmark: its own, and what its GPUs add up to or at worst are.
--
-- Grain: one row per (as_of, node). Inputs: nodes, chassis, node_history, domain_rates, gpu_features. Output: NODE_FEATURES.
with gpus as (
    select
        as_of,
        node,
        min(telemetry_age_s) as telemetry_age_s,
        avg(polls_missing_24h) as polls_missing_24h,
        count(*) filter (polls_missing_1h >= 1) as gpus_silent_1h,
        sum(counter_resets_7d) / nullif(count(counter_resets_7d), 0) as resets_per_gpu_7d,
        avg(power_brake_share_24h) as power_brake_share_24h,
        avg(clock_droop_6h) as clock_droop_6h,
        avg(util_24h) as util_24h,
        max(temp_max_24h_c) as temp_max_24h_c
    from gpu_features
    group by as_of, node
)
select
    node.as_of,
    node.node,
    chassis.* exclude (as_of, node),
    past.* exclude (as_of, node),
    gpus.* exclude (as_of, node),
    domain.* exclude (as_of, unit, slot_risk_90d)
from nodes as node
left join chassis using (as_of, node)
left join node_history as past using (as_of, node)
left join gpus using (as_of, node)
left join domain_rates as domain on domain.as_of = node.as_of and domain.unit = node.node
order by node.node, node.as_of
