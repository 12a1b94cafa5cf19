-- Which buckets make up the windows before each landmark: rings that add up, so that a window is a sum over its rings.
--
-- Ring 1 is the last hour, rings 1-2 the last 6 hours, 1-3 the last 24 hours, 1-4 the last 7 days and 1-5 the last 30 days; the far ends
-- of the last two are moved back to midnight UTC. Whole days are read as days, whole hours as hours, the rest as five-minute buckets
-- (none, where the landmark is on the hour).
--
-- Grain: one row per (as_of, tier, started_at). Inputs: landmarks(as_of). Output: as_of, ring, tier, started_at.
with rings(ring, near_h, far_h) as (
    values (1, 0, 1), (2, 1, 6), (3, 6, 24), (4, 24, 168), (5, 168, 720)
),
borders as (
    select
        as_of,
        ring,
        time_bucket(interval 5 minutes, as_of) as reached,
        case
            when ring = 5 then date_trunc('day', reached - to_hours(near_h))
            else reached - to_hours(near_h)
        end as near_at,
        case
            when ring >= 4 then date_trunc('day', reached - to_hours(far_h))
            else reached - to_hours(far_h)
        end as far_at,
        time_bucket(interval 1 hour, near_at) as near_hour,
        time_bucket(interval 1 hour, far_at + interval 59 minutes) as far_hour,
        if(ring >= 4, date_trunc('day', near_at), far_at) as near_day
    from landmarks
    cross join rings
)
select as_of, ring, '5m' as tier, unnest(generate_series(near_hour, near_at - interval 5 minutes, interval 5 minutes)) as started_at
from borders
where near_hour < near_at
union all
select as_of, ring, '5m', unnest(generate_series(far_at, far_hour - interval 5 minutes, interval 5 minutes))
from borders
where far_at < far_hour
union all
select as_of, ring, '1h', unnest(generate_series(greatest(far_hour, near_day), near_hour - interval 1 hour, interval 1 hour))
from borders
union all
select as_of, ring, '1d', unnest(generate_series(far_at, near_day - interval 1 day, interval 1 day))
from borders
where ring >= 4
