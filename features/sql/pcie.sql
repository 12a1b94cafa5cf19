-- PCIe: replays, corrected errors and recoveries, and lanes or generations lost against the best of the last 30 days.
--
-- Precursor of fell_off_bus and pcie_degraded. Grain: one row per (as_of, gpu_uuid). Inputs: window_sums.
-- Output: the features of family pcie.
select
    as_of,
    gpu_uuid,
    sum(pcie_replay) filter (ring <= 1) as pcie_replay_1h,
    sum(pcie_replay) filter (ring <= 3) as pcie_replay_24h,
    sum(pcie_replay) filter (ring <= 4) as pcie_replay_7d,
    sum(pcie_correctable) filter (ring <= 3) as pcie_correctable_24h,
    sum(pcie_recovery) filter (ring <= 3) as pcie_recovery_24h,
    1 - arg_max(pcie_lanes, last_at) / nullif(max(pcie_lanes_max), 0) as pcie_speed_lost
from window_sums
group by as_of, gpu_uuid
