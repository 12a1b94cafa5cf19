"""Arrow columns of history made from numpy arrays; dictionaries are spelt out when the lake stores them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from emulators.draws import Flags, Ints
from ingest.tables import Table


def named(names: pa.Array, codes: Ints, *, is_there: Flags | None = None) -> pa.Array:
    """Spell codes out by a list of names."""
    missing = None if is_there is None or is_there.all() else ~is_there
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=missing), names)


def constant(text: str, is_there: Flags) -> pa.Array:
    """Repeat a text wherever it is there."""
    return named(pa.array([text]), np.zeros(len(is_there), np.int64), is_there=is_there)


def either(usual: str, other: str, is_other: Flags) -> pa.Array:
    """Say one of two texts."""
    return named(pa.array([usual, other]), is_other.astype(np.int64))


def timestamps(times_ns: Ints) -> pa.Array:
    """Turn nanoseconds into a timestamp column."""
    return pa.array(times_ns // 1000, pa.timestamp("us", tz="UTC"))


def rows_of(table: Table, rows: Mapping[str, Any]) -> pa.Table:
    """Build rows of a table from its columns."""
    assert set(rows) <= set(table.names), f"BUG: {table.name} has no {set(rows) - set(table.names)}"
    return pa.table(dict(rows))
