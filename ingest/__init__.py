"""Telemetry of a GPU fleet, from its sources to the lake.

Read in this order: `schema` (the tables), `source` (what a source promises), `nvml`, `exporter`, `kernel_log`, `redfish` (the sources),
`collector` (the poll loop), `spool` and `bus` (the way to the writer), `writer` and `lake` (exactly once into Parquet).
"""
