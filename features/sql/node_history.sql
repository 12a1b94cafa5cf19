-- What a node has gone through: failures of any of its parts, repairs, age, and the failed jobs of the last week.
--
-- Precursor of every mode: lemons exist. Grain: one row per (as_of, node). Inputs: nodes, failures, repairs, job_ends.
-- Output: the features of family history of scope node.
with past as (
    select
        as_of,
        node,
        count(*) as node_failures_life,
        count(*) filter (failure.happened_at > as_of - interval 30 days) as node_failures_30d,
        count(*) filter (failure.gpu_uuid is null) as host_failures_life,
        hours_between(max(failure.happened_at), as_of) / 24 as node_failure_age_d
    from nodes
    join failures as failure using (node)
    where failure.known_at <= as_of
    group by as_of, node
),
mended as (
    select as_of, node, hours_between(max(repair.happened_at), as_of) / 24 as node_repair_age_d
    from nodes
    join repairs as repair using (node)
    where repair.known_at <= as_of
    group by as_of, node
),
jobs_lost as (
    select as_of, node, count(*) filter (job.state in ('failed', 'node_fail')) as failed_jobs_7d, count(*) as ended_jobs_7d
    from nodes
    join job_ends as job using (node)
    where job.known_at <= as_of and job.happened_at > as_of - interval 7 days
    group by as_of, node
)
select
    as_of,
    node,
    coalesce(node_failures_life, 0) as node_failures_life,
    coalesce(node_failures_30d, 0) as node_failures_30d,
    coalesce(host_failures_life, 0) as host_failures_life,
    node_failure_age_d,
    node_repair_age_d,
    hours_between(inserted_at, as_of) / 24 as node_age_d,
    failed_jobs_7d,
    failed_jobs_7d / nullif(ended_jobs_7d, 0) as failed_jobs_share_7d
from nodes
left join past using (as_of, node)
left join mended using (as_of, node)
left join jobs_lost using (as_of, node)
