"""Telemetry of GPUs as the pages of dcgm-exporter tell it, scraped by one process for many nodes.

Read in this order: `source` (scrapes), `text` and `value` (the lines of a page), `fields` (what a name means), `node` (what a page becomes)
with `presence` (who is missing, what is stale), `gpu` and `rows` (one GPU's part of it), `counters`, `pods` and `xids`.
"""
