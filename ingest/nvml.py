"""NVML of one node as a source: a supervisor that never calls NVML itself, and the worker process that does.

What goes wrong stays where it belongs. A hung GPU costs itself its row (deadlines in the worker); a crash or a hang of the whole worker
costs the GPU that was being read its row (`nvml_supervisor`); a library that cannot be used is a source state and says nothing about
hardware (`nvml_node`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ingest.clock import NS, Clock
from ingest.nvml_node import SOURCE, Node
from ingest.nvml_signals import COLD, HOT, WARM
from ingest.nvml_supervisor import Supervisor
from ingest.schema import Observed
from ingest.source import Pace

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SLACK_NS = NS // 2  # a poll that comes a little early is still the one meant


class NvmlSource:
    """Polls the GPUs of one node through NVML: hot values every time, the slower tiers and the links when they are due."""

    name = SOURCE
    pace = Pace.FLEET

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
        environment: Mapping[str, str] | None = None,
        boot_id_path: Path = BOOT_ID,
        seed: int = 0,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.interval_s = interval_s
        self.node = Node(node, clock)
        self._intervals_s = {WARM: warm_interval_s, COLD: cold_interval_s, "links": link_interval_s}
        self._last_ns: dict[str, int] = {}
        self._boot_id_path = boot_id_path
        self._supervisor = Supervisor(
            {**os.environ, **(environment or {})}, self.node.hear, deadline_s=deadline_s, seed=seed, monotonic_s=monotonic_s
        )

    async def open(self) -> None:
        """Start the worker."""
        self._supervisor.start()

    async def read(self, at_ns: int) -> list[Observed]:
        """Poll every GPU; what cannot be said is a quality code or a source state."""
        self.node.boot_id = _read_line(self._boot_id_path)
        tier = COLD if self._is_due(COLD, at_ns) else WARM if self._is_due(WARM, at_ns) else HOT
        with_links = self._is_due("links", at_ns)
        answer = await self._supervisor.poll(tier, with_links)
        if answer is None:
            silence = self.node.silent(self._supervisor.state, at_ns)
            return [*silence, *self.node.timeouts(tier, at_ns)] if self._supervisor.state == "hung" else silence
        taken = {COLD: (COLD, WARM), WARM: (WARM,), HOT: ()}[tier] + (("links",) if with_links else ())
        self._last_ns.update(dict.fromkeys(taken, at_ns))
        return self.node.rows(answer, tier, at_ns)

    def _is_due(self, what: str, at_ns: int) -> bool:
        last_ns = self._last_ns.get(what)
        return last_ns is None or at_ns - last_ns >= self._intervals_s[what] * NS - _SLACK_NS

    async def close(self) -> None:
        """Stop the worker."""
        await self._supervisor.stop()


def _read_line(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except OSError:
        return None
