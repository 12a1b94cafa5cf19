-- The nodes that exist as of each landmark: those with a unit in a seat, and those that telemetry has shown in the last 7 days.
--
-- Grain: one row per (as_of, node). Inputs: landmarks, seats, units. Output: as_of, node, inserted_at (first seat of the node).
with seated as (
    select as_of, seat.node, min(seat.inserted_at) as inserted_at, bool_or(as_of < seat.until) as is_in_service
    from landmarks
    join seats as seat on seat.known_at <= as_of
    group by as_of, seat.node
),
shown as (
    select distinct as_of, node
    from units
)
select as_of, node, inserted_at
from seated
left join shown using (as_of, node)
where is_in_service or shown.node is not null
union all
select as_of, node, null as inserted_at
from shown
anti join seated using (as_of, node)
