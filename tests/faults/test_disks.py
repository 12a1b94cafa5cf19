"""Disks that are full or slow cost gauges that are counted, or time, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ingest.clock import NS
from tests.faults.broker import wait_until
from tests.faults.conftest import MakePlant
from tests.faults.plant import DROPPED
from tests.faults.verdict import judge

EPOCH_NS = 1_780_000_000 * NS


def fill(disk: Path) -> Path:
    """Write a file until the disk has no room, as a log that ran wild does."""
    filler = disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(os.urandom(65_536))
    with suppress(OSError), filler.open("ab", buffering=0) as file:
        while True:
            file.write(b"x")
    assert os.statvfs(disk).f_bavail == 0
    return filler


def test_a_full_disk_under_a_spool_costs_counted_gauges_and_no_event(make_plant: MakePlant, make_disk: Callable[[str, str], Path]) -> None:
    """With the broker away and the disk full, what is missing afterwards are as many gauges as were counted; every event is there."""
    disk = make_disk("spool", "8m")
    plant = make_plant(epoch_ns=EPOCH_NS, scale=720.0, interval_s=180.0)
    plant.state_dirs["collector0"] = disk / "state"
    plant.start_all()
    plant.wait_for_rows()
    plant.broker.kill()
    filler = fill(disk)
    wait_until(lambda: plant.count("collector0", DROPPED, reason="disk_full") >= 2, "gauges are dropped", 300)
    before = len(plant.fleet.logged())
    wait_until(lambda: len(plant.fleet.logged()) >= before + 10, "events are logged", 300)
    filler.unlink()
    plant.broker.start()
    plant.settle()

    verdict = judge(plant.lake, plant.fleet)
    assert (verdict.events_lost, verdict.events_doubled, verdict.rows_doubled, verdict.rows_altered, verdict.repeated) == (0, 0, 0, 0, {})
    assert plant.dropped >= 2
    missing_in_flight = verdict.in_flight - verdict.in_flight_stored
    assert verdict.rows_lost <= plant.dropped <= verdict.rows_lost + missing_in_flight, str(verdict)
    assert dict(plant.ended) == {}


def test_a_full_disk_under_the_lake_stops_the_writer_until_there_is_room(
    make_plant: MakePlant, make_disk: Callable[[str, str], Path]
) -> None:
    """Passes of the writer fail and are counted; with room again everything is written, nothing is half there."""
    disk = make_disk("lake", "16m")
    plant = make_plant(epoch_ns=EPOCH_NS, scale=720.0, interval_s=180.0, lake=disk / "lake")
    plant.start_all()
    plant.wait_for_rows()
    filler = fill(disk)
    wait_until(lambda: plant.count("writer0", "forewarn_writer_failures_total") >= 2, "the writer fails", 300)
    plant.wait_for_pages(10)
    filler.unlink()
    plant.settle()

    verdict = judge(plant.lake, plant.fleet)
    assert verdict.is_exact, str(verdict)
    assert (plant.dropped, dict(plant.ended)) == (0, {})


def test_slow_disks_cost_time_alone(make_plant: MakePlant, faulty: Path) -> None:
    """A disk whose syncs take half a second and whose writes take ten milliseconds, under spool and lake: everything arrives, once."""
    plant = make_plant(epoch_ns=EPOCH_NS, scale=720.0, interval_s=180.0)
    slow = {"LD_PRELOAD": str(faulty), "FAULTY_SLOW_BELOW": str(plant.directory), "FAULTY_WRITE_MS": "10", "FAULTY_SYNC_MS": "500"}
    plant.start_all(**slow)
    plant.wait_for_rows()
    plant.wait_for_pages(20)
    taken_s = plant.count("writer0", "forewarn_lake_commit_duration_seconds_sum")
    commits = plant.count("writer0", "forewarn_lake_commit_duration_seconds_count")
    plant.settle()

    verdict = judge(plant.lake, plant.fleet)
    assert verdict.is_exact, str(verdict)
    assert (plant.dropped, dict(plant.ended)) == (0, {})
    assert taken_s / commits > 0.03, "the disk was not slow"
