"""The door to DuckDB: a connection that knows the shared words, and the queries of `features/sql` by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any

import duckdb

Connection = duckdb.DuckDBPyConnection
_PARAMETER = re.compile(r"\$([a-z_][a-z0-9_]*)")


@contextmanager
def connect(threads: int | None = None, memory_limit: str = "1GB") -> Iterator[Connection]:
    """Open an engine in memory; one thread makes sums come out the same in every run."""
    with duckdb.connect(config={"memory_limit": memory_limit}) as connection:
        connection.execute("set timezone = 'UTC'; set preserve_insertion_order = false; set enable_progress_bar = false")
        if threads:
            connection.execute(f"set threads = {threads}")
        connection.execute(query("macros"))
        yield connection


@cache
def query(name: str) -> str:
    """Read a query of `features/sql`."""
    return (files("features") / "sql" / f"{name}.sql").read_text(encoding="utf-8")


def make_table(connection: Connection, name: str, parameters: Mapping[str, Any] | None = None, *, source: str | None = None) -> None:
    """Make the temporary table `name` from the query of that name (or of the name `source`); it takes the parameters it names."""
    text = query(source or name)
    connection.execute(f"create or replace temp table {name} as {text}", _named_in(text, parameters or {}))


def run(connection: Connection, name: str, parameters: Mapping[str, Any] | None = None) -> Connection:
    """Run a query of `features/sql` and give the connection with its result pending."""
    text = query(name)
    return connection.execute(text, _named_in(text, parameters or {}))


def value(connection: Connection, sql: str, parameters: Mapping[str, Any] | None = None) -> Any:
    """Ask for one value."""
    return connection.execute(sql, dict(parameters or {})).fetchall()[0][0]


def _named_in(text: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    code = "\n".join(line.partition("--")[0] for line in text.splitlines())
    return {name: parameters[name] for name in sorted(set(_PARAMETER.findall(code)))}
