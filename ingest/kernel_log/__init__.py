"""XIDs and what else the kernel logs of nodes say about GPUs.

Read in this order: `source` (follows the logs), `tail` (one of them), `text` (what a line says), `node` (what the lines of one node
become), `known` (which of them were there before).
"""
