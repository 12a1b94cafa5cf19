"""Lets no GPU wait for another: reads all GPUs within a deadline, in as many threads as there are hung calls, plus one.

One thread reads GPU after GPU. When it has not come back with one for `OVERTAKE_S`, another thread takes over the rest, so a hung call
costs the others a fifth of a second once. A GPU that overran its deadline is read last; after `BREAKER_OVERRUNS` in a row its breaker
opens and it is tried at every `BREAKER_PERIOD`-th poll only. While a call hangs, its GPU gets no second one. What is late because the
host did not let this process run is excused: it opens no breaker, and the next poll waits for it again.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from ingest.nvml.protocol import Reading
from ingest.nvml.reader import GpuReader
from ingest.nvml.starving import SchedulerWatch, Watch

OVERTAKE_S = 0.2
BREAKER_OVERRUNS = 3
BREAKER_PERIOD = 10


@dataclass(eq=False)
class Lane:
    """One GPU: whether NVML lists it, whether a call of it hangs, and how its breaker stands."""

    reader: GpuReader
    place: int  # on the progress page
    is_listed: bool = True
    busy_since_ns: int | None = None  # of the monotonic clock
    is_excused: bool = False
    overruns: int = 0
    polls_to_wait: int = 0

    @property
    def gpu_uuid(self) -> str:
        """Name the GPU."""
        return self.reader.seat.gpu_uuid

    @property
    def is_busy(self) -> bool:
        """Tell whether a call of the GPU is under way."""
        return self.busy_since_ns is not None

    def busy_us(self) -> int | None:
        """Tell how long the call that is under way has taken so far."""
        since_ns = self.busy_since_ns
        return None if since_ns is None else (time.monotonic_ns() - since_ns) // 1000

    def is_due(self) -> bool:
        """Tell whether this poll may call into the GPU; counts the polls that an open breaker lets pass."""
        if self.is_busy:
            return False
        self.polls_to_wait -= 1
        return self.polls_to_wait < 0

    def overran(self, *, is_excused: bool) -> None:
        """Note a missed deadline."""
        self.is_excused = is_excused
        if is_excused:
            return
        self.overruns += 1
        self.polls_to_wait = BREAKER_PERIOD - 1 if self.overruns >= BREAKER_OVERRUNS else 0


@dataclass(eq=False)
class _Job:
    lane: Lane
    tier: str
    with_links: bool
    done: queue.SimpleQueue[tuple[_Job, Reading | BaseException]]
    is_withdrawn: bool = False
    started_ns: int | None = None


@dataclass
class Outcome:
    """What one poll came to: readings by UUID, who missed the deadline and whether for want of CPU, the error of the whole machine.

    `overran` has the GPU whose call hung first in front; when another joins those whose call has hung since an earlier poll, all are named.
    """

    readings: dict[str, Reading] = field(default_factory=dict)
    overran: tuple[str, ...] = ()
    is_starved: bool = False
    failure: BaseException | None = None


class Lanes:
    """The GPUs of one worker and the threads that read them."""

    def __init__(self, lanes: Sequence[Lane], mark: Callable[[int, bool], None], *, watch: Callable[[], Watch] = SchedulerWatch) -> None:
        self.lanes = list(lanes)
        self._begin_watch = watch
        self._mark = mark  # told before and after each GPU is read
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._threads = 0

    def read(self, tier: str, *, with_links: bool, deadline_s: float, skip: Collection[str] = ()) -> Outcome:
        """Read the GPUs that are due; one without a reading in the outcome missed the deadline or was passed over."""
        done: queue.SimpleQueue[tuple[_Job, Reading | BaseException]] = queue.SimpleQueue()
        due = [lane for lane in self.lanes if lane.is_listed and lane.gpu_uuid not in skip and lane.is_due()]
        waiting = [_Job(lane, tier, with_links, done) for lane in sorted(due, key=lambda lane: lane.overruns)]
        for job in waiting:
            self._jobs.put(job)
        excused = [lane for lane in self.lanes if lane.is_busy and lane.is_excused]
        outcome, watch, end = Outcome(), self._begin_watch(), time.monotonic() + deadline_s
        while (waiting or any(lane.is_busy for lane in excused)) and (left := end - time.monotonic()) > 0:
            self._keep_one_thread_free(waiting)
            try:
                job, result = done.get(timeout=min(left, OVERTAKE_S))
            except queue.Empty:
                continue
            waiting.remove(job)
            if isinstance(result, Reading):
                job.lane.overruns = 0
                outcome.readings[job.lane.gpu_uuid] = result
            else:
                outcome.failure = result
        late = [*(lane for lane in excused if lane.is_busy), *(job.lane for job in waiting)]
        if late:
            outcome.is_starved = watch.was_starved()
            outcome.overran = self._give_up(waiting, late, is_excused=outcome.is_starved)
        return outcome

    def _give_up(self, jobs: Sequence[_Job], late: Sequence[Lane], *, is_excused: bool) -> tuple[str, ...]:
        for job in jobs:
            job.is_withdrawn = True
        for lane in late:
            lane.overran(is_excused=is_excused)
        stuck = [lane for lane in self.lanes if lane.is_busy and lane not in late]
        never = time.monotonic_ns()
        return tuple(lane.gpu_uuid for lane in sorted([*stuck, *late], key=lambda lane: lane.busy_since_ns or never))

    def _keep_one_thread_free(self, waiting: Sequence[_Job]) -> None:
        is_work_left = any(job.started_ns is None for job in waiting)
        if is_work_left and self._threads <= sum(lane.is_busy for lane in self.lanes):
            self._threads += 1
            threading.Thread(target=self._run, name=f"nvml-{self._threads}", daemon=True).start()

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            lane = job.lane
            if job.is_withdrawn or lane.is_busy:
                continue
            lane.busy_since_ns = job.started_ns = time.monotonic_ns()
            self._mark(lane.place, True)
            try:
                result: Reading | BaseException = lane.reader.read(job.tier, job.with_links)
            except Exception as error:  # noqa: BLE001  # the one place of this loop: the worker ends with it, as a whole
                result = error
            self._mark(lane.place, False)
            lane.busy_since_ns = None
            job.done.put((job, result))
