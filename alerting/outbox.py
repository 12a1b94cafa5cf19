"""Events still to be sent, per endpoint: in order within a key, until they expire, across restarts.

pending ──2xx──► done, forgotten after a month
   ├──── permanent answer, endpoint gone, expired ──► dead
   └──── anything else ──► pending, later
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from alerting.database import Database

_DONE_KEPT_NS = 30 * 86_400 * 1_000_000_000  # what was said stays in the ledger's revisions; this is how it was delivered


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """The oldest pending event of its key."""

    seq: int
    id: str
    key: str
    body: bytes
    expires_ns: int
    attempts: int


class Outbox:
    """The outbox of one endpoint."""

    def __init__(self, database: Database, endpoint: str) -> None:
        self._database = database
        self.endpoint = endpoint

    def due(self, wall_ns: int, limit: int) -> list[Parcel]:
        """List the heads of their keys whose time has come, oldest first."""
        sql = "select seq, id, key, body, expires_ns, attempts from outbox where next_wall_ns <= ? and seq in "
        sql += "(select min(seq) from outbox where endpoint = ? and state = 'pending' group by key) order by seq limit ?"
        rows = self._database.query(sql, (wall_ns, self.endpoint, limit))
        return [Parcel(seq=seq, id=id_, key=key, body=body, expires_ns=exp, attempts=n) for seq, id_, key, body, exp, n in rows]

    def expired(self, fleet_ns: int) -> list[Parcel]:
        """List pending events that are not worth sending any more."""
        sql = "select seq, id, key, body, expires_ns, attempts from outbox where endpoint = ? and state = 'pending' and expires_ns <= ?"
        rows = self._database.query(sql, (self.endpoint, fleet_ns))
        return [Parcel(seq=seq, id=id_, key=key, body=body, expires_ns=exp, attempts=n) for seq, id_, key, body, exp, n in rows]

    def done(self, parcel: Parcel, answer: str, wall_ns: int) -> None:
        """Note that the consumer has stored the event, and forget those that it stored a month ago."""
        with self._database.transaction() as connection:
            _end(connection, parcel, "done", answer)
            sql = "delete from outbox where endpoint = ? and state = 'done' and created_wall_ns < ?"
            connection.execute(sql, (self.endpoint, wall_ns - _DONE_KEPT_NS))

    def dead(self, parcel: Parcel, why: str) -> None:
        """Give an event up; it stays in the ledger for a person to read."""
        with self._database.transaction() as connection:
            _end(connection, parcel, "dead", why)

    def retry(self, parcel: Parcel, why: str, next_wall_ns: int) -> None:
        """Try again later."""
        sql = "update outbox set attempts = attempts + 1, next_wall_ns = ?, last = ? where seq = ?"
        with self._database.transaction() as connection:
            connection.execute(sql, (next_wall_ns, why, parcel.seq))

    def disable(self, because: str, wall_ns: int) -> int:
        """Stop sending to this endpoint until it is enabled again, and give up what is pending; give how many that were."""
        with self._database.transaction() as connection:
            connection.execute("insert or ignore into disabled_endpoints values (?, ?, ?)", (self.endpoint, because, wall_ns))
            sql = "update outbox set state = 'dead', last = ? where endpoint = ? and state = 'pending'"
            return connection.execute(sql, (because, self.endpoint)).rowcount

    def enable(self) -> None:
        """Send to this endpoint again, from the next event on."""
        with self._database.transaction() as connection:
            connection.execute("delete from disabled_endpoints where endpoint = ?", (self.endpoint,))

    @property
    def is_disabled(self) -> bool:
        """Claims that the endpoint is gone."""
        return bool(self._database.query("select 1 from disabled_endpoints where endpoint = ?", (self.endpoint,)))

    def counts(self) -> dict[str, int]:
        """Count events by state."""
        return dict(self._database.query("select state, count(*) from outbox where endpoint = ? group by state", (self.endpoint,)))

    def oldest_wall_ns(self) -> int | None:
        """Tell when the oldest pending event was written."""
        sql = "select min(created_wall_ns) from outbox where endpoint = ? and state = 'pending'"
        oldest: int | None = self._database.query(sql, (self.endpoint,))[0][0]
        return oldest


def _end(connection: sqlite3.Connection, parcel: Parcel, state: str, last: str) -> None:
    connection.execute("update outbox set state = ?, attempts = attempts + 1, last = ? where seq = ?", (state, last, parcel.seq))
