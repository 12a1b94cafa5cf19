"""The bounded queue between a BMC's tasks and the collector: when it is full, the stream is no longer read."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from ingest.schema import Observed

MOST_BATCHES = 8
MOST_BYTES = 16 * 1024 * 1024
JOINED_ROWS = 64
FLOODED_DRAINS = 6


class Outbox:
    """What one BMC has said and the collector has not yet taken; counts batches and the bytes that they came in."""

    def __init__(self, *, most_batches: int = MOST_BATCHES, most_bytes: int = MOST_BYTES) -> None:
        self._most_batches = most_batches
        self._most_bytes = most_bytes
        self._batches: deque[Sequence[Observed]] = deque()
        self._bytes = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._notes: list[Observed] = []
        self._joined: list[Observed] | None = None  # the last batch, where more may join it
        self._full_drains = 0
        self.paused_s = 0.0

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def is_flooded(self) -> bool:
        """Tell whether the queue was full at each of the last drains: more comes than is taken, and the BMC has to hold or drop it."""
        return self._full_drains >= FLOODED_DRAINS

    async def put(self, batch: Sequence[Observed], size: int, *, joins: bool = False) -> None:
        """Queue a batch, where it `joins` as part of the one before; waits while the queue is full."""
        if not batch:
            return
        if not self._has_room.is_set():
            loop = asyncio.get_running_loop()
            since_s = loop.time()
            await self._has_room.wait()
            self.paused_s += loop.time() - since_s
        if joins and self._joined is not None and len(self._joined) < JOINED_ROWS:
            self._joined += batch
        else:
            self._joined = list(batch) if joins else None
            self._batches.append(batch if self._joined is None else self._joined)
        self._bytes += size
        if len(self._batches) >= self._most_batches or self._bytes >= self._most_bytes:
            self._has_room.clear()

    def note(self, row: Observed) -> None:
        """Queue a row about the source itself; it is small and never waits."""
        self._notes.append(row)

    def take(self) -> list[Observed]:
        """Hand everything over and make room."""
        self._full_drains = 0 if self._has_room.is_set() else self._full_drains + 1
        taken = self._notes + [row for batch in self._batches for row in batch]
        self._notes, self._joined = [], None
        self._batches.clear()
        self._bytes = 0
        self._has_room.set()
        return taken
