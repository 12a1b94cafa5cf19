-- Time that the GPU was slowed down, by cause, and its clock under load against the fleet's.
--
-- Precursor of thermal, gpu_faulty and psu_vr. Grain: one row per (as_of, gpu_uuid). Inputs: window_sums.
-- Output: the features of family throttling.
with sums as (
    select
        as_of,
        gpu_uuid,
        sum(hw_thermal_s) filter (ring <= 1) / nullif(sum(elapsed_s) filter (ring <= 1), 0) as hw_thermal_share_1h,
        sum(hw_thermal_s) filter (ring <= 3) / nullif(sum(elapsed_s) filter (ring <= 3), 0) as hw_thermal_share_24h,
        sum(sw_thermal_s) filter (ring <= 3) / nullif(sum(elapsed_s) filter (ring <= 3), 0) as sw_thermal_share_24h,
        sum(sw_power_cap_s) filter (ring <= 3) / nullif(sum(elapsed_s) filter (ring <= 3), 0) as power_cap_share_24h,
        sum(hw_power_brake_s) filter (ring <= 3) / nullif(sum(elapsed_s) filter (ring <= 3), 0) as power_brake_share_24h,
        sum(busy_clock_mhz_sum) filter (ring <= 2) / nullif(sum(busy_polls) filter (ring <= 2), 0) as busy_clock_mhz
    from window_sums
    where ring <= 3
    group by as_of, gpu_uuid
)
select
    as_of,
    gpu_uuid,
    hw_thermal_share_1h,
    hw_thermal_share_24h,
    sw_thermal_share_24h,
    power_cap_share_24h,
    power_brake_share_24h,
    busy_clock_mhz / nullif(median(busy_clock_mhz) over (partition by as_of), 0) - 1 as clock_droop_6h
from sums
