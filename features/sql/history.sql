-- What a unit has gone through: its failures by mode, its repairs, its age, and the XIDs of the last month by class.
--
-- Precursor of every mode: repeats follow repairs, lemons exist, and rates fall or rise with age. History follows the board (serial
-- number) over nodes. A burst of one code within an hour counts once.
-- Grain: one row per (as_of, unit). Inputs: subjects(as_of, unit, node, board, inserted_at), boards(unit, board), failures, repairs,
-- event_bursts. Output: the features of family history.
with past as (
    select
        subject.as_of,
        subject.unit,
        count(*) as failures_life,
        count(*) filter (failure.happened_at > subject.as_of - interval 30 days) as failures_30d,
        count(*) filter (failure.mode in ('hbm_ue', 'sram_ecc')) as memory_failures_life,
        count(*) filter (failure.mode = 'nvlink') as nvlink_failures_life,
        count(*) filter (failure.mode = 'fell_off_bus') as bus_failures_life,
        hours_between(max(failure.happened_at), subject.as_of) / 24 as failure_age_d
    from failures as failure
    join boards as failed using (unit)
    join subjects as subject on subject.board = failed.board and failure.known_at <= subject.as_of
    group by subject.as_of, subject.unit
),
neighbours as (
    select subject.as_of, subject.unit, count(*) as node_failures_180d
    from failures as failure
    join subjects as subject using (node)
    where failure.known_at <= subject.as_of
      and failure.happened_at > subject.as_of - interval 180 days
      and failure.unit <> subject.unit
    group by subject.as_of, subject.unit
),
mended as (
    select subject.as_of, subject.unit, hours_between(max(repair.happened_at), subject.as_of) / 24 as repair_age_d
    from repairs as repair
    join subjects as subject on repair.unit = subject.unit and repair.known_at <= subject.as_of
    group by subject.as_of, subject.unit
),
said as (
    select
        subject.as_of,
        subject.unit,
        count(*) filter (use = 'precursor' and happened_at > as_of - interval 1 day) as precursor_xids_1d,
        count(*) filter (use = 'precursor' and happened_at > as_of - interval 7 days) as precursor_xids_7d,
        count(*) filter (use = 'precursor') as precursor_xids_30d,
        count(*) filter (use in ('weak', 'noise', 'unknown') and happened_at > as_of - interval 7 days) as other_xids_7d,
        count(*) filter (code = 63) as remap_xids_30d
    from event_bursts as burst
    join subjects as subject
        on burst.unit = subject.unit and burst.known_at <= subject.as_of and burst.happened_at > subject.as_of - interval 30 days
    group by subject.as_of, subject.unit
)
select
    as_of,
    unit,
    coalesce(failures_life, 0) as failures_life,
    coalesce(failures_30d, 0) as failures_30d,
    coalesce(memory_failures_life, 0) as memory_failures_life,
    coalesce(nvlink_failures_life, 0) as nvlink_failures_life,
    coalesce(bus_failures_life, 0) as bus_failures_life,
    coalesce(node_failures_180d, 0) as node_failures_180d,
    failure_age_d,
    repair_age_d,
    hours_between(inserted_at, as_of) / 24 as seat_age_d,
    if(has_events, coalesce(precursor_xids_1d, 0), null) as precursor_xids_1d,
    if(has_events, coalesce(precursor_xids_7d, 0), null) as precursor_xids_7d,
    if(has_events, coalesce(precursor_xids_30d, 0), null) as precursor_xids_30d,
    if(has_events, coalesce(other_xids_7d, 0), null) as other_xids_7d,
    if(has_events, coalesce(remap_xids_30d, 0), null) as remap_xids_30d
from subjects
cross join (select count(*) > 0 as has_events from event_bursts)
left join past using (as_of, unit)
left join neighbours using (as_of, unit)
left join mended using (as_of, unit)
left join said using (as_of, unit)
