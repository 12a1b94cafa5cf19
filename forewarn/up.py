"""Every stage in one process on one machine: collect, write, analyse, alert, deliver and answer.

SIGKILL at any moment loses nothing that was acknowledged: the spool is on disk, the lake commits before the spool is released, and the
ledger holds every decision with what is still to be delivered.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial

from forewarn import compose, health
from forewarn.analysis import Analysis
from forewarn.collecting import follow, vitals_of
from forewarn.reloading import Reloading
from forewarn.settings import Config
from forewarn.sources import Sources
from forewarn.vitals import Finding
from ingest.clock import Clock
from ingest.lake import Lake


def run_up(config: Config, clock: Clock, stop: threading.Event, *, hangup: threading.Event, reread: Callable[[], Config]) -> None:
    """Run every stage until `stop` is set: the collector leaves first, then the writer, then those who read the lake.

    `hangup` asks to read the configuration of the sources again through `reread`.
    """
    lake = compose.lake_of(config)
    spool = compose.spool_of(config)
    subscriber, publisher = compose.bus_of(config, spool)
    sources = Sources(clock)
    collector = compose.collector_of(config, clock, spool, publisher, sources=sources)
    writer = compose.writer_of(config, lake, subscriber)
    alerting = compose.alerting_of(config, lake, clock)
    writing, reading = threading.Event(), threading.Event()
    write = threading.Thread(target=writer.run, args=(writing,), name="write")
    read = [
        threading.Thread(target=_analyse, args=(config, lake, clock, reading), name="analyse"),
        threading.Thread(target=alerting.run, args=(reading,), name="alert"),
    ]
    reloading = Reloading(config, sources=sources, reread=reread, hangup=hangup)
    loops = {thread.name: partial(_runs, thread) for thread in (write, *read)}
    vitals = vitals_of(collector, spool, config, writer=partial(health.writer_turns, writer), **loops)
    for thread in (write, *read):
        thread.start()
    try:
        with vitals:
            asyncio.run(follow(collector, stop, reloading))
    finally:
        writing.set()
        write.join()
        reading.set()
        for thread in read:
            thread.join()
        spool.close()


def _runs(thread: threading.Thread) -> Finding:
    return Finding(thread.is_alive(), "ok" if thread.is_alive() else "has ended")


def _analyse(config: Config, lake: Lake, clock: Clock, stop: threading.Event) -> None:
    with Analysis(config, lake) as analysis:
        analysis.run(clock, stop)
