"""Run the whole ingest of 16,384 GPUs but the scrape: 205 node messages a second from a collector through Apache Kafka into the lake.

A collector's process spools and publishes, `forewarn write` writes, a reader follows the table and tells of each row how old it was when a
query could see it. Prints CPU of each process, memory over time and age; exits with 1 when a target is missed: one core in all, the
broker included; p99 of the age at most five seconds above what the batch itself takes; memory flat. `--minutes N` is how long.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import msgspec
import numpy as np
import tomli_w

from benchmarks.rig.fleet import GPUS, polls_of_fleet
from benchmarks.rig.kafka import kafka
from benchmarks.rig.process import cpu_s, memory_mb
from ingest.clock import SystemClock
from ingest.collector import Collector
from ingest.kafka_bus import KafkaConnection, KafkaPublisher
from ingest.lake import Lake
from ingest.schema import GPU_SAMPLES, Observed
from ingest.source import Pace
from ingest.spool import Spool

NODES, INTERVAL_S = 2048, 10.0
RATE = NODES * GPUS / INTERVAL_S  # rows/s
MAX_ROWS, MAX_AGE_S = 60_000, 60.0  # the writer's defaults
BATCH_S = min(MAX_AGE_S, MAX_ROWS / RATE)
SETTLE_S, LATE_S, MOST_GROWTH = 60.0, 5.0, 1.1


class Polled:
    """A source whose nodes answer in turn, each every ten seconds; the rows are made ahead, their times are those of the read."""

    name, interval_s, pace = "nvml", 0.1, Pace.WALL

    def __init__(self) -> None:
        self._polls = polls_of_fleet(NODES, 2)
        self._next = 0

    async def open(self) -> None:
        """Begin now."""
        self._began = time.monotonic()

    async def read(self, at_ns: int) -> list[Observed]:
        """Give the nodes whose turn has come."""
        due = int((time.monotonic() - self._began) * NODES / INTERVAL_S)
        turns, self._next = range(self._next, due), due
        rows = (row for turn in turns for row in self._polls[turn % len(self._polls)][1])
        return [msgspec.structs.replace(row, observed_at_ns=at_ns, received_at_ns=at_ns) for row in rows]

    async def close(self) -> None:
        """Nothing is open."""


async def collect(bootstrap: str, directory: Path) -> None:
    """Publish until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    publisher = KafkaPublisher(KafkaConnection(bootstrap=bootstrap))
    await Collector([Polled()], Spool(directory), clock=SystemClock(), publisher=publisher).run(stop)


class Watch:
    """A reader of the lake beside the writer: ages of rows at the moment when a query sees them, in seconds."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._seen: set[str] = set()
        self.ages: list[np.ndarray] = []

    def look(self) -> None:
        """Read what came since the last look."""
        new = sorted(set(self._lake.files(GPU_SAMPLES)) - self._seen)
        if new:
            self._seen.update(new)
            found = duckdb.read_parquet(new).project("epoch_us(observed_at) as at").fetchnumpy()["at"]
            self.ages.append(time.time() - np.asarray(found) / 1e6)


class Meter:
    """CPU and memory of processes by name, sampled every second."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._pids = pids
        self._began = time.monotonic()
        self._before = {name: cpu_s(pid) for name, pid in pids.items()}
        self.memory: dict[str, list[float]] = {name: [] for name in pids}

    def note(self) -> None:
        """Take one sample of memory."""
        for name, pid in self._pids.items():
            self.memory[name].append(memory_mb(pid))

    def shares(self) -> dict[str, float]:
        """Tell the share of a core that each took since the beginning."""
        elapsed = time.monotonic() - self._began
        return {name: (cpu_s(pid) - self._before[name]) / elapsed for name, pid in self._pids.items()}


@contextmanager
def running(directory: Path) -> Iterator[dict[str, int]]:
    """Start the three processes; give their ids."""
    with kafka(directory / "kafka") as broker:
        bus = {"kind": "kafka", "bootstrap": broker.settings.bootstrap}
        lake, write = {"path": str(directory / "lake")}, {"metrics_port": 0, "max_rows": MAX_ROWS, "max_age_s": MAX_AGE_S}
        config = directory / "forewarn.toml"
        config.write_text(tomli_w.dumps({"fleet": {"state_dir": str(directory / "state")}, "lake": lake, "bus": bus, "write": write}))
        commands = {
            "collector": [sys.executable, __file__, "--collect", broker.settings.bootstrap, str(directory / "spool")],
            "writer": [sys.executable, "-m", "forewarn", "write", "--config", str(config)],
        }
        with (directory / "log").open("wb") as log:
            started = {name: subprocess.Popen(command, stdout=log, stderr=log) for name, command in commands.items()}
            try:
                yield {name: process.pid for name, process in started.items()} | {"broker": broker.pid}
            finally:
                for process in started.values():
                    process.terminate()
                for process in started.values():
                    process.wait(30)


def measure(minutes: float) -> tuple[dict[str, float], dict[str, list[float]], np.ndarray]:
    """Run for so long after a settling time; give shares of a core, memory each second in MB, and ages in seconds."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as pids:
        watch = Watch(Lake(Path(folder) / "lake"))
        settled = time.monotonic() + SETTLE_S
        while time.monotonic() < settled or len(watch.ages) < 2:
            watch.look()
            time.sleep(0.25)
            assert time.monotonic() < settled + 120, (Path(folder) / "log").read_text()[-2000:]
        watch.ages.clear()
        meter, until = Meter(pids), time.monotonic() + minutes * 60
        while time.monotonic() < until:
            meter.note()
            for _ in range(4):
                watch.look()
                time.sleep(0.25)
        return meter.shares(), meter.memory, np.concatenate(watch.ages)


def told(memory: list[float]) -> tuple[str, float]:
    """Tell memory at the beginning, in the middle and at the end, and the growth of the last third over the second."""
    third = len(memory) // 3
    parts = [statistics.median(memory[start : start + third]) for start in (0, third, 2 * third)]
    return " -> ".join(f"{part:.0f}" for part in parts) + f" MB, at most {max(memory):.0f}", parts[2] / parts[1]


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--collect", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.collect:
        asyncio.run(collect(options.collect[0], Path(options.collect[1])))
        return 0
    shares, memory, ages = measure(options.minutes)
    p50, p99 = np.percentile(ages, [50, 99])
    print(f"{RATE / GPUS:.0f} messages/s of {GPUS} rows for {options.minutes:g} minutes; {len(ages):,} rows became queryable")
    growth = []
    for name, share in shares.items():
        text, grown = told(memory[name])
        growth.append(grown)
        print(f"{name:<10}{share:7.1%} of a core, {1e6 * share / RATE * GPUS:6.0f} us a message; memory by thirds {text}")
    ours = sum(share for name, share in shares.items() if name != "broker")
    print(f"in all {sum(shares.values()):.1%} of a core, without the broker {ours:.1%}")
    print(f"age from poll to queryable row: p50 {p50:.1f} s, p99 {p99:.1f} s, most {ages.max():.1f} s; a batch fills in {BATCH_S:.1f} s")
    wanted = {
        "one core": sum(shares.values()) <= 1,
        "age": p99 <= BATCH_S + LATE_S,
        "every row": len(ages) >= 0.9 * (RATE * options.minutes * 60 - MAX_ROWS),
        "flat memory": max(growth) <= MOST_GROWTH,
    }
    missed = [name for name, is_met in wanted.items() if not is_met]
    print("missed: " + ", ".join(missed) if missed else "all targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
