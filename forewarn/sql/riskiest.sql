-- The ten nodes with the highest probability of failing within 24 h (or the horizon next to it), by their newest score.
-- Grain: node. Inputs: scores. Abstentions are listed last, with their reason.
with newest as (
    select *
    from scores
    where scope = 'node' and as_of <= $now
    qualify dense_rank() over (partition by node order by as_of desc) = 1
        and row_number() over (partition by node, as_of order by abs(horizon_h - 24)) = 1
)
select node, as_of::text as as_of, horizon_h, p_fail, p_base, worst_unit, abstained_because
from newest
order by p_fail desc nulls last, node
limit 10
