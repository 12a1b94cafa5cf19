-- Sources whose newest state is not ok, and those that say nothing any more: a state is said at every change and once per hour.
-- Grain: node and source. Inputs: source_states.
with newest as (
    select *
    from source_states
    where observed_at <= $now
    qualify row_number() over (partition by node, source order by observed_at desc) = 1
)
select
    node, source, detail, observed_at::text as since,
    case when observed_at < $now - interval 3 hours then 'silent' else state end as state
from newest
where state <> 'ok' or observed_at < $now - interval 3 hours
order by node, source
