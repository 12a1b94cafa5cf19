"""GPUs are read side by side: one that hangs costs itself its row, and what is late for want of CPU is excused."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import cast

from ingest.nvml.lanes import Lane, Lanes
from ingest.nvml.protocol import Reading, Seat
from ingest.nvml.reader import GpuReader


class SlowReader:
    """Stands where a GPU is read, and takes its time when told to."""

    def __init__(self, name: str) -> None:
        self.seat = Seat(f"GPU-{name}", 0)
        self.gate: threading.Event | None = None
        self.reads = 0

    def read(self, tier: str, with_links: bool) -> Reading:
        """Read, when the gate is open."""
        self.reads += 1
        if self.gate is not None:
            self.gate.wait(10)
        return Reading(self.seat, None, 1, {}, {})


class Host:
    """A host that lets the process run, or not."""

    is_starving = False

    def was_starved(self) -> bool:
        """Tell so."""
        return self.is_starving


def lanes_of(*names: str, host: Host | None = None) -> tuple[Lanes, dict[str, SlowReader]]:
    readers = {name: SlowReader(name) for name in names}
    lanes = [Lane(cast("GpuReader", reader), place) for place, reader in enumerate(readers.values())]
    return Lanes(lanes, lambda place, is_reading: None, watch=lambda: host or Host()), readers


def read(lanes: Lanes) -> tuple[set[str], tuple[str, ...]]:
    outcome = lanes.read("hot", with_links=False, deadline_s=0.6)
    return set(outcome.readings), outcome.overran


def test_hung_gpu_gets_no_second_call_and_a_breaker() -> None:
    """While its call hangs a GPU is passed over; after three overruns it is tried at every tenth poll, and an answer closes the breaker."""
    lanes, readers = lanes_of("a", "b", "c")
    for overruns in (1, 2, 3):
        gate = readers["b"].gate = threading.Event()
        assert read(lanes) == ({"GPU-a", "GPU-c"}, ("GPU-b",))
        assert read(lanes) == ({"GPU-a", "GPU-c"}, ())
        assert readers["b"].reads == overruns
        gate.set()
        wait_until(lambda: not lanes.lanes[1].is_busy)
    readers["b"].gate = None
    heard = [("GPU-b" in read(lanes)[0]) for _ in range(12)]
    assert heard == [False] * 9 + [True] * 3


def test_two_hung_gpus_cost_the_others_little() -> None:
    """With two GPUs hanging the others are read in the same poll, well before the deadline has passed twice."""
    lanes, readers = lanes_of("a", "b", "c", "d")
    readers["a"].gate = readers["b"].gate = threading.Event()
    started = time.monotonic()
    good, overran = read(lanes)
    assert time.monotonic() - started < 1.0
    assert good == {"GPU-c", "GPU-d"}
    assert set(overran) == {"GPU-a", "GPU-b"}
    readers["a"].gate.set()


def test_late_gpu_of_a_starved_host_is_excused_and_waited_for() -> None:
    """What is late for want of CPU opens no breaker and counts as late again at the next poll, where its call may turn out to hang."""
    host = Host()
    lanes, readers = lanes_of("a", "b", host=host)
    gate = readers["b"].gate = threading.Event()
    host.is_starving = True
    for _ in range(4):
        outcome = lanes.read("hot", with_links=False, deadline_s=0.6)
        assert (set(outcome.readings), outcome.overran, outcome.is_starved) == ({"GPU-a"}, ("GPU-b",), True)
    assert lanes.lanes[1].overruns == 0
    host.is_starving = False
    outcome = lanes.read("hot", with_links=False, deadline_s=0.6)
    assert (outcome.overran, outcome.is_starved, lanes.lanes[1].overruns) == (("GPU-b",), False, 1)
    gate.set()


def test_gpu_that_has_hung_for_longer_is_named_before_the_one_that_joins_it() -> None:
    """The one that was stuck before may hold the lock for which the other waits."""
    lanes, readers = lanes_of("a", "b")
    readers["b"].gate = threading.Event()
    assert read(lanes) == ({"GPU-a"}, ("GPU-b",))
    readers["a"].gate = readers["b"].gate
    assert read(lanes) == (set(), ("GPU-b", "GPU-a"))
    readers["b"].gate.set()


def test_breaker_tries_a_hung_gpu_at_every_tenth_poll() -> None:
    """A GPU that overran three times is tried at every tenth poll only; what was late for want of CPU does not count."""
    lane = Lane(GpuReader(None, Seat("GPU-0", 0)), place=0)
    for _ in range(5):
        lane.overran(is_excused=True)
    for _ in range(3):
        assert lane.is_due()
        lane.overran(is_excused=False)
    for _ in range(2):
        assert [lane.is_due() for _ in range(10)] == [*[False] * 9, True]
        lane.overran(is_excused=False)


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 5
    while not is_so():
        assert time.monotonic() < end
