"""A user's own history into the lake: a folder with `telemetry`, `events`, `inventory`, `topology`, `jobs` or `outcomes` as Parquet or CSV.

Importing the same file again writes nothing: each chunk of a file is an append whose transaction is named by the file's content. A fleet
whose folder has no inventory is known by its records, and by what `population` adds: units that never failed leave no record, and a model
that does not know them takes a fleet of the sick for the fleet.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from ingest.errors import ConfigError, RecordRejected
from ingest.import_files import chunks, read_to_the_end, reason
from ingest.import_fleet import Fleet
from ingest.import_rows import map_rows
from ingest.lake import AppTransaction, Lake
from ingest.schema import INVENTORY
from ingest.tables import Table

_KNOWN_UNITS = "select node, gpu_uuid, action, min(observed_at) from inventory where source = 'import' group by all"
KINDS = ("telemetry", "events", "inventory", "topology", "jobs", "outcomes")


@dataclass
class FileReport:
    """What became of one file: rows read, rows written by table, records kept out by reason; rows that the lake had already.

    `error` says why nothing of the file was taken.
    """

    file: str
    error: str | None = None
    read: int = 0
    taken: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)


@dataclass
class ImportReport:
    """What became of a folder; `units_added` are those that only the population knows."""

    files: list[FileReport] = field(default_factory=list)
    units_added: int = 0


def import_history(directory: str | Path, lake: Lake, *, population: int | Mapping[str, int] | None = None, now: datetime) -> ImportReport:
    """Import every file of a folder that this module knows, and say what was taken and what not.

    `population` is the number of units in all, or one number per prefix of node names; without it a column `nodes` of the records says how
    many there are under a node's prefix, where there is one. A file that cannot be read or lacks a column is told in its report, and the
    others are taken. Raises ConfigError where there is nothing to import.
    """
    files = [path for kind in KINDS for suffix in ("parquet", "csv") if (path := Path(directory) / f"{kind}.{suffix}").exists()]
    if not files:
        raise ConfigError(f"{directory}: no {', '.join(KINDS)} as .parquet or .csv")
    report, fleet = ImportReport(), Fleet()
    for path in sorted(files, key=lambda path: path.stem == "topology"):  # the topology has no time of its own: it holds from the start
        report.files.append(_import_file(path, lake, fleet, now))
    has_inventory = any(path.stem == "inventory" for path in files)
    rows, report.units_added = fleet.inventory(population, is_known=has_inventory)
    if rows.num_rows:
        named = hashlib.sha256(b"".join(_digest(path).encode() for path in files if path.is_file()) + repr(population).encode()).hexdigest()
        derived = FileReport("population", read=rows.num_rows)
        rows = _not_known(lake, rows)
        derived.known[INVENTORY.name] = derived.read - rows.num_rows
        derived.known = +derived.known
        _append(lake, INVENTORY, rows, AppTransaction(f"import/population/{named[:16]}", 1), derived)
        report.files.append(derived)
    return report


def _import_file(path: Path, lake: Lake, fleet: Fleet, now: datetime) -> FileReport:
    report = FileReport(path.name)
    try:
        report.rejected = read_to_the_end(path)
        report.read = report.rejected.total()
        app = f"import/{path.stem}/{_digest(path)[:16]}"
        for number, chunk in enumerate(chunks(path), start=1):
            report.read += chunk.num_rows
            data = fleet.dated(chunk) if path.stem == "topology" else chunk
            mapped = map_rows(path.stem, data, now)
            fleet.see(path.stem, data, mapped.rows)
            report.rejected.update(mapped.rejected)
            for table, rows in _by_table(mapped.rows):
                _append(lake, table, rows, AppTransaction(app, number), report)
    except (ConfigError, RecordRejected) as error:
        report.error = str(error)
    except pa.ArrowException as error:  # a column of a type that is none of ours
        report.error = f"unreadable_columns: {reason(error)}"
    return report


def _not_known(lake: Lake, rows: pa.Table) -> pa.Table:
    """Leave out units of which an earlier import has told the same: another population names those anew that it shares with the last."""
    with lake.reading() as connection:
        lake.attach(connection, INVENTORY)
        known = connection.execute(_KNOWN_UNITS).fetchall()
    before = {(node, device, action): at for node, device, action, at in known}
    names = ("node", "gpu_uuid", "action", "observed_at")
    units = zip(*(rows[name].to_pylist() for name in names), strict=True)
    return rows.filter(pa.array([not (seen := before.get(unit[:3])) or unit[3] < seen for unit in units], pa.bool_()))


def _append(lake: Lake, table: Table, rows: pa.Table, transaction: AppTransaction, report: FileReport) -> None:
    if rows.num_rows:
        counts = report.taken if lake.append(table, rows, transaction) else report.known
        counts[table.name] += rows.num_rows


def _by_table(mapped: list[tuple[Table, pa.Table]]) -> Iterator[tuple[Table, pa.Table]]:
    for table in {table.name: table for table, _ in mapped}.values():
        yield table, pa.concat_tables([rows for other, rows in mapped if other is table], promote_options="default")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
