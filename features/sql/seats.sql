-- Where each unit sits and since when: the stream of inserts and removes as intervals.
--
-- An interval ends when the unit's next insert or remove became known; an open seat ends at infinity. A unit is a GPU, or the node itself
-- in fleets that are known by their nodes.
--
-- Grain: one row per insert. Inputs: inventory. Output: unit, gpu_uuid, node, board (serial, where known: history follows it),
-- slot, lot, pci, inserted_at, known_at, left_at, until (when that was known).
with stream as (
    select
        coalesce(gpu_uuid, node) as unit,
        *,
        greatest(observed_at, received_at) as known_at,
        lead(observed_at) over moves as left_at,
        lead(greatest(observed_at, received_at)) over moves as next_known_at
    from inventory
    window moves as (partition by coalesce(gpu_uuid, node) order by observed_at, received_at)
)
select
    unit,
    gpu_uuid,
    node,
    coalesce(serial, unit) as board,
    slot,
    lot,
    pci,
    observed_at as inserted_at,
    known_at,
    left_at,
    coalesce(next_known_at, 'infinity'::timestamptz) as until
from stream
where action = 'insert'
