-- Temperature at fixed power: against the GPU's own past, against GPUs of the same slot in the fleet, and against its node.
--
-- The slope of temperature over power is the fleet's, pooled within GPUs over the last day; with it each mean temperature is moved to
-- 500 W. The own past is the window 7 to 30 days back, or 1 to 7 days back where there is none. What all GPUs of a node share (inlet air)
-- is taken out by the node's median.
-- Precursor of thermal. Grain: one row per (as_of, gpu_uuid). Inputs: window_sums, units. Output: the features of family thermal.
with sums as (
    select
        as_of,
        gpu_uuid,
        sum(load_polls) filter (ring <= 2) as now_n,
        sum(temp_sum) filter (ring <= 2) / nullif(now_n, 0) as now_temp,
        sum(power_sum) filter (ring <= 2) / nullif(now_n, 0) as now_power,
        sum(load_polls) filter (ring <= 3) as day_n,
        sum(temp_sum) filter (ring <= 3) / nullif(day_n, 0) as day_temp,
        sum(power_sum) filter (ring <= 3) / nullif(day_n, 0) as day_power,
        sum(power_sq_sum) filter (ring <= 3) - day_n * day_power * day_power as day_power_spread,
        sum(temp_power_sum) filter (ring <= 3) - day_n * day_temp * day_power as day_covariation,
        sum(load_polls) filter (ring = 4) as week_n,
        sum(temp_sum) filter (ring = 4) / nullif(week_n, 0) as week_temp,
        sum(power_sum) filter (ring = 4) / nullif(week_n, 0) as week_power,
        sum(load_polls) filter (ring = 5) as month_n,
        sum(temp_sum) filter (ring = 5) / nullif(month_n, 0) as month_temp,
        sum(power_sum) filter (ring = 5) / nullif(month_n, 0) as month_power,
        max(temp_c_max) filter (ring <= 3) as temp_max_24h_c,
        max(memory_temp_c_max) filter (ring <= 3) as memory_temp_max_24h_c,
        min(thermal_margin_c_min) filter (ring <= 3) as thermal_margin_min_24h_c
    from window_sums
    group by as_of, gpu_uuid
),
slopes as (
    select as_of, coalesce(sum(day_covariation) / nullif(sum(day_power_spread), 0), 0) as slope
    from sums
    group by as_of
),
moved as (
    select
        as_of,
        gpu_uuid,
        50 + now_temp - slope * (now_power - 100) as now_c,
        50 + day_temp - slope * (day_power - 100) as day_c,
        50 + week_temp - slope * (week_power - 100) as week_c,
        coalesce(50 + month_temp - slope * (month_power - 100), week_c) as past_c,
        temp_max_24h_c,
        memory_temp_max_24h_c,
        thermal_margin_min_24h_c
    from sums
    join slopes using (as_of)
)
select
    as_of,
    gpu_uuid,
    now_c - past_c as temp_excess_own_c,
    day_c - past_c - median(day_c - past_c) over (partition by as_of, unit.node) as temp_excess_own_vs_node_c,
    day_c - median(day_c) over (partition by as_of, unit.slot) as temp_excess_slot_c,
    day_c - median(day_c) over (partition by as_of, unit.node) as temp_excess_node_c,
    (day_c - week_c) / 4 as temp_drift_c_per_day,
    temp_max_24h_c,
    memory_temp_max_24h_c,
    thermal_margin_min_24h_c
from moved
join units as unit using (as_of, gpu_uuid)
