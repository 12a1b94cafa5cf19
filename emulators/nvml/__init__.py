"""An NVML library without a GPU: a `libnvidia-ml.so.1` in C whose answers come from a state file that a scenario writes.

Read in this order: `layout` (the state file), `fields` and `getters` (which call reads what of it), `header` (the installed nvml.h),
`variants` (older drivers), `generate` (tables to C), `source/` (the calls that no table can say), `build` (cc and a cache), `profiles`
(what each model is like), `show` (a GPU's state into its block), `semantics` (what time, resets and reloads do to it), `machine` (the
controller: show states, post XIDs, reset, reload, reboot, let calls fail).
"""
