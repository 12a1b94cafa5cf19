-- Readings of BMCs to closed hours of a chassis.
--
-- Grain: one row per (node, hour, revision); revision 1 holds what was received after the hour's end.
-- Inputs: chassis_readings; node_carry (mark per node). Parameters: $since and $until (hour borders), $late_since.
-- Output: columns of features/buckets.py, NodeRollup.
with readings as (
    select
        reading.*,
        time_bucket(interval 1 hour, observed_at) as started_at,
        if(reading.received_at > started_at + interval 1 hour, 1, 0) as revision
    from chassis_readings as reading
    left join node_carry as carry using (node)
    where observed_at < $until
      and (observed_at >= $since or (observed_at >= $late_since and reading.received_at > coalesce(carry.received_at, '-infinity')))
)
select
    node,
    started_at,
    greatest(started_at + interval 1 hour, max(received_at)) as known_at,
    max(received_at) as received_at,
    revision,
    count(value) as readings,
    count(*) - count(value) as bad_readings,
    max(observed_at) as last_at,
    sum(value) filter (quantity = 'inlet_temp_c') as inlet_temp_c_sum,
    count(value) filter (quantity = 'inlet_temp_c') as inlet_polls,
    sum(value) filter (quantity = 'outlet_temp_c') as outlet_temp_c_sum,
    count(value) filter (quantity = 'outlet_temp_c') as outlet_polls,
    sum(value) filter (quantity = 'fan_rpm') as fan_rpm_sum,
    count(value) filter (quantity = 'fan_rpm') as fan_polls,
    min(value) filter (quantity = 'fan_rpm') as fan_rpm_min,
    max(value) filter (quantity = 'fan_rpm') as fan_rpm_max,
    min(value) filter (quantity = 'psu_input_w') as psu_input_w_min,
    max(value) filter (quantity = 'psu_input_w') as psu_input_w_max,
    sum(value - 230) filter (quantity = 'psu_input_v') as psu_input_v_sum,
    sum((value - 230) * (value - 230)) filter (quantity = 'psu_input_v') as psu_input_v_sq_sum,
    count(value) filter (quantity = 'psu_input_v') as psu_input_v_polls,
    min(value) filter (quantity = 'presence' and device ilike 'psu%') as psu_present_min,
    sum(value) filter (quantity = 'power_w' and coalesce(device, 'chassis') = 'chassis') as power_w_sum,
    count(value) filter (quantity = 'power_w' and coalesce(device, 'chassis') = 'chassis') as power_polls
from readings
group by node, started_at, revision
