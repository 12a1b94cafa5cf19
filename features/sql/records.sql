-- When the records of the fleet begin. Grain: one row. Inputs: inventory, events. Output: started_at.
select coalesce(least(min(happened_at), (select min(observed_at) from inventory)), 'epoch'::timestamptz) as started_at
from (select min(observed_at) as happened_at from events)
