"""How far a writer is behind, and whether messages wait while it has nothing to read: numbers, and a log line when somebody should look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog
from kafka import TopicPartition

from ingest.kafka_admin import TopicState
from ingest.metrics import BUS_IDLE_LAG, BUS_LAG, BUS_OLDEST_AGE, BUS_PARTITIONS

_log = structlog.get_logger()


class Lag:
    """What one member of the group of writers has still to read; `tables` names the table of each topic."""

    def __init__(self, tables: Mapping[str, str], group: str) -> None:
        self._tables = tables
        self._group = group
        self._read_ms: dict[TopicPartition, int] = {}
        self._waiting: int | None = None
        self._owed: dict[TopicPartition, int] = {}

    def note(self, found: Mapping[TopicPartition, Sequence[Any]]) -> None:
        """Remember how old the newest message is that was read of each partition."""
        self._read_ms.update({partition: records[-1].timestamp for partition, records in found.items() if records})
        if found:
            self._owed = {}

    def measure(
        self, positions: Mapping[TopicPartition, int], end: Callable[[TopicPartition], int | None], *, held: int, now_ms: int
    ) -> None:
        """Set lag, partitions and age: the age of the last message read of the partition that is furthest behind, 0 without lag."""
        lag, ages = Counter(dict.fromkeys(self._tables.values(), 0)), [0.0]
        for partition, position in positions.items():
            behind = max(0, (end(partition) or 0) - position)
            lag[self._tables[partition.topic]] += behind
            if behind and partition in self._read_ms:
                ages.append((now_ms - self._read_ms[partition]) / 1000)
        for table, count in lag.items():
            BUS_LAG.labels(table).set(count)
        BUS_OLDEST_AGE.set(max(ages))
        BUS_PARTITIONS.set(held)
        if held:
            BUS_IDLE_LAG.set(0)
            self._waiting = None

    def idle(self, states: Sequence[TopicState]) -> list[str]:
        """Look at the topics while this member holds no partition, and give those that have no reader for some of theirs.

        A spare member beside enough others is as it should be; that what waits grows from one look to the next is not.
        """
        waiting = sum(state.lag for state in states)
        orphaned = [state.topic for state in states if state.owned < state.partitions]
        grows = self._waiting is not None and waiting > self._waiting
        self._waiting = waiting
        BUS_IDLE_LAG.set(waiting)
        if orphaned:
            _log.error("writer_without_partitions", group=self._group, topics=orphaned, lag=waiting)
        elif grows:
            _log.error("writer_idle_while_lag_grows", group=self._group, lag=waiting)
        return orphaned

    def stuck(self, positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[str]:
        """Look at the ends of the partitions that this member holds while nothing comes, and give those topics that had more last time."""
        owed, self._owed = self._owed, dict(ends)
        behind = {partition: end for partition, end in owed.items() if partition in ends and positions.get(partition, 0) < end}
        if behind:
            lag = sum(ends[partition] - positions.get(partition, 0) for partition in behind)
            _log.error("writer_reads_nothing", group=self._group, partitions=len(behind), lag=lag)
        return sorted({partition.topic for partition in behind})
