"""Writers and a compactor that work on the same rows at once never double or lose one."""

from __future__ import annotations

import json

from ingest.clock import NS
from tests.faults.broker import wait_until
from tests.faults.conftest import MakePlant
from tests.faults.plant import Plant
from tests.faults.verdict import judge

EPOCH_NS = 1_780_000_000 * NS
DAY_NS = 86_400 * NS


def test_a_second_writer_started_by_mistake(make_plant: MakePlant) -> None:
    """A writer of another group reads every message too and writes to the same lake: each row is there once, and the clash is counted."""
    plant = make_plant(epoch_ns=EPOCH_NS, scale=720.0, interval_s=180.0)
    plant.start_all()
    plant.wait_for_rows()
    plant.start_writer("writer_again", group="mistake")
    wait_until(lambda: clashes(plant) > 0, "both have met the same messages", 300, plant.look_after)
    plant.wait_for_pages(20)
    plant.settle()

    verdict = judge(plant.lake, plant.fleet)
    assert verdict.is_exact, str(verdict)
    assert (plant.dropped, dict(plant.ended)) == (0, {})


def test_late_rows_and_compactions_of_the_same_date(make_plant: MakePlant) -> None:
    """While a day that is over is sorted again and again, late rows of that day are written into it: none is lost, none is there twice."""
    plant = make_plant(epoch_ns=EPOCH_NS, scale=720.0, interval_s=180.0)
    plant.set_clock("collector1", behind_ns=DAY_NS)
    plant.start_all()
    plant.start_compactor(gap_s=0.0)
    plant.wait_for_rows()
    wait_until(lambda: sorted_days(plant) >= 3, "a day was sorted, had late rows, and was sorted again", 300, plant.look_after)
    plant.settle()

    verdict = judge(plant.lake, plant.fleet)
    assert verdict.is_exact, str(verdict)
    assert (plant.dropped, dict(plant.ended)) == (0, {})


def clashes(plant: Plant) -> float:
    """Count what two writers of the same messages notice of each other."""
    names = ("forewarn_writer_failures_total", "forewarn_writer_duplicate_messages_total")
    return sum(plant.count(writer, name) for writer in ("writer0", "writer_again") for name in names)


def sorted_days(plant: Plant) -> int:
    """Count the days of samples that the compactor has sorted."""
    log = plant.directory / "compactor.log"
    lines = [json.loads(line) for line in log.read_text().splitlines() if '"compacted"' in line]
    return sum(len(line["sorted"]) for line in lines if line["table"] == "gpu_samples")
