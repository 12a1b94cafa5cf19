-- Vendor criteria as each GPU's newest polls have them; a field that no poll of the window said is NULL.
-- Grain: GPU. Input: gpu_samples of new files.
with seen as (
    select *
    from gpu_samples
    where observed_at > $since and observed_at <= $now and received_at <= $now
)
select
    arg_max(node, observed_at) as node,
    gpu_uuid,
    max(epoch_ns(observed_at)) as observed_at_ns,
    arg_max(boot_id, observed_at) as boot_id,
    arg_max(recovery_action, observed_at) as recovery_action,
    arg_max(remap_failure, observed_at) as remap_failure,
    arg_max(sram_threshold_exceeded, observed_at) as sram_threshold_exceeded,
    arg_max(remap_banks_none, observed_at) as remap_banks_none
from seen
group by gpu_uuid
order by node, gpu_uuid
