"""Fleet time stands exactly while somebody is behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarn.demo_pace import Pacer
from ingest.clock import NS, SharedClock
from ingest.errors import ForewarnError
from ingest.lake import Lake

EPOCH = 1_750_000_000 * NS


def standing(directory: Path, *, after_s: float) -> tuple[SharedClock, Pacer]:
    """Give a slow clock that stands so long after the epoch, and its pacer."""
    clock = SharedClock.create(directory / "clock", EPOCH + int(after_s * NS), scale=0.001)
    return clock, Pacer(clock, Lake(directory / "lake"), EPOCH)


def test_time_waits_for_a_late_poll_of_another_process_and_goes_on_when_it_is_done(tmp_path: Path) -> None:
    """The earliest that is not done counts, of both processes; what has not begun counts too."""
    clock, pacer = standing(tmp_path, after_s=500)
    collector, devices = SharedClock(tmp_path / "clock"), SharedClock(tmp_path / "clock", seat=1)
    devices.expect("devices", EPOCH + 480 * NS)
    collector.expect("nvml", EPOCH + 300 * NS)
    collector.expect("exporter", EPOCH + 600 * NS)
    assert pacer.keep(10.0) == EPOCH + 500 * NS
    assert clock.stands
    collector.expect("nvml", EPOCH + 600 * NS)
    pacer.keep(10.1)
    assert not clock.stands
    devices.expect("devices", EPOCH + 380 * NS)
    pacer.keep(10.2)
    assert clock.stands


def test_a_poll_that_hangs_is_waited_for_once(tmp_path: Path) -> None:
    """After ten seconds time goes on; the next late poll gets ten of its own, and one that will never be done again none."""
    clock, pacer = standing(tmp_path, after_s=500)
    clock.expect("nvml", EPOCH + 300 * NS)
    seen = []
    for now_s in (10.0, 19.9, 20.1, 21.0):
        pacer.keep(now_s)
        seen.append(clock.stands)
    clock.expect("nvml", EPOCH + 310 * NS)
    pacer.keep(21.1)
    assert [*seen, clock.stands] == [True, True, False, False, True]
    clock.expect("nvml", None)
    pacer.keep(21.2)
    assert not clock.stands


def test_time_waits_for_scores_and_gives_up_when_they_never_come(tmp_path: Path) -> None:
    """A fleet without a score goes on for two and a half hours."""
    clock, pacer = standing(tmp_path, after_s=8900)
    pacer.keep(10.0)
    assert not clock.stands
    clock, pacer = standing(tmp_path, after_s=9100)
    pacer.keep(10.0)
    assert clock.stands
    with pytest.raises(ForewarnError, match="no scores of 2025-06-15"):
        pacer.keep(140.0)
