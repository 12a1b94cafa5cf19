-- The parts of buckets that each landmark may see, with the ring they are in; of several sources of one bucket the most believed one.
--
-- Inputs: spans (spans.sql); gpu_rollups_5m, gpu_rollups_1h, gpu_rollups_1d; believed_less(tier, gpu_uuid, started_at, source, since): from
-- when on a better source is known for that bucket.
-- Output: as_of, ring and the columns of features/buckets.py, GpuRollup.
with parts as (
    select span.as_of, span.ring, span.tier, part.*
    from spans as span
    join gpu_rollups_1h as part using (started_at)
    where span.tier = '1h' and part.known_at <= span.as_of
    union all
    select span.as_of, span.ring, span.tier, part.*
    from spans as span
    join gpu_rollups_1d as part using (started_at)
    where span.tier = '1d' and part.known_at <= span.as_of
    union all
    select span.as_of, span.ring, span.tier, part.*
    from spans as span
    join gpu_rollups_5m as part using (started_at)
    where span.tier = '5m' and part.known_at <= span.as_of
)
select part.*
from parts as part
where not exists (
    from believed_less as less
    where less.tier = part.tier
      and less.gpu_uuid = part.gpu_uuid
      and less.started_at = part.started_at
      and less.source = part.source
      and less.since <= part.as_of
)
