"""The files of a user's own history, as chunks of columns: Parquet, or CSV whose cells are numbers where the whole column is.

A file is read to its end before anything of it is taken, so that it is taken whole or not at all; what cannot be read is RecordRejected.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from ingest.errors import RecordRejected
from ingest.import_rows import ALIASES

_CHUNK_ROWS = 500_000
_BLOCK_BYTES = 64 << 20
_NAMES = {"node_id", "device_id", "ts", *ALIASES}  # stay text: 007 is a name
_REASON_LENGTH = 160


def read_to_the_end(path: Path) -> Counter[str]:
    """Read a whole file and give what its lines are rejected for; raises RecordRejected where it cannot be read."""
    rejected: Counter[str] = Counter()
    for chunk in chunks(path, rejected):
        repeated = [name for name, count in Counter(chunk.column_names).items() if count > 1]
        if repeated:
            raise RecordRejected("unreadable_file", f"two columns are called {repeated[0]}")
    return rejected


def chunks(path: Path, rejected: Counter[str] | None = None) -> Iterator[pa.Table]:
    """Yield the rows of a file so many at a time; a CSV line with too few or too many cells is counted in `rejected`."""
    try:
        if path.suffix == ".parquet":
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(_CHUNK_ROWS):
                    yield pa.Table.from_batches([batch])
        else:
            yield from _csv_chunks(path, Counter() if rejected is None else rejected)
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
        raise RecordRejected("unreadable_file", reason(error)) from error


def _csv_chunks(path: Path, rejected: Counter[str]) -> Iterator[pa.Table]:
    def skip(_: pc_csv.InvalidRow) -> str:
        rejected["wrong_number_of_cells"] += 1
        return "skip"

    with path.open(encoding="utf-8-sig", newline="") as file:
        names = next(csv.reader(file), [])
    options = pc_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True)
    parse = pc_csv.ParseOptions(invalid_row_handler=skip)
    with pc_csv.open_csv(path, pc_csv.ReadOptions(block_size=_BLOCK_BYTES), parse, options) as reader:
        for batch in reader:
            chunk = pa.Table.from_batches([batch])
            yield pa.table([_typed(name, chunk.column(place)) for place, name in enumerate(names)], names=names)


def _typed(name: str, cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Give a column of cells the narrowest type that all of them have."""
    for kind in () if name in _NAMES else (pa.int64(), pa.float64(), pa.bool_()):
        try:
            return cells.cast(kind)
        except pa.ArrowInvalid:
            continue
    return cells


def reason(error: Exception) -> str:
    """Say what is wrong without the bytes that are: they may be anything, and somebody's."""
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8 text"
    text = (getattr(error, "strerror", None) or str(error)).partition("\n")[0].partition(" '")[0]
    return "".join(sign if sign.isascii() and sign.isprintable() else "?" for sign in text)[:_REASON_LENGTH]
