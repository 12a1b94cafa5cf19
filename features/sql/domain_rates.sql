-- Relative hazard of a unit's failure domains: how much more the others in them have failed than the fleet's rate makes expect.
--
-- (a + failures) / (a + expected), the posterior mean of a gamma frailty of shape a = 4 (Titan: 2.8 to 8 by domain): 1 where nothing is
-- known, and free of the fleet's own trend, which on Titan rose 35-fold; that rate stands beside it. Shared frailty (lot, rack, position),
-- not contagion: the unit's own failures are left out. A failure counts for the domains of the node that it happened on, also when the
-- part has left since. Precursor of every mode.
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
        if(failure.happened_at > as_of - interval 90 days, 1, 0) as is_of_90d,
        if(failure.happened_at > as_of - interval 7 days, 1, 0) as is_of_7d,
        unnest(['fleet', 'chassis', 'rack', 'leaf_switch', 'power', 'position', 'slot', 'lot']) as kind,
        unnest([
            'fleet', chassis, rack, leaf_switch, power, position, board.slot::varchar, coalesce(board.lot, place.lot)
        ]) as domain
    from landmarks
    join failures as failure on failure.known_at <= as_of and failure.happened_at > as_of - interval 365 days
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
    select as_of, kind, domain, count(*) as failures_365d, sum(is_of_90d) as failures_90d, sum(is_of_7d) as failures_7d
    from failed
    where domain is not null
    group by as_of, kind, domain
),
own_losses as (
    select as_of, unit, kind, domain, count(*) as failures_365d, sum(is_of_90d) as failures_90d, sum(is_of_7d) as failures_7d
    from (
        select as_of, unit, kind, domain, is_of_90d, is_of_7d from failed
        union all
        select as_of, node, kind, domain, is_of_90d, is_of_7d from failed where node <> unit
    )
    group by as_of, unit, kind, domain
),
fleet as (
    select
        as_of,
        coalesce(failures_365d, 0) / members as per_unit_365d,
        coalesce(failures_90d, 0) / members as per_unit_90d,
        coalesce(failures_7d, 0) / members as per_unit_7d,
        greatest(1, least(90, hours_between(records.started_at, as_of) / 24)) as days
    from sizes
    left join losses using (as_of, kind, domain)
    cross join records
    where kind = 'fleet'
),
others as (
    select
        as_of,
        member.unit,
        kind,
        members - 1 as units,
        coalesce(loss.failures_365d, 0) - coalesce(own.failures_365d, 0) as failures_365d,
        coalesce(loss.failures_90d, 0) - coalesce(own.failures_90d, 0) as failures_90d,
        coalesce(loss.failures_7d, 0) - coalesce(own.failures_7d, 0) as failures_7d
    from members as member
    join sizes using (as_of, kind, domain)
    left join losses as loss using (as_of, kind, domain)
    left join own_losses as own using (as_of, unit, kind, domain)
    where members > 1
),
risks as (
    select
        as_of,
        unit,
        kind,
        failures_90d / (units * days) as rate_90d,
        (4 + failures_365d) / (4 + units * per_unit_365d) as risk_365d,
        (4 + failures_90d) / (4 + units * per_unit_90d) as risk_90d,
        (4 + failures_7d) / (4 + units * per_unit_7d) as risk_7d
    from others
    join fleet using (as_of)
)
select
    as_of,
    unit,
    max(rate_90d) filter (kind = 'fleet') as fleet_rate_90d,
    max(risk_90d) filter (kind = 'chassis') as chassis_risk_90d,
    max(risk_90d) filter (kind = 'rack') as rack_risk_90d,
    max(risk_90d) filter (kind = 'leaf_switch') as leaf_risk_90d,
    max(risk_90d) filter (kind = 'power') as power_risk_90d,
    max(risk_90d) filter (kind = 'position') as position_risk_90d,
    max(risk_90d) filter (kind = 'slot') as slot_risk_90d,
    max(risk_90d) filter (kind = 'lot') as lot_risk_90d,
    max(risk_365d) filter (kind = 'chassis') as chassis_risk_365d,
    max(risk_365d) filter (kind = 'rack') as rack_risk_365d,
    max(risk_365d) filter (kind = 'position') as position_risk_365d,
    max(risk_7d) filter (kind = 'rack') as rack_risk_7d,
    max(risk_7d) filter (kind = 'power') as power_risk_7d
from risks
group by as_of, unit
