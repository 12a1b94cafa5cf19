"""The scheduler's jobs, by whichever way Slurm can be asked.

Read in this order: `source` (what is said and when), `commands` and `rest` (the ways to ask), `answer` (the list of jobs that Slurm gives),
`entry` (one job as a record) with `declared` and `hostlist`.
"""
