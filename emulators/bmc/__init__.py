"""An emulated BMC at its real contract: Redfish over HTTP(S) with sessions, telemetry reports and server-sent events.

Read in this order: `profile` (what vendors do differently), `machine` (the node's state as sensors), `reports` (as metric reports), `tree`
(as resources), `accounts` (who may ask), `protocol` (the rules of DSP0266 for every request), `writes` (what may be changed), `streams`
and `framing` (events and reports over SSE), `faults` (what goes wrong on purpose), `server` (one BMC on one port).
"""
