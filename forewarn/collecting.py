"""The collector as a process of its own: sources to spool to Kafka."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from forewarn import compose
from forewarn.settings import Config
from ingest.clock import Clock
from ingest.errors import ConfigError

if TYPE_CHECKING:
    from ingest.collector import Collector


def run_collect(config: Config, clock: Clock, stop: threading.Event) -> None:
    """Collect until `stop` is set; what the broker did not take stays in the spool."""
    if config.bus.kind != "kafka":
        raise ConfigError(
            "bus.kind = 'direct': forewarn up reads and writes on one machine; set bus.kind = 'kafka' for a collector of its own"
        )
    spool = compose.spool_of(config)
    try:
        asyncio.run(follow(compose.collector_of(config, clock, spool, compose.publisher_of(config)), stop))
    finally:
        spool.close()


async def follow(collector: Collector, stop: threading.Event) -> None:
    """Run a collector until `stop` is set by a signal or another thread."""
    stopping = asyncio.Event()
    watching = asyncio.create_task(asyncio.to_thread(stop.wait))
    watching.add_done_callback(lambda _: stopping.set())
    await collector.run(stopping)
