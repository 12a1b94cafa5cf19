-- Newest complete checkpoint of every job that says so.
-- Grain: job. Input: job_progress of new files.
with seen as (
    select *
    from job_progress
    where observed_at > $since and observed_at <= $now and received_at <= $now and checkpoint_at is not null
)
select
    job_id,
    max(epoch_ns(checkpoint_at)) as checkpoint_at_ns
from seen
group by job_id
