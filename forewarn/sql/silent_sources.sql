-- Sources whose newest state is not ok. Grain: node and source. Inputs: source_states.
select node, source, state, detail, observed_at::text as since
from source_states
where observed_at <= $now
qualify row_number() over (partition by node, source order by observed_at desc) = 1 and state <> 'ok'
order by node, source
