"""What the jobs make the GPUs do: utilisation and power per seat as step functions, their integrals in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emulators import draws
from emulators.draws import Flags, Floats, Ints
from emulators.jobs import JobRun
from emulators.layout import WorldSpec
from emulators.steps import Ramp, Steps

IDLE_W = 68.0
BUSY_SPAN_W = 615.0
WAITING_SHARE = 0.02  # of the samples of a healthy job that fall into a checkpoint or an evaluation
WAITING_LOAD = 0.3
CAP_FROM_UTIL = 0.80  # above it an SXM board meets its power cap now and then


@dataclass(frozen=True)
class Doing:
    """What seats do at given times, element by element."""

    util_ratio: Floats  # mean of the job, 0 when idle
    is_swinging: Flags
    memory_share: Floats
    energy_j: Floats  # since the beginning of the world
    capped_s: Floats


class Load:
    """Utilisation of every seat over time."""

    def __init__(self, spec: WorldSpec, runs: tuple[JobRun, ...], origin_ns: int) -> None:
        seats = spec.nodes * spec.gpus_per_node
        seat, run = _uses(spec, runs)
        started, ended = (np.array([getattr(r, name) for r in runs] or [0], np.int64)[run] for name in ("started_ns", "ended_ns"))
        util = np.array([r.util_ratio for r in runs] or [0.0])[run]
        swinging = np.array([r.is_swinging for r in runs] or [False])[run]
        idle = np.zeros(len(run))
        keys = np.concatenate([np.arange(seats), seat, seat])  # at the same instant an end stands before the next start
        times = np.concatenate([np.full(seats, origin_ns), ended, started])
        self._steps = Steps(keys, times, origin_ns=origin_ns, size=seats)
        rates = np.concatenate([np.zeros(seats), idle, util])
        self._util: Floats = rates[self._steps.order]
        self._swinging = np.concatenate([np.zeros(seats, bool), idle > 0, swinging])[self._steps.order]
        memory = 0.55 + 0.4 * draws.uniform(draws.key_of(spec.seed, "memory"), np.array([int(r.job_id) for r in runs] or [0]))[run]
        self._memory: Floats = np.concatenate([np.zeros(seats), idle, memory])[self._steps.order]
        self.efficiency: Floats = 1.0 + 0.04 * (2.0 * draws.uniform(draws.key_of(spec.seed, "efficiency"), np.arange(seats)) - 1.0)
        watts = self.efficiency[keys] * (IDLE_W + BUSY_SPAN_W * rates * (1.0 - WAITING_SHARE * (1.0 - WAITING_LOAD)))
        self._energy = Ramp(self._steps, times, watts)
        self._capped = Ramp(self._steps, times, 0.4 * np.clip((rates - CAP_FROM_UTIL) / (1.0 - CAP_FROM_UTIL), 0.0, 1.0))

    def at(self, seats: Ints, times_ns: Ints) -> Doing:
        """Tell what seats do; arrays broadcast."""
        seats, times_ns = np.broadcast_arrays(seats, times_ns)
        last = self._steps.last(seats, times_ns)
        return Doing(
            self._util[last],
            self._swinging[last],
            self._memory[last],
            self._energy.total(last, times_ns),
            self._capped.total(last, times_ns),
        )


def _uses(spec: WorldSpec, runs: tuple[JobRun, ...]) -> tuple[Ints, Ints]:
    """Give (seat, number of the run) for every GPU that every run used."""
    seat, run = [], []
    for number, job in enumerate(runs):
        for node in job.node_indices:
            seat += [node * spec.gpus_per_node + slot for slot in job.slots]
        run += [number] * (len(job.node_indices) * len(job.slots))
    return np.array(seat, np.int64), np.array(run, np.int64)
