-- Newest scores of every node, all horizons: what the decision layer weighs.
-- Grain: node, horizon. Input: scores of new files.
with seen as (
    select *
    from scores
    where scope = 'node' and as_of > $since and as_of <= $now and scored_at <= $now
)
select
    node,
    epoch_ns(as_of) as as_of_ns,
    horizon_h,
    p_fail,
    p_low,
    p_high,
    p_base,
    cif,
    worst_unit,
    reasons,
    abstained_because,
    telemetry_age_s,
    missing_sources,
    model,
    model_version
from seen
qualify as_of = max(as_of) over (partition by node)
