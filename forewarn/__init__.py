"""The face of the product: command, configuration, the all-in-one run and the demo.

Read in this order: `cli`, `config`, `up`, `demo`.
"""
