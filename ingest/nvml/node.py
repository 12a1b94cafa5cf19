"""What is known of one node's GPUs over time: turns each answer into rows, with epochs, the expected inventory and source states."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import structlog

from ingest.clock import NS, Clock
from ingest.metrics import NVML_EVENTS, NVML_GPU_POLLS
from ingest.nvml.epochs import Epoch
from ingest.nvml.inventory import Changes
from ingest.nvml.memory import load, save
from ingest.nvml.protocol import Answer, Happened, Listening, Reading, Seat
from ingest.nvml.rows import Poll, absent_sample, check, event, further, inventory, links, news, sample
from ingest.nvml.signals import COLD, DAILY, HOT, columns_of_tier
from ingest.schema import Event, Observed, SourceState

STATE_EVERY_NS = 3600 * NS
_HELD_EVENTS = 10_000
_log = structlog.get_logger()


class Node:
    """The GPUs of one node."""

    def __init__(self, node: str, clock: Clock, memory_path: Path | None = None, *, keeps_memory: bool = True) -> None:
        self.boot_id: str | None = None
        self.has_restarted = False  # counters of a GPU have: whoever reads may want to ask for everything again
        self._node = node
        self._clock = clock
        self._memory_path = memory_path if keeps_memory else None
        self._memory = load(memory_path)
        self._limits: dict[str, float] = {}
        self._told: dict[str, dict[str, float | str]] = {}
        self._news: set[tuple[str, int]] = set()
        self._driver_version: str | None = None
        self._events: deque[Event] = deque(maxlen=_HELD_EVENTS)
        self._listening = Listening(is_up=True)
        self._said: tuple[str, int] | None = None  # state and when it was last said

    def hear(self, message: Happened | Listening) -> None:
        """Take an event, or that events are or are not being waited for."""
        if isinstance(message, Listening):
            self._listening = message
            return
        now_ns = self._clock.now_ns()
        known = self._memory.inventory.gpus.get(message.gpu_uuid)
        self._events.append(event(self._poll(HOT, now_ns), message, known.seat if known else None))
        NVML_EVENTS.inc()

    def take_events(self) -> list[Event]:
        """Give the events that nobody has taken."""
        events = list(self._events)
        self._events.clear()
        return events

    def rows(self, answer: Answer, tier: str, at_ns: int) -> list[Observed]:
        """Turn an answer into everything that it says."""
        self.has_restarted = False
        self._driver_version = answer.driver_version
        poll = self._poll(tier, at_ns)
        changes = self._memory.inventory.look([reading.seat for reading in answer.readings], answer.lost_indices, at_ns)
        records: list[Observed] = list(inventory(poll, changes))
        for reading in (*answer.readings, *(_lost(seat, poll.tier) for seat in changes.lost)):
            records += self._gpu_rows(poll, reading, is_daily=tier == DAILY)
            NVML_GPU_POLLS.labels(reading.code or "ok").inc()
        records += [absent_sample(poll, seat) for seat in changes.absent]
        if poll.tier == COLD or changes.inserted or changes.removed or self.has_restarted:
            self.remember()
        self._forget(changes)
        return [*records, *self.take_events(), *self._state_rows(self._state_of(answer), at_ns, len(answer.readings))]

    def _forget(self, changes: Changes) -> None:
        for seat in changes.removed:
            for known in (self._memory.epochs, self._limits, self._told):
                known.pop(seat.gpu_uuid, None)

    def remember(self) -> None:
        """Write down what outlasts this process; a disk that is full costs the memory, not the poll."""
        if self._memory_path is None:
            return
        try:
            save(self._memory, self._memory_path)
        except OSError as error:
            _log.warning("nvml_memory_not_written", path=str(self._memory_path), error=str(error))

    def silent(self, state: str, tier: str, at_ns: int) -> list[Observed]:
        """Say that there is no answer: a state of the source; only a worker that is silent is also a row of every GPU, without values."""
        records: list[Observed] = [*self.take_events(), *self._state_rows((state, None), at_ns, 0)]
        if state in ("hung", "starved"):
            poll = self._poll(tier, at_ns)
            seats = [gpu.seat for gpu in self._memory.inventory.gpus.values() if not gpu.is_missing]
            records += [sample(poll, _unread(seat, poll.tier, "timeout"), epoch=self._number(seat)) for seat in seats]
            NVML_GPU_POLLS.labels("timeout").inc(len(seats))
        return records

    def _poll(self, tier: str, at_ns: int) -> Poll:
        return Poll(
            node=self._node,
            at_ns=at_ns,
            now_ns=self._clock.now_ns(),
            boot_id=self.boot_id,
            driver_version=self._driver_version,
            tier=COLD if tier == DAILY else tier,
        )

    def _number(self, seat: Seat) -> int | None:
        epoch = self._memory.epochs.get(seat.gpu_uuid)
        return epoch.number if epoch else None

    def _gpu_rows(self, poll: Poll, reading: Reading, *, is_daily: bool) -> list[Observed]:
        uuid = reading.seat.gpu_uuid
        if reading.code is None:
            self._limits[uuid] = float(reading.values.get("power_limit_w", self._limits.get(uuid, 0)))
            check(reading.values, reading.quality, self._limits[uuid])
            self._follow(poll, reading)
        fresh = [rc for rc in reading.news if (uuid, rc) not in self._news]
        self._news.update((uuid, rc) for rc in fresh)
        return [
            sample(poll, reading, epoch=self._number(reading.seat)),
            *further(poll, reading, self._told.setdefault(uuid, {}), is_all=is_daily),
            *links(poll, reading),
            *(news(poll, reading.seat, rc) for rc in fresh),
        ]

    def _follow(self, poll: Poll, reading: Reading) -> None:
        """Keep up with the counters of one GPU; what happened before a restart is no news any more, and may be after it."""
        uuid = reading.seat.gpu_uuid
        epoch = self._memory.epochs.setdefault(uuid, Epoch())
        before = (epoch.boot_id, epoch.number)
        back = epoch.follow(reading.values, boot_id=poll.boot_id, driver_version=poll.driver_version)
        reading.quality.update(dict.fromkeys(back, "went_back"))
        if before[0] is not None and before != (epoch.boot_id, epoch.number):
            self.has_restarted = True
            self._news = {item for item in self._news if item[0] != uuid}

    def _state_of(self, answer: Answer) -> tuple[str, str | None]:
        if not answer.readings and self._memory.inventory.gpus:
            return "empty", "no GPU is listed"
        if answer.is_starved:
            return "starved", "the host does not let the collector run"
        if not self._listening.is_up:
            return "events_down", self._listening.detail
        return "ok", None

    def _state_rows(self, state: tuple[str, str | None], at_ns: int, seen: int) -> list[SourceState]:
        """Say the state when it or the number of GPUs has changed, and once per hour."""
        name, detail = state
        key = f"{name} {seen}"
        if self._said is not None and self._said[0] == key and at_ns - self._said[1] < STATE_EVERY_NS:
            return []
        self._said = key, at_ns
        common = self._poll(HOT, at_ns).common()
        return [SourceState(**common, state=name, detail=detail, expected=len(self._memory.inventory.gpus), seen=seen)]


def _unread(seat: Seat, tier: str, code: str) -> Reading:
    return Reading(seat, code, None, {}, dict.fromkeys(columns_of_tier(tier), code))


def _lost(seat: Seat, tier: str) -> Reading:
    return _unread(seat, tier, "lost")
