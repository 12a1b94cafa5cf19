"""What the lake already holds of every origin: how the writer knows a message that a killed collector sent twice.

A mark is the highest `seq` of an (origin, node) in a table. An origin's messages about a node arrive in order, so a message at or below the
mark is in the lake already. A message that is there has its rows in the partitions of their own dates: the marks of those dates,
read once each and only when a row of that date comes, are enough to know it, however late the row is.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ingest.clock import NS
from ingest.lake import Lake
from ingest.messages import Message
from ingest.tables import Table

_DAY_NS = 86_400 * NS
_MARKS = "select origin, node, max(seq) from {table} where origin is not null group by origin, node"


class Marks:
    """The marks of one table, by origin and node."""

    def __init__(self, lake: Lake, table: Table) -> None:
        self._lake = lake
        self._table = table
        self._days: set[int] = set()
        self._highest: dict[tuple[str, str], int] = {}

    def pass_new(self, message: Message) -> bool:
        """Say whether a message is new, and from then on know it."""
        for day in {row.observed_at_ns // _DAY_NS for row in message.rows} - self._days:
            self._read(day)
        key = (message.origin, message.node)
        if message.seq <= self._highest.get(key, -1):
            return False
        self._highest[key] = message.seq
        return True

    def forget(self) -> None:
        """Read everything again: another writer may have written meanwhile, or what was passed was not written."""
        self._days.clear()
        self._highest.clear()

    def _read(self, day: int) -> None:
        date = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day)
        with self._lake.reading() as connection:
            self._lake.attach(connection, self._table, since=date, until=date)
            for origin, node, seq in connection.execute(_MARKS.format(table=self._table.name)).fetchall():
                self._highest[origin, node] = max(seq, self._highest.get((origin, node), -1))
        self._days.add(day)
