-- From when to when each unit was in service somewhere: seats of the inventory, cut at the start of telemetry where there is any.
--
-- A unit that only telemetry knows is in service from its first hour on. A node is in service from its first seat on, or as its own
-- inventory rows say. Grain: one row per stay. Inputs: seats, gpu_rollups_1h. Parameters: $now.
-- Output: scope, unit, node, started_at, ended_at (null: still there), ended_known_at.
with first_hours as (
    select gpu_uuid as unit, arg_min(node, started_at) as node, min(started_at) as started_at
    from gpu_rollups_1h
    where polls > 0 and known_at <= $now
    group by gpu_uuid
),
known as (
    select
        if(seat.gpu_uuid is null, 'node', 'gpu') as scope,
        unit,
        seat.node,
        greatest(seat.inserted_at, coalesce(first_hours.started_at, seat.inserted_at)) as started_at,
        if(seat.until <= $now, seat.left_at, null) as ended_at,
        seat.until as ended_known_at
    from seats as seat
    left join first_hours using (unit)
    where seat.known_at <= $now
    union all
    select 'gpu', unit, node, started_at, null, null
    from first_hours
    anti join seats using (unit)
)
select scope, unit, node, started_at, ended_at, ended_known_at
from known
where ended_at is null or ended_at > started_at
union all
select 'node', gpu.node, gpu.node, min(gpu.started_at), null, null
from known as gpu
where gpu.scope = 'gpu' and gpu.node not in (select node from known where scope = 'node')
group by gpu.node
order by scope, unit, started_at
