-- XIDs of a unit, a burst of one code within an hour counted once; what follows from another event is left out.
--
-- Grain: one row per burst. Inputs: events, seats. Output: unit, node, happened_at, known_at, code, use.
with xids as (
    select
        coalesce(event.gpu_uuid, seat.gpu_uuid, event.node) as unit,
        event.node,
        event.observed_at as happened_at,
        greatest(event.observed_at, event.received_at) as known_at,
        event.code,
        event.use
    from events as event
    left join seats as seat
        on event.gpu_uuid is null and seat.node = event.node and seat.pci = event.pci
        and seat.known_at <= event.observed_at and event.observed_at < seat.until
    where event.kind in ('xid', 'sxid') and not coalesce(event.is_sympathetic, false) and event.use <> 'exclude'
)
select unit, node, happened_at, known_at, code, use
from xids
qualify coalesce(happened_at - lag(happened_at) over (partition by unit, code order by happened_at) > interval 1 hour, true)
