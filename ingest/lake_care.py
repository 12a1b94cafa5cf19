"""Keep the lake small: sort and merge files, let old dates expire, and remove files that nobody needs.

Nothing here changes a row that a reader can see, except `expire`. A reader that has its list of files reads them until the vacuum, and
every list is of one version: it names the small files or the sorted one, never both. A commit here takes away exactly the files that were
read and puts the sorted ones in their place, so that rows which come meanwhile, late ones too, stay; two who care for the same files at
once are told so by the table, and the later one starts again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import structlog
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import RemoveAction

from ingest.clock import SystemClock
from ingest.errors import LakeConflict, LakeUnreadable
from ingest.lake import Lake
from ingest.lake_sort import SortedFile, write_sorted
from ingest.tables import Table

TARGET_MB = 256
_ATTEMPTS = 5
_APP = "forewarn/care"
_log = structlog.get_logger()


class File(NamedTuple):
    """A live file as the log has it."""

    path: str
    date: str
    rows: int
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class TableStats:
    """What a table holds; `oldest` and `newest` are dates."""

    table: str
    version: int
    files: int
    rows: int
    size_bytes: int
    oldest: str | None
    newest: str | None


@dataclass(frozen=True, kw_only=True)
class Compaction:
    """What became of a table's dates: brought into order, merged while still open, or left for the next time after conflicts."""

    table: str
    sorted: list[str] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)
    postponed: list[str] = field(default_factory=list)
    files_before: int = 0
    files_after: int = 0


def compact(lake: Lake, table: Table, *, today: date, target_mb: float = TARGET_MB, memory_mb: int = 1024) -> Compaction:
    """Bring each date before `today` that has several small files into the table's order, and merge the small files of the others.

    A file is small below half of `target_mb`; a sorted date has at most one such file, so a second run finds nothing to do. Raises
    LakeUnreadable for dates that cannot be read, after all others are done.
    """
    delta = lake.open(table)
    result = Compaction(table=table.name)
    if delta is None:
        return result
    before = files_of(delta)
    target_bytes = int(target_mb * (1 << 20))
    broken = []
    for day in sorted({file.date for file in before}):
        is_closed = day < f"{today:%Y-%m-%d}"
        if len(_due([file for file in before if file.date == day], target_bytes, is_closed=is_closed)) > 1:
            try:
                done = _compact_date(lake, table, day, target_bytes=target_bytes, memory_mb=memory_mb, is_closed=is_closed)
            except LakeUnreadable as error:
                broken.append(str(error))
            else:
                (result.postponed if not done else result.sorted if is_closed else result.merged).append(day)
    if broken:
        raise LakeUnreadable("; ".join(broken))
    left = lake.open(table)
    return Compaction(**vars(result) | {"files_before": len(before), "files_after": len(files_of(left)) if left else 0})


def expire(lake: Lake, table: Table, *, before: date) -> int:
    """Delete all rows of dates before `before` and say how many; the files go with a later vacuum. Raises LakeConflict, LakeUnreadable."""

    def remove(delta: DeltaTable) -> int:
        gone = expired(delta, before)
        if gone:
            _exchange(delta, gone, [], changes_rows=True)
        return sum(file.rows for file in gone)

    return _retried(lake, table, remove) if lake.open(table) else 0


def expired(delta: DeltaTable, before: date) -> list[File]:
    """List the files of dates before `before`."""
    return [file for file in files_of(delta) if file.date < f"{before:%Y-%m-%d}"]


def vacuum(lake: Lake, table: Table, *, keep: timedelta = timedelta(days=7), is_dry: bool = False) -> list[str]:
    """Delete files that no version of the last `keep` names, those of killed writers included, and give their names.

    A reader that took its list of files longer than `keep` ago, and a file whose writer takes that long to commit it, would be hurt.
    """
    delta = lake.open(table)
    if delta is None:
        return []
    hours = int(keep.total_seconds() // 3600)
    try:
        removed = delta.vacuum(retention_hours=hours, dry_run=is_dry, enforce_retention_duration=False, full=True)
        if not is_dry:
            delta.create_checkpoint()
            delta.cleanup_metadata()
    except (DeltaError, OSError) as error:
        raise LakeUnreadable(f"cannot vacuum {lake.root}/{table.name}: {error}") from error
    return removed


def measure(lake: Lake, table: Table) -> TableStats | None:
    """Say what a table holds; None where it does not exist."""
    delta = lake.open(table)
    if delta is None:
        return None
    files = files_of(delta)
    dates = sorted({file.date for file in files})
    return TableStats(
        table=table.name,
        version=delta.version(),
        files=len(files),
        rows=sum(file.rows for file in files),
        size_bytes=sum(file.size_bytes for file in files),
        oldest=dates[0] if dates else None,
        newest=dates[-1] if dates else None,
    )


def files_of(delta: DeltaTable) -> list[File]:
    """List the live files of a table."""
    actions: Any = pa.table(delta.get_add_actions(flatten=True))
    names = ("path", "partition.date", "num_records", "size_bytes")
    return [File(*values) for values in zip(*(actions.column(name).to_pylist() for name in names), strict=True)]


def _due(files: Sequence[File], target_bytes: int, *, is_closed: bool) -> list[File]:
    """Choose the files of a date to write anew: all of a closed date with several small ones, only the small ones of an open date."""
    small = [file for file in files if file.size_bytes < target_bytes // 2]
    if len(small) < 2:
        return []
    return list(files) if is_closed else small


def _compact_date(lake: Lake, table: Table, day: str, *, target_bytes: int, memory_mb: int, is_closed: bool) -> bool:
    def sort(delta: DeltaTable) -> int:
        due = _due([file for file in files_of(delta) if file.date == day], target_bytes, is_closed=is_closed)
        if not due:
            return 0
        paths = [file.path for file in due]
        added = write_sorted(lake, delta, table, day, paths, target_bytes=target_bytes, memory_mb=memory_mb)
        if sum(file.rows for file in added) != sum(file.rows for file in due):
            raise LakeUnreadable(f"{table.name} {day}: the files have other rows than the log says: run forewarn lake check")
        _exchange(delta, due, added, changes_rows=False)
        return len(added)

    try:
        _retried(lake, table, sort)
    except LakeConflict as error:
        _log.warning("compaction_postponed", table=table.name, date=day, reason=str(error).splitlines()[0])
        return False
    return True


def _retried(lake: Lake, table: Table, act: Callable[[DeltaTable], int]) -> int:
    """Act on the newest version, again where somebody else's commit stood against it.

    Raises LakeConflict after some attempts, LakeUnreadable where a file is gone or broken or a disk full.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        delta = lake.open(table)
        assert delta is not None, "BUG: the table is gone"
        try:
            return act(delta)
        except CommitFailedError as error:
            _log.info("care_conflict", table=table.name, attempt=attempt, reason=str(error).splitlines()[0])
            conflict = error
        except (DeltaError, duckdb.Error, OSError) as error:
            raise LakeUnreadable(f"cannot care for {lake.root}/{table.name}: {str(error).splitlines()[0]}") from error
    raise LakeConflict(f"{table.name}: {conflict}") from conflict


def _exchange(delta: DeltaTable, removed: Sequence[File], added: Sequence[SortedFile], *, changes_rows: bool) -> None:
    """Commit other files in the place of some; raises CommitFailedError where another care of the table was committed meanwhile.

    The table alone does not refuse a second exchange of the same files that changes no row: the transaction of all care does.
    """
    at_ms = SystemClock().now_ns() // 1_000_000
    gone = [
        RemoveAction(
            file.path, data_change=changes_rows, deletion_timestamp=at_ms, size=file.size_bytes, partition_values={"date": file.date}
        )
        for file in removed
    ]
    turn = Transaction(_APP, (delta.transaction_version(_APP) or 0) + 1)
    delta.create_write_transaction(
        [*(file.action for file in added), *gone],
        "append",
        delta.schema(),
        ["date"],
        commit_properties=CommitProperties(app_transactions=[turn]),
    )
