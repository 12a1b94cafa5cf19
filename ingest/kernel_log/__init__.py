"""XIDs and what else the kernel logs of nodes say about GPUs.

Read in this order: `source` (follows the logs), `text` (what a line says), `node` (what the lines of one node become).
"""
