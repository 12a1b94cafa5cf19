"""What every source of telemetry promises to the collector.

`read` drains what the source has to say as of fleet time `at_ns`, as records of `ingest.schema`. It never raises for a device: a lost
GPU is a record, a node that does not answer is a `source_states` row; `SourceUnavailable` is for a source that has nothing at all
to say about anybody. A source that reads many nodes lets none of them delay the others.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Protocol

from ingest.schema import Observed


class Pace(StrEnum):
    """Which clock rules when a source is read."""

    FLEET = "fleet"  # polls: aligned to multiples of the interval in fleet time, plus jitter
    WALL = "wall"  # drains of streams: events must leave within a second of being read


class Source(Protocol):
    """One way to read telemetry of one or many nodes."""

    @property
    def name(self) -> str:
        """Name in metrics and in the `source` column."""

    @property
    def interval_s(self) -> float:
        """Seconds between reads, of the clock that `pace` names."""

    @property
    def pace(self) -> Pace:
        """Clock that rules the reads."""

    @property
    def unheard(self) -> Collection[str]:
        """Nodes of which nothing is known yet, good or bad, because they are still being asked; empty where every `read` asks by itself."""

    async def open(self) -> None:
        """Start children and streams; returns without waiting for devices."""

    async def read(self, at_ns: int) -> list[Observed]:
        """Say what is known as of fleet time `at_ns` and was not said before."""

    async def close(self) -> None:
        """Stop children and streams; nothing that was read is lost."""
