"""Telemetry of a GPU fleet, from its sources to the lake.

Read in this order: `schema` (the tables), `source` (what a source promises), the folders `nvml`, `exporter`, `kernel_log`, `redfish` and
`jobs` (the sources), `collector` (the poll loop), `spool` and `bus` (the way to the writer), `writer` and `lake` (exactly once into
Parquet).
"""
