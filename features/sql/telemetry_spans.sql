-- Spans of hours in which telemetry has shown a node; a span ends before the first silent hour.
--
-- Grain: one row per span. Inputs: gpu_rollups_1h. Parameters: $now. Output: node, started_at, ended_at.
with hours as (
    select distinct node, started_at
    from gpu_rollups_1h
    where polls > 0 and known_at <= $now
),
islands as (
    select node, started_at, started_at - to_hours(row_number() over (partition by node order by started_at)) as island
    from hours
)
select node, min(started_at) as started_at, max(started_at) + interval 1 hour as ended_at
from islands
group by node, island
order by node, started_at
