-- Every feature of a GPU as of each landmark. Grain: one row per (as_of, gpu_uuid). Inputs: the precursors. Output: GPU_FEATURES.
select
    unit.as_of,
    unit.node,
    unit.gpu_uuid,
    ecc.* exclude (as_of, gpu_uuid),
    link.* exclude (as_of, gpu_uuid),
    throttle.* exclude (as_of, gpu_uuid),
    thermal.* exclude (as_of, gpu_uuid),
    power.* exclude (as_of, gpu_uuid),
    pcie.* exclude (as_of, gpu_uuid),
    missing.* exclude (as_of, gpu_uuid),
    past.* exclude (as_of, unit),
    domain.* exclude (as_of, unit)
from units as unit
left join ecc_trend as ecc using (as_of, gpu_uuid)
left join link_retrains as link using (as_of, gpu_uuid)
left join throttling as throttle using (as_of, gpu_uuid)
left join thermal_drift as thermal using (as_of, gpu_uuid)
left join power using (as_of, gpu_uuid)
left join pcie using (as_of, gpu_uuid)
left join missingness as missing using (as_of, gpu_uuid)
left join history as past on past.as_of = unit.as_of and past.unit = unit.gpu_uuid
left join domain_rates as domain on domain.as_of = unit.as_of and domain.unit = unit.gpu_uuid
order by unit.node, unit.gpu_uuid, unit.as_of
