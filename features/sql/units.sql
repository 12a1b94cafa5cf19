-- The GPUs that exist as of each landmark: those in a seat, and those that telemetry has shown in the last 7 days
-- and that have not left a seat since they were inserted.
--
-- Grain: one row per (as_of, gpu_uuid). Inputs: landmarks, seats, window_sums.
-- Output: as_of, gpu_uuid, node, board, slot, lot, inserted_at (null where the inventory does not know the GPU).
with seated as (
    select as_of, seat.gpu_uuid, seat.node, seat.board, seat.slot, seat.lot, seat.inserted_at
    from landmarks
    join seats as seat on seat.known_at <= as_of and as_of < seat.until
    where seat.gpu_uuid is not null
    qualify row_number() over (partition by as_of, seat.gpu_uuid order by seat.known_at desc) = 1
),
shown as (
    select as_of, gpu_uuid, arg_max(node, last_at) as node, arg_max(gpu_index, last_at) as gpu_index
    from window_sums as part
    where ring <= 4
      and not exists (from seats as seat where seat.unit = part.gpu_uuid and seat.known_at <= part.as_of and seat.until <= part.as_of)
    group by as_of, gpu_uuid
)
select
    as_of,
    gpu_uuid,
    coalesce(seated.node, shown.node) as node,
    coalesce(seated.board, gpu_uuid) as board,
    coalesce(seated.slot, shown.gpu_index) as slot,
    seated.lot,
    seated.inserted_at
from seated
full join shown using (as_of, gpu_uuid)
