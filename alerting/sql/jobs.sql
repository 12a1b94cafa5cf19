-- Newest known state of every job.
-- Grain: job. Input: jobs of new files.
with seen as (
    select *
    from jobs
    where observed_at > $since and observed_at <= $now and received_at <= $now
)
select
    job_id,
    epoch_ns(observed_at) as observed_at_ns,
    state,
    nodes,
    gpus,
    checkpoint_mode,
    checkpoint_interval_s,
    coalesce(is_elastic, false) as is_elastic,
    coalesce(tolerates_f, 0) as tolerates_f
from seen
qualify row_number() over (partition by job_id order by observed_at desc, received_at desc) = 1
