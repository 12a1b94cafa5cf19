-- Everything that says that hardware has failed: XIDs of use `label`, losses of the bus, imported failures, and outcomes.
--
-- Left out: events that follow from another one, XID 154 (the driver's summary of another code), and what is no failure of hardware.
-- An event that names no GPU is given the GPU of its PCI address; an outcome of a GPU mode without one stays with the node.
-- `rank` says how much the mode is to be believed: 4 a part that was replaced, 3 a confirmed outcome, 2 an event whose code names the
-- mode, 1 a suspected outcome or a repair that changed no part, 0 an event that only says that something failed.
-- Grain: one row per sign. Inputs: events, outcomes, seats, xid_modes(code, mode), not_hardware(mode).
-- Output: node, gpu_uuid, happened_at, known_at, mode, rank, kind (event or outcome kind), is_ours (answers a recommendation).
with from_events as (
    select
        event.node,
        coalesce(event.gpu_uuid, seat.gpu_uuid) as gpu_uuid,
        event.observed_at as happened_at,
        greatest(event.observed_at, event.received_at) as known_at,
        coalesce(event.mode, if(event.code = 48 and event.detail ilike '%sram%', 'sram_ecc', xid_modes.mode)) as named_mode,
        event.kind
    from events as event
    left join xid_modes using (code)
    left join seats as seat
        on event.gpu_uuid is null and seat.node = event.node and seat.pci = event.pci
        and seat.known_at <= event.observed_at and event.observed_at < seat.until
    where (event.kind = 'failure' or event.kind = 'bus_loss' or (event.kind = 'xid' and event.use = 'label' and event.code <> 154))
      and not coalesce(event.is_sympathetic, false)
),
from_outcomes as (
    select
        node,
        gpu_uuid,
        observed_at as happened_at,
        greatest(observed_at, received_at) as known_at,
        mode as named_mode,
        case
            when mode is null then 0
            when kind = 'part_replaced' then 4
            when kind in ('reset_fixed', 'reboot_fixed') then 1
            when coalesce(confidence, 'confirmed') = 'confirmed' then 3
            else 1
        end as rank,
        kind,
        recommendation_id is not null as is_ours
    from outcomes
    where kind in ('failed_in_service', 'diag_failed', 'part_replaced', 'reset_fixed', 'reboot_fixed', 'failed_while_drained')
)
select
    node,
    gpu_uuid,
    happened_at,
    known_at,
    coalesce(named_mode, 'unknown') as mode,
    if(coalesce(named_mode, 'unknown') in ('unknown', 'gpu_faulty'), 0, 2) as rank,
    kind,
    false as is_ours
from from_events
where coalesce(named_mode, 'unknown') not in (select mode from not_hardware)
union all
select node, gpu_uuid, happened_at, known_at, coalesce(named_mode, 'unknown'), rank, kind, is_ours
from from_outcomes
where coalesce(named_mode, 'unknown') not in (select mode from not_hardware)
