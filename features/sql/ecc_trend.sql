-- Memory errors: corrected errors and their bursts, uncorrected errors, remapped rows and what is left to remap with.
--
-- Precursor of hbm_ue and sram_ecc. Benign offenders outnumber true ones about ten to one, so the pattern counts (bursts, activity,
-- growth against the week before), not the level alone.
-- Grain: one row per (as_of, gpu_uuid). Inputs: window_sums. Output: the features of family ecc.
select
    as_of,
    gpu_uuid,
    sum(ecc_ce) filter (ring <= 1) as ecc_ce_1h,
    sum(ecc_ce) filter (ring <= 3) as ecc_ce_24h,
    sum(ecc_ce) filter (ring <= 4) as ecc_ce_7d,
    log2((1 + ecc_ce_24h) / (1 + (ecc_ce_7d - ecc_ce_24h) / 6.0)) as ecc_ce_trend,
    sum(ce_polls) filter (ring <= 4 and ecc_ce is not null) as ecc_ce_active_polls_7d,
    max(ce_max) filter (ring <= 4) as ecc_ce_burst_7d,
    hours_between(max(ce_last_at), as_of) as ecc_ce_age_h,
    sum(ecc_ue) filter (ring <= 3) as ecc_ue_24h,
    sum(ecc_ue) as ecc_ue_30d,
    sum(sram_ue) as sram_ue_30d,
    sum(remapped_rows) filter (ring <= 4) as remapped_rows_7d,
    arg_max(remapped_rows_total, last_at) as remapped_rows_life,
    arg_max(remap_pending, last_at) as remap_pending,
    arg_max(remap_failure, last_at) as remap_failure,
    arg_max(remap_banks_low, last_at) as remap_banks_low
from window_sums
group by as_of, gpu_uuid
