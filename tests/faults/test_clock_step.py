"""A machine whose clock is set back an hour while its collector runs harms nobody's rows, its own included."""

from __future__ import annotations

import mmap
import time
from pathlib import Path

import duckdb

from ingest.clock import NS
from ingest.schema import GPU_SAMPLES
from tests.faults.conftest import MakePlant
from tests.faults.plant import Plant
from tests.faults.verdict import judge

HOUR_NS = 3600 * NS


def test_a_step_back_of_an_hour_on_one_node(make_plant: MakePlant, faulty: Path, tmp_path: Path) -> None:
    """The stepped node says its rows again from an hour ago and goes on; all are kept once, and the other node's times stay true."""
    started_ns = time.time_ns()
    plant = make_plant(epoch_ns=started_ns, scale=1.0, interval_s=1.0)
    clock = tmp_path / "moved"
    clock.write_bytes(bytes(8))
    plant.follow_wall_clock()
    plant.start_behind()
    plant.start_collector("collector0", LD_PRELOAD=str(faulty), FAULTY_CLOCK=str(clock))
    plant.start_collector("collector1")
    plant.wait_for_rows()
    plant.wait_for_pages(3)
    with clock.open("r+b") as file, mmap.mmap(file.fileno(), 8) as moved:
        moved[:] = (-HOUR_NS).to_bytes(8, "little", signed=True)
    plant.wait_for_pages(5)
    plant.settle()

    verdict = judge(plant.lake, plant.fleet)
    assert verdict.is_exact, str(verdict)
    assert (plant.dropped, dict(plant.ended)) == (0, {})
    (before, after), (first, last) = span_s(plant, "n0", started_ns), span_s(plant, "n1", started_ns)
    assert before < -3000 < 0 < after
    assert 0 <= first <= last <= (time.time_ns() - started_ns) / NS


def span_s(plant: Plant, node: str, zero_ns: int) -> tuple[float, float]:
    """Give the first and last observation of a node, in seconds after `zero_ns`."""
    with duckdb.connect() as connection:
        plant.lake.attach(connection, GPU_SAMPLES)
        query = "select min(epoch_ns(observed_at)), max(epoch_ns(observed_at)) from gpu_samples where node = ?"
        first, last = connection.execute(query, [node]).fetchall()[0]
    return (first - zero_ns) / NS, (last - zero_ns) / NS
