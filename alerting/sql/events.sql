-- Events that may be failures (labels of the catalogue, imported failures) or ask for recovery (XID 154).
-- Grain: event. Input: events of new files. Several reports of one event stay several rows; causes merge them.
with seen as (
    select *
    from events
    where observed_at > $since and observed_at <= $now and received_at <= $now
)
select
    node,
    kind,
    epoch_ns(observed_at) as observed_at_ns,
    epoch_ns(received_at) as received_at_ns,
    gpu_uuid,
    code,
    use,
    coalesce(is_sympathetic, false) as is_sympathetic,
    recovery_action,
    mode,
    detail
from seen
where use = 'label' or kind = 'failure' or (kind = 'xid' and code = 154)
order by observed_at, node
