"""Telemetry of the GPUs of a node through NVML, read by a process of its own that may hang or die.

Read in this order: `source` (polls one node), `supervisor` and `child` (keep the worker alive, whatever the driver does), `protocol` (what
they say to each other), `worker` and `lanes` (read all GPUs, none waiting for another), `reader` (one GPU) with `signals`, `calls`,
`codes`, `links` and `events`; then `node` (what is known over time) with `rows`, `epochs`, `inventory` and `memory`.
"""
