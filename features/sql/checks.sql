-- What must never be in a feature frame; every row is a defect of ours.
--
-- Inputs: gpu_features, node_features. Output: defect, as_of, unit.
select 'two rows of one GPU' as defect, as_of, gpu_uuid as unit
from gpu_features
group by as_of, gpu_uuid
having count(*) > 1
union all
select 'two rows of one node', as_of, node
from node_features
group by as_of, node
having count(*) > 1
union all
select 'a count below zero', as_of, gpu_uuid
from gpu_features
where least(ecc_ce_24h, ecc_ue_30d, nvlink_crc_24h, pcie_replay_7d, remapped_rows_7d, failures_life, counter_resets_7d) < 0
union all
select 'a share outside 0..1', as_of, gpu_uuid
from gpu_features
where polls_missing_24h not between 0 and 1 or absent_share_24h not between 0 and 1 or util_24h not between 0 and 1.001
union all
select 'a window smaller than one inside it', as_of, gpu_uuid
from gpu_features
where ecc_ce_1h > ecc_ce_24h or ecc_ce_24h > ecc_ce_7d or failures_30d > failures_life
union all
select 'an age before the present', as_of, gpu_uuid
from gpu_features
where least(telemetry_age_s, ecc_ce_age_h, failure_age_d, seat_age_d) < 0
union all
select 'a rate below zero', as_of, unit
from (
    select as_of, gpu_uuid as unit, chassis_risk_90d, rack_risk_90d, lot_risk_90d from gpu_features
    union all
    select as_of, node, chassis_risk_90d, rack_risk_90d, lot_risk_90d from node_features
)
where least(chassis_risk_90d, rack_risk_90d, lot_risk_90d) < 0
