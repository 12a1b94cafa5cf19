"""What the users of an emulated fleet submit: many jobs smaller than a node, few that fill whole nodes and most of the GPU time.

More than nine jobs in ten are smaller than a node and use about a tenth of the GPU time (RSC); how runs end is RSC-1's, with what node
failures and requeues do left to the scheduler; 73 % of the failures of tasks fall into their first ten minutes (Aegis).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from emulators import draws
from emulators.layout import DAY_NS, HOUR_NS, MS_NS, WorldSpec

LOAD = 0.97  # offered; what waits for its turn leaves about 84 % used
LONGEST_NS = 7 * DAY_NS
GANG_SIZES = ((1, 0.42), (2, 0.22), (4, 0.18), (8, 0.12), (16, 0.06))
SMALL_SIZES = ((1, 0.55), (2, 0.25), (4, 0.20))
END_STATES = {"completed": 0.600, "failed": 0.240, "preempted": 0.100, "cancelled": 0.052, "timeout": 0.006, "out_of_memory": 0.002}
EARLY_SHARE, EARLY_H = 0.73, 1 / 6
_MEAN_SHARE = 0.72  # of the drawn length that a run lasts, since many end before


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What a job is like and what it declares about itself."""

    name: str
    util_ratio: float
    is_swinging: bool = False  # power swings between phases
    checkpoint_mode: str | None = None
    checkpoint_interval_s: float | None = None
    is_elastic: bool = False
    tolerates_f: int = 0
    sync: str = "loose"


@dataclass(kw_only=True)
class Job:
    """A job on its way through the scheduler; `size` counts nodes of a gang job, GPUs of one on a shared node."""

    job_id: str = ""
    size: int
    is_gang: bool
    submitted_ns: int
    left_ns: int
    end_state: str
    traits: Traits
    restarts: int = 0


def submit(spec: WorldSpec, *, gang_nodes: int, shared_nodes: int) -> list[Job]:
    """Draw the jobs of a fleet's life so that the load on both kinds of nodes is the same."""
    rng = draws.generator(spec.seed, "jobs")
    sizes = [(size, share) for size, share in GANG_SIZES if size <= max(1, gang_nodes // 2)]
    jobs = _arrivals(spec, rng, sizes=sizes, capacity=gang_nodes, median_h=11.0, sigma=0.9, is_gang=True)
    slots = shared_nodes * spec.gpus_per_node
    jobs += _arrivals(spec, rng, sizes=SMALL_SIZES, capacity=slots, median_h=2.2, sigma=1.1, is_gang=False)
    jobs.sort(key=lambda job: job.submitted_ns)
    for number, job in enumerate(jobs):
        job.job_id = str(1001 + number)
    return jobs


def _arrivals(
    spec: WorldSpec,
    rng: np.random.Generator,
    *,
    sizes: Iterable[tuple[int, float]],
    capacity: int,
    median_h: float,
    sigma: float,
    is_gang: bool,
) -> list[Job]:
    values, shares = (np.array(column) for column in zip(*sizes, strict=True))
    shares = shares / shares.sum()
    mean_h = _MEAN_SHARE * median_h * np.exp(sigma**2 / 2)
    count = rng.poisson(LOAD * capacity * 24.0 / (mean_h * (values * shares).sum()) * (spec.days + 1))
    days = np.sort(rng.uniform(-1.0, spec.days, count))
    hours = np.clip(median_h * np.exp(sigma * rng.standard_normal(count)), 0.05, LONGEST_NS / HOUR_NS)
    picked = rng.choice(values, count, p=shares)
    states = rng.choice(list(END_STATES), count, p=list(END_STATES.values()))
    early, share, util, coin = rng.uniform(size=(4, count))
    is_early = (states == "failed") & (early < EARLY_SHARE)
    hours = np.where(states == "completed", hours, np.where(is_early, EARLY_H * np.maximum(share, 0.1), hours * np.maximum(share, 0.02)))
    return [
        Job(
            size=int(picked[i]),
            is_gang=is_gang,
            submitted_ns=spec.start_ns + int(days[i] * 86_400_000) * MS_NS,
            left_ns=int(hours[i] * 3_600_000) * MS_NS,
            end_state=str(states[i]),
            traits=_gang_traits(int(picked[i]), util[i], coin[i]) if is_gang else _small_traits(util[i], coin[i]),
        )
        for i in range(count)
    ]


def _small_traits(util: float, coin: float) -> Traits:
    return Traits(name="notebook" if coin < 0.4 else "finetune", util_ratio=0.15 + 0.75 * float(util))


def _gang_traits(size: int, util: float, coin: float) -> Traits:
    """Jobs on whole nodes write checkpoints; some large ones go on with a node fewer."""
    is_elastic = bool(size >= 8 and coin > 0.8)
    return Traits(
        name=f"pretrain-{size}n" if size >= 4 else f"train-{size}n",
        util_ratio=0.72 + 0.26 * float(util),
        is_swinging=bool(coin < 0.3),
        checkpoint_mode="periodic",
        checkpoint_interval_s=float((600, 1200, 1800, 3600)[int(coin * 97) % 4]),
        is_elastic=is_elastic,
        tolerates_f=int(is_elastic),
        sync="tight",
    )
