"""Compute the features of raw samples by roll-ups, against windows over the samples themselves and against reading them alone.

Both forms sum the growth of the same counters over an hour, a day and a week; the roll-ups hold the gauges, last values, resets and late
parts besides. Prints CPU seconds and ratios of one run, and growth with size; exits with 1 when the roll-ups cost more than the windows, or
more than linearly. Two goals that older engines suggested are printed and not held: ten times as fast as windows, eight times a read.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from features import engine
from features.build import compute
from features.rollup import roll_up
from ingest.lake import Lake, table_rows
from ingest.schema import GPU_SAMPLES

START = datetime(2026, 1, 1, tzinfo=UTC)
NODES, GPUS, POLLS_A_DAY = 16, 8, 1440
COUNTERS = (
    "energy_mj_total", "sw_power_cap_ns_total", "sw_thermal_ns_total", "hw_thermal_ns_total", "hw_power_brake_ns_total",
    "pcie_replay_total",
    "pcie_correctable_total", "pcie_l0_to_recovery_total", "ecc_ce_volatile_total", "ecc_ue_volatile_total", "sram_ce_volatile_total",
    "sram_ue_volatile_total", "nvlink_crc_total", "nvlink_replay_total", "nvlink_recovery_total", "remapped_rows_ce_total",
    "remapped_rows_ue_total",
)  # fmt: skip
GAUGES = ("temp_c", "power_w", "gpu_util_ratio")
SPANS = {"h": "1 hour", "d": "24 hours", "w": "168 hours"}


def window_form() -> str:
    """Write the query that computes growth and means at every sample by windows over samples."""
    growth = ", ".join(f"{name} - lag({name} ignore nulls) over g as {name}" for name in COUNTERS)
    sums = [f"sum({name}) over {span} as {name}_{span}" for name in COUNTERS for span in SPANS]
    means = [f"avg({name}) over {span} as {name}_{span}" for name in GAUGES for span in SPANS]
    ordered = "partition by gpu_uuid order by observed_at"
    frames = ", ".join(f"{n} as ({ordered} range between interval {s} preceding and current row)" for n, s in SPANS.items())
    return f"""
        select max(columns('_[hdw]$')) from (
            select {", ".join(sums + means)}
            from (select gpu_uuid, observed_at, {", ".join(GAUGES)}, {growth} from gpu_samples window g as ({ordered}))
            window {frames}
        )
    """


def fill(lake: Lake, days: int) -> None:
    """Write samples of 128 GPUs once a minute, in the order of time."""
    rng = np.random.default_rng(1)
    units, totals = NODES * GPUS, dict.fromkeys(COUNTERS, np.zeros(NODES * GPUS, dtype=np.int64))
    names = np.array([f"GPU-{n:08d}-0000-4000-8000-{n:012d}" for n in range(units)], dtype=object)
    nodes = np.array([f"node{n // GPUS:03d}" for n in range(units)], dtype=object)
    for day in range(days):
        at = np.datetime64(START.replace(tzinfo=None), "us") + np.timedelta64(day, "D") + np.arange(POLLS_A_DAY) * np.timedelta64(60, "s")
        power = rng.uniform(100, 700, POLLS_A_DAY * units)
        columns = {
            "node": np.tile(nodes, POLLS_A_DAY),
            "gpu_uuid": np.tile(names, POLLS_A_DAY),
            "source": ["nvml"] * (POLLS_A_DAY * units),
            "tier": ["warm"] * (POLLS_A_DAY * units),
            "observed_at": np.repeat(at, units),
            "received_at": np.repeat(at + np.timedelta64(300, "ms"), units),
            "power_w": power,
            "temp_c": 25 + 0.07 * power + rng.normal(0, 1, len(power)),
            "gpu_util_ratio": rng.random(len(power)),
        }
        for name in COUNTERS:
            growth = np.cumsum(rng.poisson(0.05, (POLLS_A_DAY, units)), axis=0) + totals[name]
            totals[name] = growth[-1]
            columns[name] = growth.ravel()
        lake.append(GPU_SAMPLES, table_rows(GPU_SAMPLES, columns))


def cpu_s(act: Callable[[], object]) -> float:
    """Time one act in CPU seconds of this process."""
    before = time.process_time()
    act()
    return time.process_time() - before


def read(lake: Lake) -> float:
    """Read every column that the roll-up reads."""
    with engine.connect() as connection:
        lake.attach(connection, GPU_SAMPLES)
        filled = ("gpu_uuid", "observed_at", "received_at", *GAUGES, *COUNTERS)
        return cpu_s(lambda: connection.execute(f"select {', '.join(f'max({name})' for name in filled)} from gpu_samples").fetchall())


def windows(lake: Lake) -> float:
    """Compute the window form."""
    with engine.connect(memory_limit="3GB") as connection:
        lake.attach(connection, GPU_SAMPLES)
        return cpu_s(lambda: connection.execute(window_form()).fetchall())


def measure(days: int) -> tuple[float, float, float, float, float]:
    """Give CPU seconds of reading, rolling up, a training frame, one landmark, and the window form."""
    with tempfile.TemporaryDirectory() as directory:
        lake = Lake(Path(directory) / "lake")
        fill(lake, days)
        end = START + timedelta(days=days)
        landmarks = [START + timedelta(hours=4 * n) for n in range(6, days * 6)]
        rolled = cpu_s(lambda: roll_up(lake, end))
        return (
            read(lake),
            rolled,
            cpu_s(lambda: compute(lake, landmarks)),
            cpu_s(lambda: compute(lake, landmarks[-1:])),
            windows(lake),
        )


def main() -> int:
    """Run both sizes and hold them against the targets."""
    days = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    rows = NODES * GPUS * POLLS_A_DAY * days
    half, whole = measure(days // 2), measure(days)
    print(f"{rows:,} samples of {NODES * GPUS} GPUs; CPU seconds")
    for name, small, large in zip(
        ("read the columns", "roll up", "features, every 4 h", "features, once", "windows"), half, whole, strict=True
    ):
        print(f"{name:<22}{large:8.2f}   {large / rows * 1e6:6.2f} us a sample   x{large / small:.2f} for twice the samples")
    ours = whole[1] + whole[2]
    print(f"windows / ours {whole[4] / ours:.1f} (goal 10)   ours / reading {ours / whole[0]:.0f} (goal 8)")
    return 0 if ours <= whole[4] and whole[1] <= 2.6 * half[1] else 1


if __name__ == "__main__":
    sys.exit(main())
