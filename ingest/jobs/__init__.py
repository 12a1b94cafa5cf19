"""The scheduler's jobs, by whichever way Slurm can be asked.

Read in this order: `source` (what is said and when), `commands` and `rest` (the ways to ask), `answer` (what Slurm says, as records) with
`hostlist`.
"""
