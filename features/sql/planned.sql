-- Outages that were meant: announced maintenance, and nodes that we have drained.
--
-- Maintenance says its times ("from <epoch seconds> to <epoch seconds>"), else it begins when it is recorded and ends when the node is seen
-- again. A drain of ours shows in an outcome that answers a recommendation and is not of a failure in service, or in a maintenance event
-- whose text begins with drained_by_us. Decommissioning ends a node's service.
-- Grain: one row per outage. Inputs: events, outcomes. Parameters: $now. Output: node, started_at, ended_at (null: open), known_at, reason.
select
    node,
    coalesce(to_timestamp(nullif(regexp_extract(detail, 'from (\d+) to (\d+)', 1), '')::bigint), observed_at) as started_at,
    to_timestamp(nullif(regexp_extract(detail, 'from (\d+) to (\d+)', 2), '')::bigint) as ended_at,
    greatest(observed_at, received_at) as known_at,
    if(detail like 'drained_by_us%', 'drained_by_us', 'maintenance') as reason
from events
where kind = 'maintenance' and greatest(observed_at, received_at) <= $now
union all
select node, observed_at, null, greatest(observed_at, received_at), if(kind = 'decommissioned', 'decommissioned', 'drained_by_us')
from outcomes
where greatest(observed_at, received_at) <= $now
  and (kind = 'decommissioned' or (recommendation_id is not null and kind <> 'failed_in_service'))
