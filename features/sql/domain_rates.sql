-- Failures per unit-day in the same failure domain, the unit's own left out: shared frailty (lot, rack, position), not contagion.
--
-- A failure counts for the domains of the node that it happened on, also when the part has left since; days are counted from the start
-- of the records where these are younger than the window. Precursor of every mode; on Titan the failures in the same cage in the
-- last 90 days were the most useful feature.
-- Grain: one row per (as_of, unit). Inputs: landmarks, subjects(as_of, unit, node, slot, lot), places, failures, boards(unit, slot, lot),
-- records(started_at). Output: the features of family domain.
with members as (
    select
        as_of,
        subject.unit,
        unnest(['fleet', 'chassis', 'rack', 'leaf_switch', 'power', 'position', 'slot', 'lot']) as kind,
        unnest([
            'fleet', chassis, rack, leaf_switch, power, position, subject.slot::varchar, coalesce(subject.lot, place.lot)
        ]) as domain
    from subjects as subject
    left join places as place using (as_of, node)
),
failed as (
    select
        as_of,
        failure.unit,
        failure.node,
        if(failure.happened_at > as_of - interval 7 days, 1, 0) as is_of_this_week,
        unnest(['fleet', 'chassis', 'rack', 'leaf_switch', 'power', 'position', 'slot', 'lot']) as kind,
        unnest([
            'fleet', chassis, rack, leaf_switch, power, position, board.slot::varchar, coalesce(board.lot, place.lot)
        ]) as domain
    from landmarks
    join failures as failure on failure.known_at <= as_of and failure.happened_at > as_of - interval 90 days
    join boards as board using (unit)
    left join places as place using (as_of, node)
),
sizes as (
    select as_of, kind, domain, count(*) as members
    from members
    where domain is not null
    group by as_of, kind, domain
),
losses as (
    select as_of, kind, domain, count(*) as failures_90d, sum(is_of_this_week) as failures_7d
    from failed
    where domain is not null
    group by as_of, kind, domain
),
own_losses as (
    select as_of, unit, kind, domain, count(*) as failures_90d, sum(is_of_this_week) as failures_7d
    from (
        select as_of, unit, kind, domain, is_of_this_week from failed
        union all
        select as_of, node, kind, domain, is_of_this_week from failed where node <> unit
    )
    group by as_of, unit, kind, domain
),
rates as (
    select
        as_of,
        member.unit,
        kind,
        (coalesce(loss.failures_90d, 0) - coalesce(own.failures_90d, 0))
            / nullif((members - 1) * greatest(1, least(90, hours_between(records.started_at, as_of) / 24)), 0) as rate_90d,
        (coalesce(loss.failures_7d, 0) - coalesce(own.failures_7d, 0))
            / nullif((members - 1) * greatest(1, least(7, hours_between(records.started_at, as_of) / 24)), 0) as rate_7d
    from members as member
    cross join records
    join sizes using (as_of, kind, domain)
    left join losses as loss using (as_of, kind, domain)
    left join own_losses as own using (as_of, unit, kind, domain)
)
select
    as_of,
    unit,
    max(rate_90d) filter (kind = 'fleet') as fleet_rate_90d,
    max(rate_90d) filter (kind = 'chassis') as chassis_rate_90d,
    max(rate_90d) filter (kind = 'rack') as rack_rate_90d,
    max(rate_90d) filter (kind = 'leaf_switch') as leaf_rate_90d,
    max(rate_90d) filter (kind = 'power') as power_rate_90d,
    max(rate_90d) filter (kind = 'position') as position_rate_90d,
    max(rate_90d) filter (kind = 'slot') as slot_rate_90d,
    max(rate_90d) filter (kind = 'lot') as lot_rate_90d,
    max(rate_7d) filter (kind = 'rack') as rack_rate_7d,
    max(rate_7d) filter (kind = 'power') as power_rate_7d
from rates
group by as_of, unit
