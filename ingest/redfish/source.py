"""All BMCs of a collector as one source: a task per BMC, none of which delays another, drained by `read`."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from ingest.clock import Clock
from ingest.metrics import REDFISH_PAUSED_SECONDS, REDFISH_QUEUED, REDFISH_REPORTS
from ingest.redfish.mode import Mode
from ingest.redfish.stream import FILTERS
from ingest.redfish.target import RedfishTarget
from ingest.redfish.watch import BmcWatch, Patience
from ingest.schema import Observed
from ingest.source import Pace
from ingest.xid import catalogue_of

MOST_CONNECTING = 20  # a TLS handshake costs 3 ms of a core


class RedfishSource:
    """BMCs by node; the node's name is the configuration's, whatever a BMC calls itself.

    `poll_interval_s` is the least fleet time between two reads of a report that is polled; most kinds of reports are read less often.
    `interval_s` is the wall time between drains, `catalogue` the site's own XID catalogue. A BMC belongs to one process: for more than a
    thousand, run several with disjoint targets.
    """

    name = "redfish"
    pace = Pace.WALL

    def __init__(
        self,
        targets: Mapping[str, RedfishTarget],
        *,
        clock: Clock,
        poll_interval_s: float = 10.0,
        interval_s: float = 0.5,
        seed: int = 0,
        patience: Patience | None = None,
        filters: tuple[str, ...] = FILTERS,
        catalogue: Path | None = None,
    ) -> None:
        self.interval_s = interval_s
        self._targets = dict(targets)
        self._clock = clock
        self._seed = seed
        self._patience = patience or Patience(poll_s=poll_interval_s)
        self._filters = filters
        self._catalogue = catalogue_of(catalogue)
        self._watches: list[BmcWatch] = []
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def unheard(self) -> list[str]:
        """BMCs that were not asked for everything yet, nor found to be beyond reach."""
        return [watch.node for watch in self._watches if not watch.is_heard]

    async def open(self) -> None:
        """Start watching every BMC; returns without waiting for any."""
        connecting = asyncio.Semaphore(MOST_CONNECTING)
        for node, target in self._targets.items():
            watch = BmcWatch(
                node,
                target,
                clock=self._clock,
                connecting=connecting,
                rng=random.Random(f"{self._seed} {node}"),  # noqa: S311  # spreads load, guards nothing
                patience=self._patience,
                filters=self._filters,
                catalogue=self._catalogue,
            )
            self._watches.append(watch)
            self._tasks.append(asyncio.create_task(watch.run(), name=f"redfish {node}"))

    async def read(self, at_ns: int) -> list[Observed]:
        """Take what the BMCs have said since the last read, with their states."""
        rows: list[Observed] = []
        modes: Counter[Mode] = Counter()
        queued = 0
        for watch in self._watches:
            watch.review()
            watch.line.repeat(at_ns)
            modes.update(watch.modes())
            queued += len(watch.outbox)
            rows += watch.outbox.take()
        for mode in Mode:
            REDFISH_REPORTS.labels(str(mode)).set(modes[mode])
        REDFISH_QUEUED.set(queued)
        REDFISH_PAUSED_SECONDS.set(sum(watch.outbox.paused_s for watch in self._watches))
        return rows

    async def close(self) -> None:
        """Stop watching and give the sessions back; what was read stays in the outboxes for a last `read`."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await asyncio.gather(*(watch.close() for watch in self._watches))
