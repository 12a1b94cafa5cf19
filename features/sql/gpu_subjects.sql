-- GPUs as subjects of history and domain rates. Inputs: units. Output: as_of, unit, node, board, slot, lot, inserted_at.
select as_of, gpu_uuid as unit, node, board, slot, lot, inserted_at
from units
