"""An emulated GPU fleet at the real contracts of its devices, with ground truth.

The fleet as a function of time, in reading order: `layout` and `modes` (what there is and how it fails), `frailty`, `failure_times` and
`faults` (what fails when), `timeline`, `submissions`, `jobs` and `load` (who is up and what runs), `bursts` and `signs` (what announces a
failure), `gauges`, `telemetry` and `chassis` (what is read), `driver_log` and `tickets` (what is said), `world` (all of it); `draws` and
`steps` are its arithmetic. `state` is what a part is like; `nvml`, `exporter`, `kernel_log`, `bmc`, `scheduler` and `operators` show it,
`fleet` runs them live; `history` and its parts write months of it in bulk, with `defects` as the live path has them.
"""
