-- Where each unit sits and since when: the stream of inserts and removes as intervals.
--
-- An interval ends when the unit's next move became known; an open seat ends at infinity. An insert that repeats where the unit is already
-- (a collector that was started again) is no move. A unit is a GPU, or the node itself in fleets that are known by their nodes.
-- Where no lot is given it is the head of a 13-digit board serial number: factory, week and year.
-- Grain: one row per seat taken. Inputs: inventory. Output: unit, gpu_uuid, node, board (serial, where known: history follows it),
-- slot, lot, pci, inserted_at, known_at, left_at, until (when that was known).
with stream as (
    select coalesce(gpu_uuid, node) as unit, *, greatest(observed_at, received_at) as known_at
    from inventory
),
moves as (
    select *
    from stream
    qualify coalesce(
        action <> lag(action) over (partition by unit order by observed_at, received_at)
        or node <> lag(node) over (partition by unit order by observed_at, received_at),
        true
    )
),
followed as (
    select
        *,
        lead(observed_at) over (partition by unit order by observed_at, received_at) as left_at,
        min(known_at) over (
            partition by unit order by observed_at, received_at rows between 1 following and unbounded following
        ) as next_known_at
    from moves
)
select
    unit,
    gpu_uuid,
    node,
    coalesce(serial, unit) as board,
    slot,
    coalesce(lot, nullif(regexp_extract(coalesce(serial, gpu_uuid), '^(\d{7})\d{6}$', 1), '')) as lot,
    pci,
    observed_at as inserted_at,
    known_at,
    left_at,
    coalesce(next_known_at, 'infinity'::timestamptz) as until
from followed
where action = 'insert'
