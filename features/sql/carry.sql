-- The last known readings of each GPU and source before a roll-up: growth in the next buckets is measured from them.
--
-- Grain: one row per (gpu_uuid, source).
-- Inputs: rollup_parts (any tiers' parts of the time just before), columns as in features/buckets.py.
-- Output: identity, last_at (newest sample rolled up), received_at (mark: what this source sent later is new), the readings.
select
    arg_max(node, last_at) as node,
    gpu_uuid,
    source,
    max(last_at) as last_at,
    max(received_at) as received_at,
    arg_max(boot_id, last_at) as boot_id,
    arg_max(epoch, last_at) as epoch,
    arg_max(uptime_s, last_at) as uptime_s,
    arg_max(columns('^(energy|sw_|hw_|pcie_|nvlink_|ecc_|dram_|sram_|remapped_rows_.e|retired_pages).*_total$'), last_at)
from rollup_parts
where last_at < $since
group by gpu_uuid, source
