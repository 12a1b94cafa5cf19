"""An NVML library without a GPU: a `libnvidia-ml.so.1` in C whose answers come from a state file that a scenario writes.

Read in this order: `layout` (the state file), `fields` and `getters` (which call reads what of it), `header` (the installed nvml.h),
`generate` (tables to C), `source/` (the calls that no table can say), `build` (cc and a cache), `profiles` (what each model is like),
`machine` (the controller: show states, post XIDs, reset, reload, reboot), `faults` (what can go wrong on demand).
"""
