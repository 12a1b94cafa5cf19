"""A host that does not let the collector run accuses no GPU, and a GPU is under suspicion only when it is slow alone."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from emulators.nvml.machine import NvmlMachine
from ingest.clock import ManualClock
from ingest.nvml.source import NvmlSource
from ingest.nvml.starving import Scheduled, scheduled, was_starved
from ingest.schema import Event, GpuSample, Observed, SourceState

OpenSource = Callable[..., Awaitable[NvmlSource]]
BURNERS = 20


def temperatures(records: list[Observed]) -> list[float | None]:
    rows = sorted((row for row in records if isinstance(row, GpuSample)), key=lambda row: row.gpu_uuid)
    return [row.temp_c for row in rows]


def states(records: list[Observed]) -> list[str]:
    return [row.state for row in records if isinstance(row, SourceState)]


def workers() -> list[int]:
    """Give the process ids of the workers that this process has started and that live."""
    children = {int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}
    return [pid for pid in children if b"ingest.nvml.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@contextmanager
def starved(pid: int) -> Iterator[None]:
    """Leave a process the hundredth part of one CPU at most."""
    cpu = min(os.sched_getaffinity(0))
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setscheduler(int(thread.name), os.SCHED_IDLE, os.sched_param(0))
        os.sched_setaffinity(int(thread.name), {cpu})
    burners = [subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"]) for _ in range(BURNERS)]
    for burner in burners:
        os.sched_setaffinity(burner.pid, {cpu})
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


async def read_unstarved(source: NvmlSource, clock: ManualClock) -> list[Observed]:
    """Give the first poll in which the host, whatever else it does, has let the worker run."""
    said = "ok"
    while True:
        clock.advance(60)
        records = await source.read(clock.now_ns())
        said = (states(records) or [said])[-1]
        if said == "ok":
            return records


@pytest.mark.nvml
@pytest.mark.skipif(not scheduled(), reason="the kernel keeps no counts of waits for a CPU")
async def test_starved_host_accuses_nobody(open_source: OpenSource, machine: NvmlMachine, clock: ManualClock) -> None:
    """Late rows of a worker that is not let run are timeouts of no GPU's making: the worker stays, and all have values when it may run."""
    source = await open_source(deadline_s=0.2)
    assert temperatures(await read_unstarved(source, clock)) == [30.0] * 8
    (worker,) = workers()
    said: list[str] = []
    with starved(worker):
        end = time.monotonic() + 20
        while said.count("starved") < 1 or len(said) < 3:
            assert time.monotonic() < end
            clock.advance(3_600)  # the state is said every hour
            records = await source.read(clock.now_ns())
            said += states(records)
            assert len(temperatures(records)) == 8
            assert not [row for row in records if isinstance(row, Event)]
    assert set(said) <= {"starved", "ok"}
    end = time.monotonic() + 20
    values: list[float | None] = []
    while None in values or not values:
        assert time.monotonic() < end
        clock.advance(60)
        values = temperatures(await source.read(clock.now_ns()))
    assert values == [30.0] * 8
    assert workers() == [worker]


@pytest.mark.nvml
async def test_gpu_that_is_well_alone_is_no_suspect(open_source: OpenSource, machine: NvmlMachine, clock: ManualClock) -> None:
    """When the driver's lock was held for a while, the GPU that was asked first is asked again alone and has its values in that poll."""
    source = await open_source(deadline_s=1.0)
    await read_unstarved(source, clock)
    machine.fault("nvmlDeviceGetUtilizationRates", slot=3, latency_us=600_000_000, holds_lock=True, calls=1)
    assert temperatures(await read_unstarved(source, clock)) == [30.0] * 8
    machine.clear_faults()


@pytest.mark.nvml
async def test_lock_of_the_last_gpu_accuses_no_other(open_source: OpenSource, machine: NvmlMachine, clock: ManualClock) -> None:
    """A GPU that is read last and holds the driver's lock makes no other GPU guilty in the polls that follow."""
    source = await open_source(deadline_s=0.5)
    await read_unstarved(source, clock)
    machine.fault("nvmlDeviceGetUtilizationRates", slot=7, latency_us=600_000_000, holds_lock=True)
    for _ in range(2):
        assert temperatures(await read_unstarved(source, clock)) == [*[30.0] * 7, None]
    machine.clear_faults()


@pytest.mark.parametrize(
    ("before", "after", "ready", "is_starved"),
    [
        ((0.1, 0.0), (0.1, 0.0), False, False),  # sleeps in a call
        ((0.1, 0.0), (2.1, 0.0), True, False),  # spins in a call, on a CPU that it has
        ((0.1, 0.0), (0.2, 1.2), False, True),  # has waited for a CPU
        ((0.1, 0.0), (0.2, 0.0), True, True),  # waits for one
        ((0.1, 5.0), (0.1, 5.2), False, False),  # had waited before
    ],
)
def test_waiting_for_a_cpu_is_told_from_waiting_for_a_driver(
    before: tuple[float, float], after: tuple[float, float], ready: bool, is_starved: bool
) -> None:
    """Half of two seconds spent ready and not running is starving; sleeping or running is not."""
    threads = {7} if ready else set()
    assert was_starved({7: Scheduled(*before)}, {7: Scheduled(*after)}, threads, 2.0) is is_starved


def test_nothing_known_excuses_nothing() -> None:
    """Without the kernel's counts nobody was starved."""
    assert not was_starved({}, {}, set(), 2.0)
