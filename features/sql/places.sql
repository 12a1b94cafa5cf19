-- The failure domains of every node as of each landmark, one column per kind.
--
-- Grain: one row per (as_of, node). Inputs: landmarks, topology.
-- Output: as_of, node, chassis, rack, leaf_switch, power, position, lot.
with stays as (
    select
        node,
        kind,
        domain,
        greatest(observed_at, received_at) as since,
        coalesce(
            min(greatest(observed_at, received_at)) over (
                partition by node, kind order by observed_at, received_at rows between 1 following and unbounded following
            ),
            'infinity'::timestamptz
        ) as until
    from topology
)
select
    as_of,
    node,
    max(domain) filter (kind = 'chassis') as chassis,
    max(domain) filter (kind = 'rack') as rack,
    max(domain) filter (kind = 'leaf_switch') as leaf_switch,
    max(domain) filter (kind = 'power') as power,
    max(domain) filter (kind = 'position') as position,
    max(domain) filter (kind = 'lot') as lot
from landmarks
join stays on since <= as_of and as_of < until
group by as_of, node
