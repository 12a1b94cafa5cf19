"""Keeps one NVML worker alive and gets answers out of it, whatever the driver does.

State machine of a poll: ask; when the worker dies, hangs or answers for nobody, take it down, suspect the GPU that was being read, and
ask a new worker for the others, then for each doubtful one alone. A suspect is passed over with growing back-off. A worker that the host
does not let run accuses nobody and is kept. An NVML that cannot be used gives no answer but a state, and is tried again with back-off,
each time by a new process: a library is loaded once per process. So is one whose GPUs all hang.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Mapping

import msgspec
import structlog

from ingest.metrics import NVML_WORKER_ENDS, NVML_WORKER_STARTS
from ingest.nvml.child import Child, ChildDied
from ingest.nvml.codes import STATES, UNKNOWN
from ingest.nvml.protocol import EXIT_BASE, EXIT_UNKNOWN, Answer, Ask, Happened, Listening

HELLO_WAIT_S = 5.0
START_GRACE_S = 60.0  # without persistence mode the first init attaches every GPU, which takes seconds each
MOST_ZOMBIES = 3
ANSWER_GRACE_S = 1.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
_log = structlog.get_logger()


class Pause:
    """A back-off in wall time: 1 s, doubled with every failure up to 60 s, with jitter."""

    def __init__(self, source: random.Random, monotonic_s: Callable[[], float]) -> None:
        self._random = source
        self._monotonic_s = monotonic_s
        self._next_s = _FIRST_PAUSE_S
        self._over_at_s = 0.0

    def begin(self) -> None:
        """Start the next, longer pause."""
        self._over_at_s = self._monotonic_s() + self._next_s * self._random.uniform(0.75, 1.25)
        self._next_s = min(2 * self._next_s, _LONGEST_PAUSE_S)

    def is_over(self) -> bool:
        """Tell whether it is time to try again."""
        return self._monotonic_s() >= self._over_at_s


class Supervisor:
    """The worker of one node, its predecessors that would not die, and the GPUs under suspicion."""

    def __init__(
        self,
        environment: Mapping[str, str],
        on_event: Callable[[Happened | Listening], None],
        *,
        deadline_s: float,
        seed: int,
        hello_wait_s: float = HELLO_WAIT_S,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.state = "starting"
        self._environment = environment
        self._on_event = on_event
        self._deadline_s = deadline_s
        self._hello_wait_s = hello_wait_s
        self._monotonic_s = monotonic_s
        self._random = random.Random(seed)  # noqa: S311  # spreads restarts, guards nothing
        self._pause = self._new_pause()
        self._suspects: dict[str, Pause] = {}
        self._doubtful: set[str] = set()  # suspects of this poll that may be innocent
        self._child: Child | None = None
        self._started_s = 0.0
        self._zombies: list[Child] = []
        self._asked = 0
        self._seats = 0

    def _new_pause(self) -> Pause:
        return Pause(self._random, self._monotonic_s)

    def start(self) -> None:
        """Start a worker, unless one is there, its back-off is not over, or too many will not die."""
        self._zombies = [child for child in self._zombies if not child.is_gone()]
        if self._child is not None or not self._pause.is_over():
            return
        if len(self._zombies) >= MOST_ZOMBIES:
            self.state = "hung"
            return
        self._child = Child(self._environment, self._on_event)
        self._started_s = self._monotonic_s()
        NVML_WORKER_STARTS.inc()

    def forgive(self) -> None:
        """Forget back-offs and suspicions: the node has booted, so all of it is another driver's."""
        self._pause = self._new_pause()
        self._suspects.clear()

    async def poll(self, tier: str, with_links: bool) -> Answer | None:
        """Get an answer, if need be from one worker after another; None: `state` says why there is none."""
        self._doubtful.clear()
        for _ in range(1 + MOST_ZOMBIES):
            answer = await self._try(tier, with_links, self._passed_over())
            if answer is not None:
                self._settle(answer)
                return await self._clear(answer, tier, with_links)
            if self._child is not None or not self._pause.is_over():
                return None  # still starting, starved, or not to be started now
        if len(self._suspects) >= self._seats:
            self._pause.begin()  # nobody is left to be read: workers are not started and killed at every poll
        return None

    async def _clear(self, answer: Answer, tier: str, with_links: bool) -> Answer:
        """Ask for each doubtful GPU alone: a lock that another process held, or one GPU of several, took the worker down."""
        readings = {reading.seat.gpu_uuid: reading for reading in answer.readings}
        last, innocent = answer, self._doubtful & set(readings)
        for uuid in sorted(innocent):
            self._take_down_stuck(last)
            alone = await self._try(tier, with_links, tuple(set(readings) - {uuid}))
            if alone is None and (self._child is not None or not self._pause.is_over()):
                break  # no worker for now: nobody is guilty of that
            if alone is None:
                innocent.remove(uuid)
                continue
            last = alone
            self._settle(alone)
            readings.update({reading.seat.gpu_uuid: reading for reading in alone.readings if reading.seat.gpu_uuid == uuid})
            if alone.is_starved:
                break  # nothing is learnt now, and each would take its deadline
            if uuid in alone.overran:
                innocent.remove(uuid)
        if last is not answer:
            self._take_down_stuck(last)
        for uuid in innocent:
            self._suspects.pop(uuid, None)
        return msgspec.structs.replace(answer, readings=tuple(readings.values()), is_starved=answer.is_starved or last.is_starved)

    def _take_down_stuck(self, answer: Answer) -> None:
        """End a worker in which a call hangs: it may hold the driver's lock, and make whoever is asked next look guilty."""
        if self._child is not None and answer.overran and not answer.is_starved:
            self._kill(self._child, list(answer.overran), "a call hangs")

    def _passed_over(self) -> tuple[str, ...]:
        return tuple(uuid for uuid, pause in self._suspects.items() if not pause.is_over())

    async def _try(self, tier: str, with_links: bool, skip: tuple[str, ...]) -> Answer | None:
        """Ask a worker; one that fails is gone from `_child` afterwards, but for one that is still starting."""
        child = await self._ready()
        if child is None:
            return None
        self._asked += 1
        ask = Ask(self._asked, tier, with_links, self._deadline_s, skip)
        try:
            answer = await child.ask(ask, 2 * self._deadline_s + ANSWER_GRACE_S)
        except ChildDied:
            await self._bury(child)
        except TimeoutError:
            if child.is_starved():
                self.state = "starved"
            else:
                self._kill(child, self._doubt(child.being_read()), "no answer")
        else:
            if len(answer.overran) < 2 or answer.is_starved:
                return answer
            self._kill(child, self._doubt(list(answer.overran)), "one GPU blocks others")  # one of them holds the driver's lock
        return None

    async def _ready(self) -> Child | None:
        """Give a worker that can be asked."""
        self.start()
        child = self._child
        if child is None:
            return None
        try:
            self._seats = len((await child.hello(self._hello_wait_s)).seats)
        except TimeoutError:
            if self._monotonic_s() - self._started_s > START_GRACE_S and not child.is_starved():
                self._kill(child, [], "hung at start")
        except ChildDied:
            await self._bury(child)
        else:
            return child
        return None

    async def _bury(self, child: Child) -> None:
        """Learn from the exit status whether NVML cannot be used or a call has crashed the worker."""
        self._child = None
        suspects = child.being_read()
        status = await child.exit_code()
        if status is None:
            self._kill(child, suspects, "would not end")
        elif status >= EXIT_BASE:
            code = UNKNOWN if status == EXIT_UNKNOWN else status - EXIT_BASE
            self.state = STATES.get(code, f"error({code})")
            self._pause.begin()
            NVML_WORKER_ENDS.labels("nvml").inc()
            _log.warning("nvml_unusable", state=self.state)
        else:
            self._suspect(self._doubt(suspects) if len(suspects) > 1 else suspects)
            if not suspects:
                self._pause.begin()
            self.state = "crashed"
            NVML_WORKER_ENDS.labels("crash").inc()
            _log.warning("nvml_worker_crashed", status=status, signal=_signal_name(status), reading=suspects)

    def _kill(self, child: Child, suspects: list[str], reason: str) -> None:
        """Take a hung worker down; it may be in uninterruptible sleep, so nobody waits for it."""
        child.kill()
        self._zombies.append(child)
        self._child = None
        self._suspect(suspects)
        if not suspects:
            self._pause.begin()
        self.state = "hung"
        NVML_WORKER_ENDS.labels("hang").inc()
        _log.warning("nvml_worker_killed", reason=reason, reading=suspects)

    def _doubt(self, uuids: list[str]) -> list[str]:
        """Mark those who were not under suspicion yet to be asked alone, and give all of them."""
        self._doubtful |= set(uuids) - self._suspects.keys()
        return uuids

    def _suspect(self, uuids: list[str]) -> None:
        for uuid in uuids:
            self._suspects.setdefault(uuid, self._new_pause()).begin()

    def _settle(self, answer: Answer) -> None:
        """Note a good answer: whoever answered is no longer under suspicion."""
        self.state = "ok"
        self._pause = self._new_pause()
        for reading in answer.readings:
            if reading.code != "timeout":
                self._suspects.pop(reading.seat.gpu_uuid, None)

    async def stop(self) -> None:
        """Stop the worker."""
        if self._child is not None:
            child, self._child = self._child, None
            await child.stop()
        for zombie in self._zombies:
            await zombie.exit_code()  # reaps it, unless it is in uninterruptible sleep


def _signal_name(status: int) -> str | None:
    return signal.Signals(-status).name if status < 0 else None
