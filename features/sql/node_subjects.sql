-- Nodes as subjects of domain rates: they have no slot, and their lot stands in the topology. Inputs: nodes.
-- Output: as_of, unit, node, board, slot, lot, inserted_at.
select as_of, node as unit, node, node as board, null::bigint as slot, null::varchar as lot, inserted_at
from nodes
