-- Newest state of every source of every node: telemetry's health.
-- Grain: node, source. Input: source_states of new files.
with seen as (
    select *
    from source_states
    where observed_at > $since and observed_at <= $now and received_at <= $now
)
select
    node,
    source,
    arg_max(state, observed_at) as state
from seen
group by node, source
