"""The collector as a process of its own: sources to spool to Kafka.

SIGTERM ends the polls, lets the sources say their last, gives the bus its time and exits with 0, all within `STOP_S`; what the broker
did not take stays in the spool. SIGHUP reads the configuration again.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING

import structlog

from forewarn import compose, health
from forewarn.settings import Config
from forewarn.systemd import notify
from ingest.clock import Clock
from ingest.errors import ConfigError

if TYPE_CHECKING:
    from forewarn.reloading import Reloading
    from forewarn.vitals import Check
    from ingest.collector import Collector
    from ingest.spool import Spool

STOP_S = 25.0  # of the 30 s that systemd and Kubernetes give
_log = structlog.get_logger()


def run_collect(config: Config, clock: Clock, stop: threading.Event, *, hangup: threading.Event, reread: Callable[[], Config]) -> None:
    """Collect until `stop` is set; `hangup` asks to read the configuration again through `reread`."""
    from forewarn.reloading import Reloading  # noqa: PLC0415
    from forewarn.sources import Sources  # noqa: PLC0415

    if config.bus.kind != "kafka":
        raise ConfigError(
            "bus.kind = 'direct': forewarn up reads and writes on one machine; set bus.kind = 'kafka' for a collector of its own"
        )
    spool = compose.spool_of(config)
    try:
        sources = Sources(clock)
        collector = compose.collector_of(config, clock, spool, compose.publisher_of(config), sources=sources)
        with vitals_of(collector, spool, config):
            threading.Thread(target=_leave_at_last, args=(stop,), daemon=True).start()
            asyncio.run(follow(collector, stop, Reloading(config, sources=sources, reread=reread, hangup=hangup)))
    finally:
        spool.close()


def _begin_to_stop(stopping: asyncio.Event) -> None:
    _log.info("stopping", within_s=STOP_S)
    notify("STOPPING=1")
    stopping.set()


def vitals_of(collector: Collector, spool: Spool, config: Config, **alive: Check) -> AbstractContextManager[object]:
    """Serve what a process with a collector says of itself, where it is configured."""
    checks = {
        "sources": partial(health.collector_reads, collector),
        "spool": partial(health.spool_takes, spool, config.collect.spool_max_mb << 20),
    }
    return health.vitals_of(
        config.collect, "collect", alive={"collector": partial(health.collector_turns, collector), **alive}, ready=checks
    )


async def follow(collector: Collector, stop: threading.Event, reloading: Reloading | None = None) -> None:
    """Run a collector until `stop` is set by a signal or another thread."""
    stopping = asyncio.Event()
    watching = asyncio.create_task(asyncio.to_thread(stop.wait))
    watching.add_done_callback(lambda _: _begin_to_stop(stopping))
    reload = asyncio.create_task(reloading.follow(collector)) if reloading else None
    notify("READY=1")
    try:
        await collector.run(stopping)
    finally:
        stop.set()
        if reload:
            reload.cancel()
            with suppress(asyncio.CancelledError):
                await reload


def _leave_at_last(stop: threading.Event) -> None:
    """End the process when a source or the bus cannot be ended in time; the spool keeps what was not sent."""
    stop.wait()
    threading.Event().wait(STOP_S)
    _log.error("left_by_force", after_s=STOP_S)
    os._exit(0)
