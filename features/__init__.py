"""Precursor signals of the lake, as plain DuckDB queries.

Read in this order: `schema` (the features), `rollup` (additive buckets), `build` (features as of a landmark), `labels` (episodes).
"""
