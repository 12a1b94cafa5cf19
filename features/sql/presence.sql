-- Moments at which a node was heard of: where they show that it is back in service (`is_return`), and up to when the records go.
--
-- Grain: one row per moment. Inputs: jobs, inventory, outcomes, events, gpu_rollups_1h. Parameters: $now.
-- Output: node, happened_at, is_return.
select unnest(if(len(nodes) > 0, nodes, [node])) as node, started_at as happened_at, true as is_return
from jobs
where started_at is not null and greatest(observed_at, received_at) <= $now
union
select node, observed_at, action = 'insert'
from inventory
where greatest(observed_at, received_at) <= $now
union
select node, observed_at, kind in ('part_replaced', 'reset_fixed', 'reboot_fixed', 'no_fault_found')
from outcomes
where greatest(observed_at, received_at) <= $now
union
select node, observed_at, false
from events
where greatest(observed_at, received_at) <= $now
union
select node, max(last_at), false
from gpu_rollups_1h
where known_at <= $now
group by node
