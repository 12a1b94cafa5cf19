"""NVML of one node as a source: a supervisor that never calls NVML itself, and the worker process that does.

What goes wrong stays where it belongs. A hung GPU costs itself its row (deadlines in the worker); a crash or a hang of the whole worker
costs the GPU that was being read its row (`supervisor`); a library that cannot be used is a source state and says nothing about
hardware (`node`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ingest.clock import NS, Clock
from ingest.nvml.node import Node
from ingest.nvml.rows import SOURCE
from ingest.nvml.signals import COLD, DAILY, HOT, TIERS, WARM
from ingest.nvml.supervisor import HELLO_WAIT_S, Supervisor
from ingest.schema import Observed
from ingest.source import Pace

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
DAY_S = 86_400.0
EVENTS_INTERVAL_S = 0.5
_LINKS = "links"
_SLACK_NS = NS // 2  # a poll that comes a little early is still the one meant


class NvmlSource:
    """Polls the GPUs of one node through NVML: hot values every time, the slower tiers and the links when they are due.

    `memory_path` is a file that outlasts restarts and boots; without it a GPU that was never seen by this process is not expected.
    Without `keeps_memory` the file is read and stays as it is.
    """

    name = SOURCE
    pace = Pace.FLEET
    unheard = ()

    def __init__(
        self,
        node: str,
        *,
        clock: Clock,
        interval_s: float = 10.0,
        warm_interval_s: float = 60.0,
        cold_interval_s: float = 3600.0,
        link_interval_s: float = 60.0,
        deadline_s: float = 2.0,
        start_wait_s: float = HELLO_WAIT_S,
        environment: Mapping[str, str] | None = None,
        boot_id_path: Path = BOOT_ID,
        memory_path: Path | None = None,
        keeps_memory: bool = True,
        seed: int = 0,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.interval_s = interval_s
        self._node = Node(node, clock, memory_path, keeps_memory=keeps_memory)
        self._intervals_s = {WARM: warm_interval_s, COLD: cold_interval_s, DAILY: DAY_S, _LINKS: link_interval_s}
        self._last_ns: dict[str, int] = {}
        self._boot_id_path = boot_id_path
        self._supervisor = Supervisor(
            {**os.environ, **(environment or {})},
            self._node.hear,
            deadline_s=deadline_s,
            seed=seed,
            hello_wait_s=start_wait_s,
            monotonic_s=monotonic_s,
        )

    async def open(self) -> None:
        """Start the worker."""
        self._supervisor.start()

    async def read(self, at_ns: int) -> list[Observed]:
        """Poll every GPU; what cannot be said is a quality code or a source state."""
        self._note_boot()
        tier = next((tier for tier in (DAILY, COLD, WARM) if self._is_due(tier, at_ns)), HOT)
        with_links = self._is_due(_LINKS, at_ns)
        answer = await self._supervisor.poll(tier, with_links)
        if answer is None:
            return self._node.silent(self._supervisor.state, tier, at_ns)
        self._last_ns.update({name: at_ns for name, rank in TIERS.items() if rank <= TIERS[tier]})
        if with_links:
            self._last_ns[_LINKS] = at_ns
        records = self._node.rows(answer, tier, at_ns)
        if self._node.has_restarted:
            self._last_ns.pop(COLD, None)
        return records

    def _note_boot(self) -> None:
        boot_id = _read_line(self._boot_id_path)
        if boot_id != self._node.boot_id:
            self._node.boot_id = boot_id
            self._supervisor.forgive()

    def _is_due(self, what: str, at_ns: int) -> bool:
        last_ns = self._last_ns.get(what)
        return last_ns is None or at_ns - last_ns >= self._intervals_s[what] * NS - _SLACK_NS

    def events(self) -> NvmlEvents:
        """Give the events as a source of their own, for whoever wants them sooner than the next poll."""
        return NvmlEvents(self._node)

    async def close(self) -> None:
        """Stop the worker."""
        await self._supervisor.stop()
        self._node.remember()


class NvmlEvents:
    """The events that an `NvmlSource` has heard since they were last taken; its worker is the one that listens."""

    name = "nvml_events"
    pace = Pace.WALL
    unheard = ()
    interval_s = EVENTS_INTERVAL_S

    def __init__(self, node: Node) -> None:
        self._node = node

    async def open(self) -> None:
        """Do nothing: the worker belongs to the poll."""

    async def read(self, at_ns: int) -> list[Observed]:  # noqa: ARG002  # events carry the time at which they were heard
        """Give what was heard."""
        return list(self._node.take_events())

    async def close(self) -> None:
        """Do nothing."""


def _read_line(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except OSError:
        return None
