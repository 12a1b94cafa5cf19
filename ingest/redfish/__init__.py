"""Out-of-band telemetry of BMCs over Redfish: metric reports and events, streamed where a BMC streams and polled where it does not.

Read in this order: `source` (all BMCs of a collector as one source), `watch` (one BMC: its stream, its polls, its state), `mode` (streamed
or polled, by observation), `session` (requests, credentials, TLS) and `outcomes` (what an answer means), `sse` (framing of streams),
`payloads` (what came over a stream), `reports` (a metric report as readings) with `values`, `times`, `identity` and `signals`, `events`.
"""
