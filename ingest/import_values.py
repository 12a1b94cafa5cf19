"""Cells of imported telemetry as numbers: what is empty is missing, and what is no finite number is kept out and marked."""

from __future__ import annotations

from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

INVALID = "invalid"  # the quality code of a cell that is no value
_READ = {
    "double": "try_cast(cell as double)",
    "int64": "case when try_cast(cell as double) = floor(try_cast(cell as double)) then try_cast(cell as bigint) end",
    "bool": "try_cast(cell as boolean)",
}
NUMBERS = frozenset(_READ)
_CELLS = "select {read} as value, cell is not null and trim(cell::varchar) <> '' as is_given, try_cast(cell as double) as number from given"
_FINITE = "select case when is_given and coalesce(isfinite(number), true) then value end as value, is_given from ({cells})"


class Cells(NamedTuple):
    """A column of cells: the values, and which cells held something that is none."""

    values: pa.ChunkedArray
    is_invalid: pa.ChunkedArray

    @property
    def count_invalid(self) -> int:
        """Count the cells that were kept out."""
        return pc.sum(self.is_invalid).as_py() or 0


def read_cells(cells: pa.ChunkedArray, kind: str) -> Cells:
    """Read cells of any type as double, int64 or bool; infinity, NaN and words are no values."""
    with duckdb.connect() as connection:
        connection.register("given", pa.table({"cell": cells}))
        read = connection.sql(_FINITE.format(cells=_CELLS.format(read=_READ[kind]))).to_arrow_table()
    return Cells(read["value"], pc.and_(read["is_given"], pc.is_null(read["value"])))


def is_mostly_numbers(cells: pa.ChunkedArray) -> bool:
    """Claim that a column of text means numbers: more than half of what is given is one."""
    read = read_cells(cells, "double")
    return bool(len(read.values) - read.values.null_count > read.count_invalid)


def quality_of(columns: dict[str, Cells]) -> pa.Array:
    """Name per row the code of each column that held no value; null where all is well."""
    length = len(next(iter(columns.values())).values) if columns else 0
    codes: dict[int, list[tuple[str, str]]] = {}
    for name, cells in columns.items():
        for row in pc.indices_nonzero(cells.is_invalid).to_pylist():
            codes.setdefault(row, []).append((name, INVALID))
    return pa.array([codes.get(row) for row in range(length)] if codes else [None] * length, pa.map_(pa.string(), pa.string()))
