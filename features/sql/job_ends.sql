-- Ends of jobs, one row per node of the job. Inputs: jobs. Output: node, happened_at, known_at, state.
select
    unnest(if(len(nodes) > 0, nodes, [node])) as node,
    coalesce(ended_at, observed_at) as happened_at,
    greatest(observed_at, received_at) as known_at,
    state
from jobs
where state in ('completed', 'failed', 'node_fail', 'timeout', 'out_of_memory')
