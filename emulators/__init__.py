"""An emulated GPU fleet at the real contracts of its devices, with ground truth.

Read in this order: `state` (what a part is like), `world` and `faults` (the fleet as a function of time), then the devices that show it:
`nvml`, `exporter`, `kernel_log`, `bmc`; `history` writes months of it in bulk.
"""
