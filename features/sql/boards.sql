-- The board behind every unit (its serial number where the inventory knows it, else the unit itself), with its slot and lot.
--
-- Grain: one row per unit. Inputs: seats, failures. Output: unit, board, slot, lot.
select unit, arg_max(board, known_at) as board, arg_max(slot, known_at) as slot, arg_max(lot, known_at) as lot
from seats
group by unit
union all
select distinct unit, unit as board, null as slot, null as lot
from failures
anti join seats using (unit)
