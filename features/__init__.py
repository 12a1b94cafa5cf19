"""Precursor signals of the lake, as plain DuckDB queries.

Read in this order: `schema` (the tables; `buckets` declares the roll-ups, `catalogue` the features), `rollup` (additive buckets),
`build` (features as of landmarks), `modes` and `labels` (at-risk episodes), `engine` (the door to DuckDB), `sql/`.
"""
