-- Repairs of units, as they were known: outcomes that say what ended an outage.
--
-- Grain: one row per repair. Inputs: outcomes. Output: unit, node, happened_at, known_at.
select coalesce(gpu_uuid, node) as unit, node, observed_at as happened_at, greatest(observed_at, received_at) as known_at
from outcomes
where kind in ('part_replaced', 'reset_fixed', 'reboot_fixed', 'no_fault_found')
