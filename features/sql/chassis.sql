-- The chassis: air, fans, power supplies and the BMC's own silence.
--
-- Precursor of psu_vr, thermal and chassis. Differences to the fleet's median take out what the room does to all.
-- Grain: one row per (as_of, node). Inputs: landmarks, node_rollups_1h. Output: the features of family chassis.
with sums as (
    select
        as_of,
        node,
        started_at > as_of - interval 25 hours as is_last_day,
        part.*
    from (select as_of, unnest(generate_series(time_bucket(interval 1 hour, as_of) - interval 168 hours,
        time_bucket(interval 1 hour, as_of) - interval 1 hour, interval 1 hour)) as started_at from landmarks)
    join node_rollups_1h as part using (started_at)
    where part.known_at <= as_of
),
days as (
    select
        as_of,
        node,
        sum(inlet_temp_c_sum) filter (is_last_day) / nullif(sum(inlet_polls) filter (is_last_day), 0) as inlet_c,
        sum(outlet_temp_c_sum) filter (is_last_day) / nullif(sum(outlet_polls) filter (is_last_day), 0) as outlet_c,
        sum(fan_rpm_sum) filter (is_last_day) / nullif(sum(fan_polls) filter (is_last_day), 0) as fan_rpm,
        avg(1 - fan_rpm_min * fan_polls / nullif(fan_rpm_sum, 0)) filter (is_last_day) as fan_slowest_24h,
        avg(1 - psu_input_w_min / nullif(psu_input_w_max, 0)) filter (is_last_day) as psu_spread_24h,
        sum(psu_input_v_sum) filter (is_last_day) / nullif(sum(psu_input_v_polls) filter (is_last_day), 0) as psu_v_mean,
        sqrt(not_below_zero(sum(psu_input_v_sq_sum) filter (is_last_day) / nullif(sum(psu_input_v_polls) filter (is_last_day), 0)
            - psu_v_mean ** 2)) as psu_ripple_24h_v,
        sqrt(not_below_zero(sum(psu_input_v_sq_sum) filter (not is_last_day) / nullif(sum(psu_input_v_polls) filter (not is_last_day), 0)
            - (sum(psu_input_v_sum) filter (not is_last_day) / nullif(sum(psu_input_v_polls) filter (not is_last_day), 0)) ** 2))
            as psu_ripple_week_v,
        1 - min(psu_present_min) filter (is_last_day) as psu_missing_24h,
        sum(power_w_sum) filter (is_last_day) / nullif(sum(power_polls) filter (is_last_day), 0) as node_power_24h_w,
        sum(bad_readings) filter (is_last_day) / nullif(sum(readings + bad_readings) filter (is_last_day), 0) as bad_readings_share_24h,
        age_s(max(last_at), as_of) as chassis_age_s
    from sums
    group by as_of, node
)
select
    as_of,
    node,
    inlet_c as inlet_temp_24h_c,
    inlet_c - median(inlet_c) over (partition by as_of) as inlet_excess_c,
    outlet_c - inlet_c as air_rise_24h_c,
    fan_rpm / nullif(median(fan_rpm) over (partition by as_of), 0) - 1 as fan_excess_24h,
    fan_slowest_24h,
    psu_spread_24h,
    psu_ripple_24h_v,
    psu_ripple_24h_v / nullif(psu_ripple_week_v, 0) as psu_ripple_ratio,
    psu_missing_24h,
    node_power_24h_w,
    bad_readings_share_24h,
    chassis_age_s
from days
