-- Newest place of every node in every kind of failure domain.
-- Grain: node, kind. Input: topology of new files.
with seen as (
    select *
    from topology
    where observed_at > $since and observed_at <= $now
)
select
    node,
    kind,
    arg_max(domain, observed_at) as domain
from seen
group by node, kind
