-- Failures of units as they were known at the time: signs of one unit that follow each other within a day are one failure.
--
-- Bursts are the rule (on Titan 736 of 1,177 repeats came within the hour), so a row of events is never counted as so many failures.
-- Only signs that say so at once count here (events, and outcomes of kind failed_in_service or diag_failed); what a repair
-- reveals weeks later is for the labels, not for a history that a landmark may see.
-- Grain: one row per failure. Inputs: failure_signs. Output: unit, node, gpu_uuid, happened_at, known_at, mode.
with signs as (
    select
        coalesce(gpu_uuid, node) as unit,
        *,
        happened_at - lag(happened_at) over (partition by coalesce(gpu_uuid, node) order by happened_at, known_at) as gap
    from failure_signs
    where kind not in ('part_replaced', 'reset_fixed', 'reboot_fixed', 'failed_while_drained')
)
select unit, node, gpu_uuid, happened_at, known_at, mode
from signs
where gap is null or gap > interval 1 day
