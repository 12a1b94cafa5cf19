-- Power and load: level, swing, and the gap to the node's other GPUs.
--
-- Precursor of psu_vr and gpu_faulty, and the context of every thermal signal. Grain: one row per (as_of, gpu_uuid).
-- Inputs: window_sums, units. Output: the features of family power.
with sums as (
    select
        as_of,
        gpu_uuid,
        400 + sum(power_sum) / nullif(sum(load_polls), 0) as power_mean_24h_w,
        sqrt(not_below_zero(sum(power_sq_sum) / nullif(sum(load_polls), 0) - (power_mean_24h_w - 400) ** 2)) as power_swing_24h_w,
        400 + sum(power_sum) filter (ring <= 2) / nullif(sum(load_polls) filter (ring <= 2), 0) as power_6h_w,
        sum(util_sum) / nullif(sum(util_polls), 0) as util_24h
    from window_sums
    where ring <= 3
    group by as_of, gpu_uuid
)
select
    as_of,
    gpu_uuid,
    power_mean_24h_w,
    power_swing_24h_w,
    power_6h_w - median(power_6h_w) over (partition by as_of, unit.node) as power_gap_node_w,
    util_24h
from sums
join units as unit using (as_of, gpu_uuid)
