"""Every stage in one process on one machine: collect, write, analyse, alert, deliver and answer.

SIGKILL at any moment loses nothing that was acknowledged: the spool is on disk, the lake commits before the spool is released, and the
ledger holds every decision with what is still to be delivered.
"""

from __future__ import annotations

import asyncio
import threading

import structlog
from prometheus_client import Counter

from forewarn import compose
from forewarn.analysis import Analysis
from forewarn.collecting import follow
from forewarn.settings import Config
from ingest.clock import NS, Clock, datetime_of
from ingest.lake import Lake

ANALYSIS_FAILURES = Counter("forewarn_analysis_failures", "Analysis passes that failed and were tried again", ["error"])
_log = structlog.get_logger()


def run_up(config: Config, clock: Clock, stop: threading.Event) -> None:
    """Run every stage until `stop` is set: the collector leaves first, then the writer, then those who read the lake."""
    lake = compose.lake_of(config)
    spool = compose.spool_of(config)
    subscriber, publisher = compose.bus_of(config, spool)
    collector = compose.collector_of(config, clock, spool, publisher)
    writer = compose.writer_of(config, lake, subscriber)
    alerting = compose.alerting_of(config, lake, clock)
    writing, reading = threading.Event(), threading.Event()
    write = threading.Thread(target=writer.run, args=(writing,), name="write")
    read = [
        threading.Thread(target=_analyse, args=(config, lake, clock, reading), name="analyse"),
        threading.Thread(target=alerting.run, args=(reading,), name="alert"),
    ]
    for thread in (write, *read):
        thread.start()
    try:
        asyncio.run(follow(collector, stop))
    finally:
        writing.set()
        write.join()
        reading.set()
        for thread in read:
            thread.join()
        spool.close()


def _analyse(config: Config, lake: Lake, clock: Clock, stop: threading.Event) -> None:
    with Analysis(config, lake) as analysis:
        analyse(analysis, config.score.every_s, clock, stop)


def analyse(analysis: Analysis, every_s: float, clock: Clock, stop: threading.Event) -> None:
    """Analyse at every multiple of `every_s` in fleet time until `stop` is set; a pass that fails is counted and the next one tries."""
    every_ns = int(every_s * NS)
    due_ns = clock.now_ns()
    while not stop.is_set():
        if clock.now_ns() < due_ns:
            stop.wait(0.05)
            continue
        try:
            analysis.catch_up(datetime_of(clock.now_ns()))
        except Exception as error:  # noqa: BLE001  # one pass that fails must not end the process
            ANALYSIS_FAILURES.labels(type(error).__name__).inc()
            _log.exception("analysis_failed", error=type(error).__name__)
        due_ns = (clock.now_ns() // every_ns + 1) * every_ns
