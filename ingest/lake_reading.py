"""What DuckDB says of files that it cannot read, turned into an error that names the table and the mend.

DuckDB tells a damaged Parquet file in many ways ("No magic bytes", "TProtocolException: Invalid data", "Out of buffer"), often without its
name. So what fails is asked of each table again: the one that cannot be read to its end is the one to name. Where all can be, the fault is
ours and stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from ingest.errors import LakeUnreadable

OURS = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException, duckdb.OutOfMemoryException, duckdb.InterruptException)
_ATTACHED = "select view_name from duckdb_views() where not internal and contains(sql, 'read_parquet(') order by view_name"
_EVERY_COLUMN = "select bit_xor(hash(part)) from {source} as part"


def unreadable(path: str, error: Exception) -> LakeUnreadable:
    """Name a table or file that cannot be read, why, and the mend; the library's own call stack is left out."""
    return LakeUnreadable(f"cannot read {path}: {str(error).partition(chr(10))[0]}: run forewarn lake check")


@contextmanager
def reading(connection: duckdb.DuckDBPyConnection, root: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Raise LakeUnreadable where a query fails because an attached table of the lake under `root` cannot be read."""
    try:
        yield connection
    except OURS:
        raise
    except duckdb.Error as error:
        for (table,) in connection.execute(_ATTACHED).fetchall():
            if reason := _fault(connection, f'main."{table}"'):  # names of our own tables
                raise unreadable(f"{root}/{table}", reason) from error
        raise


def fault_of_file(connection: duckdb.DuckDBPyConnection, file: str) -> duckdb.Error | None:
    """Tell why a file cannot be read to its end; None where it can."""
    return _fault(connection, "read_parquet('" + file.replace("'", "''") + "')")


def _fault(connection: duckdb.DuckDBPyConnection, source: str) -> duckdb.Error | None:
    try:
        connection.execute(_EVERY_COLUMN.format(source=source)).fetchall()
    except OURS:
        return None
    except duckdb.Error as error:
        return error
    return None
