-- Buckets that a more believed source of the same GPU has as well: NVML before the exporter before anything else.
--
-- Inputs: gpu_rollups_5m, gpu_rollups_1h, gpu_rollups_1d. Output: tier, gpu_uuid, started_at, source, since.
with buckets as (
    select '5m' as tier, gpu_uuid, started_at, source, known_at from gpu_rollups_5m
    union all
    select '1h', gpu_uuid, started_at, source, known_at from gpu_rollups_1h
    union all
    select '1d', gpu_uuid, started_at, source, known_at from gpu_rollups_1d
),
seen_twice as (
    select gpu_uuid
    from buckets
    group by gpu_uuid
    having min(source) <> max(source)
),
candidates as (
    from buckets
    semi join seen_twice using (gpu_uuid)
)
select worse.tier, worse.gpu_uuid, worse.started_at, worse.source, min(better.known_at) as since
from candidates as worse
join candidates as better using (tier, gpu_uuid, started_at)
where source_rank(better.source) < source_rank(worse.source)
group by worse.tier, worse.gpu_uuid, worse.started_at, worse.source
