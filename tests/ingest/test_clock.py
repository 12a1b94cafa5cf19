"""Fleet time runs as it is told; wall time is never mistaken for it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.clock import NS, ManualClock, ScaledClock, SharedClock, SystemClock, datetime_of, ns_of, parse_time

EPOCH = 1_750_000_000 * NS


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2025-06-15T15:06:40", 1_750_000_000_000_000_000),
        ("2025-06-15 17:06:40+02:00", 1_750_000_000_000_000_000),
        ("2025-06-15T15:06:40.250Z", 1_750_000_000_250_000_000),
    ],
)
def test_reads_iso_times_and_takes_those_without_a_zone_as_utc(text: str, ns: int) -> None:
    """The zone counts where there is one."""
    assert parse_time(text) == ns


@given(st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7))])))  # noqa: DTZ001
def test_datetimes_go_to_nanoseconds_and_back(at: datetime) -> None:
    """No microsecond is lost, in whichever zone."""
    assert datetime_of(ns_of(at)) == at


def test_nanoseconds_below_a_microsecond_are_cut_also_before_the_epoch() -> None:
    """Cutting goes down, never up."""
    assert datetime_of(1_999) == datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
    assert datetime_of(-1) == datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)


def test_scaled_time_runs_so_many_times_as_fast() -> None:
    """At scale 1,000 a wait of 10 s of fleet time takes 10 ms."""
    clock = ScaledClock(EPOCH, 1000.0)
    started = time.monotonic()
    clock.sleep_until(EPOCH + 10 * NS)
    assert time.monotonic() - started < 5.0
    assert clock.now_ns() >= EPOCH + 10 * NS


def test_two_scaled_clocks_with_the_same_start_tell_the_same_time() -> None:
    """A process that is told epoch, scale and start joins another's fleet time."""
    started = time.monotonic_ns() - 5 * NS
    one, other = ScaledClock(EPOCH, 60.0, started), ScaledClock(EPOCH, 60.0, started)
    first, second, third = one.now_ns(), other.now_ns(), one.now_ns()
    assert EPOCH + 300 * NS <= first <= second <= third


def test_scaled_time_stands_still_until_it_starts() -> None:
    """Before the start of the clock it tells the epoch."""
    assert ScaledClock(EPOCH, 10.0, time.monotonic_ns() + 60 * NS).now_ns() == EPOCH


async def test_a_shared_clock_stands_and_goes_for_everybody_who_reads_its_file(tmp_path: Path) -> None:
    """Who waits while time stands goes on waiting; time goes on from where it stood."""
    pacer = SharedClock.create(tmp_path / "clock", EPOCH, 1000.0)
    reader = SharedClock(tmp_path / "clock")
    assert (reader.scale, reader.stands, reader.now_ns()) == (1000.0, True, EPOCH)
    waiting = asyncio.create_task(reader.wait_until(EPOCH + NS))
    done, _ = await asyncio.wait({waiting}, timeout=0.2)
    assert not done
    pacer.go()
    await asyncio.wait_for(waiting, 10)
    pacer.stand()
    stood_ns = reader.now_ns()
    assert stood_ns >= EPOCH + NS
    assert pacer.now_ns() == reader.now_ns() == stood_ns
    pacer.go()
    reader.sleep_until(stood_ns + 20 * NS)
    assert reader.now_ns() >= stood_ns + 20 * NS


async def test_waiting_for_the_past_returns_at_once() -> None:
    """No clock waits for what has been."""
    for clock in (SystemClock(), ScaledClock(EPOCH, 10.0), ManualClock(EPOCH)):
        clock.sleep_until(clock.now_ns() - NS)
        await clock.wait_until(clock.now_ns() - NS)


async def test_a_manual_clock_moves_when_told_or_waited_for_and_never_back_by_waiting() -> None:
    """It is the double for tests: no sleeping, and a step back only on purpose."""
    clock = ManualClock(EPOCH)
    clock.advance(1.5)
    assert clock.now_ns() == EPOCH + 3 * NS // 2
    await clock.wait_until(EPOCH + 10 * NS)
    clock.sleep_until(EPOCH)
    assert clock.now_ns() == EPOCH + 10 * NS
    clock.advance(-20)
    assert clock.now_ns() == EPOCH - 10 * NS
