"""One SQLite file with write-ahead log and full synchronisation: what a transaction wrote survives kill -9 and power loss.

Several threads share one connection under a lock; several processes share the file, each write transaction taking it at once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from threading import RLock
from typing import Any

from ingest.errors import ForewarnError

VERSION = 1


class LedgerUnreadable(ForewarnError):
    """The ledger was written by a newer version, or is no ledger."""


class Database:
    """The ledger's tables; queries return plain tuples."""

    def __init__(self, path: str | Path) -> None:
        self._lock = RLock()
        try:
            self._connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        except sqlite3.OperationalError as error:
            raise LedgerUnreadable(f"{path} cannot be opened ({error}): mend the permissions of its folder") from error
        try:
            self._prepare()
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise LedgerUnreadable(f"{path} is no ledger: {error}") from error

    def _prepare(self) -> None:
        self._connection.execute("pragma journal_mode = wal")
        self._connection.execute("pragma synchronous = full")
        found = self._connection.execute("pragma user_version").fetchone()[0]
        if found > VERSION:
            self._connection.close()
            raise LedgerUnreadable(f"the ledger has version {found}, this code knows {VERSION}: upgrade forewarn")
        self._connection.executescript(resources.files("alerting").joinpath("sql", "ledger.sql").read_text())
        if found < VERSION:
            self._connection.execute(f"pragma user_version = {VERSION}")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Take the write lock, commit at the end, roll back on any exception."""
        with self._lock:
            self._connection.execute("begin immediate")
            try:
                yield self._connection
                self._connection.execute("commit")
            except BaseException:
                if self._connection.in_transaction:  # a full disk may have rolled it back already, or have refused the commit
                    self._connection.execute("rollback")
                raise

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one reading statement."""
        with self._lock:
            return self._connection.execute(sql, parameters).fetchall()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()
