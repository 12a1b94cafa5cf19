"""What is known of one node's GPUs over time: turns each answer into rows, with epochs, the expected inventory and source states."""

from __future__ import annotations

from collections import deque

from ingest.clock import NS, Clock
from ingest.metrics import NVML_EVENTS, NVML_GPU_POLLS
from ingest.nvml_epochs import Epoch
from ingest.nvml_inventory import Inventory
from ingest.nvml_protocol import Answer, Happened, Listening, Reading, Seat
from ingest.nvml_rows import SOURCE, Poll, absent_sample, check, event, hard_event, inventory, links, sample
from ingest.nvml_signals import columns_of_tier
from ingest.schema import Event, Observed, SourceState

STATE_EVERY_NS = 3600 * NS
_HELD_EVENTS = 10_000


class Node:
    """The GPUs of one node."""

    def __init__(self, node: str, clock: Clock) -> None:
        self.boot_id: str | None = None
        self._node = node
        self._clock = clock
        self._inventory = Inventory()
        self._epochs: dict[str, Epoch] = {}
        self._limits: dict[str, float] = {}
        self._hard: set[tuple[str, int]] = set()
        self._driver_version: str | None = None
        self._events: deque[Event] = deque(maxlen=_HELD_EVENTS)
        self._listening = Listening(is_up=True)
        self._said: tuple[str, int] | None = None  # state and when it was last said

    def hear(self, message: Happened | Listening) -> None:
        """Take an event, or that events are or are not being waited for."""
        if isinstance(message, Listening):
            self._listening = message
            return
        now = self._clock.now_ns()
        known = self._inventory.gpus.get(message.gpu_uuid)
        self._events.append(event(self._poll("hot", now, now), message, known.seat if known else None))
        NVML_EVENTS.inc()

    def take_events(self) -> list[Event]:
        """Give the events that nobody has taken."""
        events = list(self._events)
        self._events.clear()
        return events

    def rows(self, answer: Answer, tier: str, at_ns: int) -> list[Observed]:
        """Turn an answer into everything that it says."""
        self._driver_version = answer.driver_version
        poll = self._poll(tier, at_ns, self._clock.now_ns())
        changes = self._inventory.look([reading.seat for reading in answer.readings], answer.lost_indices, at_ns)
        records: list[Observed] = inventory(poll, changes)
        for reading in (*answer.readings, *(_lost(seat, tier) for seat in changes.lost)):
            records += self._gpu_rows(poll, reading)
            NVML_GPU_POLLS.labels(reading.code or "ok").inc()
        records += [absent_sample(poll, seat) for seat in changes.absent]
        records += self.take_events()
        expected, seen = len(self._inventory.gpus), len(answer.readings)
        return records + self._state_rows(self._state_of(answer), at_ns, expected, seen)

    def silent(self, state: str, at_ns: int) -> list[Observed]:
        """Say that there is no answer: a state of the source, nothing about its GPUs."""
        return [*self.take_events(), *self._state_rows((state, None), at_ns, len(self._inventory.gpus), 0)]

    def timeouts(self, tier: str, at_ns: int) -> list[Observed]:
        """Build the rows of a poll in which the driver answered for nobody."""
        poll = self._poll(tier, at_ns, self._clock.now_ns())
        readings = [Reading(gpu.seat, "timeout", None, {}, _all(tier, "timeout")) for gpu in self._inventory.gpus.values()]
        return [sample(poll, reading, epoch=self._number(reading.seat)) for reading in readings]

    def _poll(self, tier: str, at_ns: int, now_ns: int) -> Poll:
        return Poll(node=self._node, at_ns=at_ns, now_ns=now_ns, boot_id=self.boot_id, driver_version=self._driver_version, tier=tier)

    def _number(self, seat: Seat) -> int | None:
        epoch = self._epochs.get(seat.gpu_uuid)
        return epoch.number if epoch else None

    def _gpu_rows(self, poll: Poll, reading: Reading) -> list[Observed]:
        uuid = reading.seat.gpu_uuid
        if reading.code is None:
            self._limits[uuid] = float(reading.values.get("power_limit_w", self._limits.get(uuid, 0)))
            check(reading.values, reading.quality, self._limits[uuid])
            epoch = self._epochs.setdefault(uuid, Epoch())
            back = epoch.follow(reading.values, boot_id=poll.boot_id, driver_version=poll.driver_version)
            reading.quality.update(dict.fromkeys(back, "went_back"))
        fresh = [code for code in reading.hard_codes if (uuid, code) not in self._hard]
        self._hard.update((uuid, code) for code in fresh)
        return [
            sample(poll, reading, epoch=self._number(reading.seat)),
            *links(poll, reading),
            *(hard_event(poll, reading.seat, code) for code in fresh),
        ]

    def _state_of(self, answer: Answer) -> tuple[str, str | None]:
        if not answer.readings and self._inventory.gpus:
            return "empty", "no GPU is listed"
        if not self._listening.is_up:
            return "events_down", self._listening.detail
        return "ok", None

    def _state_rows(self, state: tuple[str, str | None], at_ns: int, expected: int, seen: int) -> list[SourceState]:
        """Say the state when it has changed, and once per hour."""
        name, detail = state
        key = f"{name} {seen}"
        if self._said is not None and self._said[0] == key and at_ns - self._said[1] < STATE_EVERY_NS:
            return []
        self._said = key, at_ns
        poll = self._poll("hot", at_ns, self._clock.now_ns())
        return [SourceState(**poll.common(), state=name, detail=detail, expected=expected, seen=seen)]


def _all(tier: str, code: str) -> dict[str, str]:
    return dict.fromkeys(columns_of_tier(tier), code)


def _lost(seat: Seat, tier: str) -> Reading:
    return Reading(seat, "lost", None, {}, _all(tier, "lost"))


__all__ = ["SOURCE", "Node"]
