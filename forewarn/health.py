"""What collector and writer say of themselves: which of their loops turn, and whether they can do their work."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from forewarn.settings import CollectSection, WriteSection
from forewarn.vitals import Check, Finding, Vitals

if TYPE_CHECKING:
    from ingest.collector import Collector
    from ingest.spool import Spool
    from ingest.writer import Writer

COLLECTOR_PATIENCE_S = 15.0  # its loop beats every second
WRITER_PATIENCE_S = 300.0  # a pass that fails waits up to 30 s, and a commit to an object store may take long
_FULL = 0.99


def vitals_of(
    section: CollectSection | WriteSection, name: str, *, alive: Mapping[str, Check], ready: Mapping[str, Check]
) -> AbstractContextManager[object]:
    """Serve the checks where the section says, if it does."""
    if not section.metrics_port:
        return nullcontext()
    return Vitals(section.metrics_host, section.metrics_port, section=name, alive=alive, ready=ready)


def turns(turned_at_s: float, patience_s: float) -> Finding:
    """Tell whether a loop that last turned then (monotonic seconds) still does."""
    age_s = time.monotonic() - turned_at_s
    return Finding(age_s <= patience_s, "ok" if age_s <= patience_s else f"has not turned for {age_s:.0f} s")


def collector_turns(collector: Collector) -> Finding:
    """Tell whether the loop that reads all sources turns."""
    return turns(collector.turned_at_s, COLLECTOR_PATIENCE_S)


def collector_reads(collector: Collector) -> Finding:
    """Tell whether any source has been read, with the state of each; one source that fails is no obstacle for the others."""
    states = ", ".join(f"{name} {health.state}" for name, health in collector.health.items())
    return Finding(any(health.last_success_at_ns for health in collector.health.values()), states)


def spool_takes(spool: Spool, max_bytes: int) -> Finding:
    """Tell whether the spool takes samples; a bus that is away is no obstacle until it is full."""
    size = spool.size_bytes
    return Finding(size < _FULL * max_bytes, f"{size / 2**20:.1f} of {max_bytes >> 20} MiB")


def writer_turns(writer: Writer) -> Finding:
    """Tell whether the writer's loop turns."""
    return turns(writer.turned_at_s, WRITER_PATIENCE_S)


def writer_writes(writer: Writer) -> Finding:
    """Tell whether the writer has joined the bus and its last pass was good."""
    return Finding(writer.is_sound, "ok" if writer.is_sound else "not joined, or the last pass failed")
