"""The lake appends atomically, at most once per transaction, and reads whatever version of the product wrote it."""

from __future__ import annotations

import pickle
import threading
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from ingest.errors import LakeConflict, LakeUnreadable
from ingest.lake import AppTransaction, Lake, table_rows
from ingest.schema import EVENTS
from ingest.tables import TIMESTAMP, Column, Table


def events(*codes: int, day: int = 1, **columns: list[object]) -> pa.Table:
    """Make rows of events."""
    at = [datetime(2025, 6, day, tzinfo=UTC)] * len(codes)
    given = {
        "node": ["n1"] * len(codes),
        "observed_at": at,
        "received_at": at,
        "source": ["test"] * len(codes),
        "kind": ["xid"] * len(codes),
    }
    return table_rows(EVENTS, {**given, "code": list(codes), **columns})


def read(lake: Lake, query: str, table: Table = EVENTS, **span: datetime) -> list[tuple[object, ...]]:
    """Ask a table."""
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        lake.attach(connection, table, **span)
        return connection.execute(query).fetchall()


def test_an_empty_table_reads_as_no_rows_with_all_columns(tmp_path: Path) -> None:
    """A query over a table that nobody has written works."""
    lake = Lake(tmp_path)
    assert read(lake, "select code, detail, date from events") == []
    assert (lake.version(EVENTS), lake.committed(EVENTS, "a"), lake.files(EVENTS)) == (None, None, [])


def test_missing_columns_become_null_and_the_date_follows_the_time(tmp_path: Path) -> None:
    """What an append does not give is null, never zero."""
    lake = Lake(tmp_path)
    lake.append(EVENTS, events(79))
    assert read(lake, "select code, detail, origin, date from events") == [(79, None, None, "2025-06-01")]


def test_a_transaction_is_appended_once(tmp_path: Path) -> None:
    """A version that is not above the committed one writes nothing."""
    lake = Lake(tmp_path)
    assert lake.append(EVENTS, events(1), AppTransaction("s", 5))
    assert not lake.append(EVENTS, events(2), AppTransaction("s", 5))
    assert not lake.append(EVENTS, events(2), AppTransaction("s", 4))
    assert lake.append(EVENTS, events(3), AppTransaction("s", 6))
    assert lake.append(EVENTS, events(4), AppTransaction("another", 1))
    assert read(lake, "select code from events order by code") == [(1,), (3,), (4,)]
    assert lake.committed(EVENTS, "s") == 6


@pytest.mark.parametrize(
    "transactions",
    [
        [AppTransaction("s", 5), AppTransaction("t", 1)],  # one is known, the other is not
        [AppTransaction("s", 9, after=3)],  # somebody has moved the stream on
    ],
)
def test_a_writer_that_was_overtaken_is_told(tmp_path: Path, transactions: list[AppTransaction]) -> None:
    """An append whose streams are not where its writer thinks is a conflict and writes nothing."""
    lake = Lake(tmp_path)
    lake.append(EVENTS, events(1), AppTransaction("s", 5))
    with pytest.raises(LakeConflict):
        lake.append(EVENTS, events(2), transactions)
    assert read(lake, "select code from events") == [(1,)]


def test_two_threads_with_the_same_transaction_write_once(tmp_path: Path) -> None:
    """Of eight appends of one transaction at the same moment exactly one is in the lake."""
    lake = Lake(tmp_path)
    lake.append(EVENTS, events(0))
    start, outcomes = threading.Barrier(8), []

    def append(code: int) -> None:
        start.wait()
        try:
            outcomes.append(lake.append(EVENTS, events(code), AppTransaction("s", 1, after=0)))
        except LakeConflict:
            outcomes.append(False)

    threads = [threading.Thread(target=append, args=(code,)) for code in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False] * 7 + [True]
    assert read(lake, "select count(*) from events") == [(2,)]


def test_another_handle_sees_every_commit(tmp_path: Path) -> None:
    """A reader that was there before a commit sees it at its next question, as does one that came over a pickle."""
    lake, other = Lake(tmp_path), Lake(tmp_path)
    for code in range(3):
        lake.append(EVENTS, events(code))
        assert read(other, "select count(*) from events") == [(code + 1,)]
    assert read(pickle.loads(pickle.dumps(other)), "select count(*) from events") == [(3,)]


def test_dates_bound_what_is_read(tmp_path: Path) -> None:
    """Only the files of the asked dates are opened, both ends included."""
    lake = Lake(tmp_path)
    for day in (1, 2, 3, 4):
        lake.append(EVENTS, events(day, day=day))
    assert read(
        lake, "select code from events order by code", since=datetime(2025, 6, 2, tzinfo=UTC), until=datetime(2025, 6, 3, tzinfo=UTC)
    ) == [
        (2,),
        (3,),
    ]
    assert len(lake.files(EVENTS, since=datetime(2025, 6, 3, tzinfo=UTC))) == 2


def test_replace_changes_only_its_dates(tmp_path: Path) -> None:
    """The rows of a date are exchanged in one commit; other dates stay."""
    lake = Lake(tmp_path)
    lake.append(EVENTS, events(1, 2, day=1))
    lake.append(EVENTS, events(3, day=2))
    lake.replace(EVENTS, events(9, day=1), ["2025-06-01"])
    assert read(lake, "select code, date from events order by code") == [(3, "2025-06-02"), (9, "2025-06-01")]


def changed(*columns: Column) -> Table:
    """Declare events with other columns of their own."""
    kept = tuple(column for column in EVENTS.own_columns if column.name not in ("detail", "mode"))
    return Table("events", EVENTS.meaning, (*kept, *columns), EVENTS.sort_by)


def test_versions_of_the_product_read_each_others_tables(tmp_path: Path) -> None:
    """A newer one adds its column, null in older rows; an older one reads on without it and still appends."""
    lake = Lake(tmp_path)
    newer = changed(Column("blast_radius", "int64", "", "made up"), Column("seen_at", TIMESTAMP, "UTC", "made up"))
    lake.append(EVENTS, events(1))
    assert read(lake, "select code, blast_radius, seen_at from events", newer) == [(1, None, None)]

    rows = events(2).append_column("blast_radius", pa.array([7]))
    lake.append(newer, rows)
    lake.append(EVENTS, events(3))

    assert read(lake, "select code, blast_radius from events order by code", newer) == [(1, None), (2, 7), (3, None)]
    assert read(lake, "select code, detail from events order by code") == [(1, None), (2, None), (3, None)]


def test_a_column_of_another_type_is_refused_with_its_name(tmp_path: Path) -> None:
    """A change of type cannot be undone in the files: it is an error, not a guess."""
    lake = Lake(tmp_path)
    lake.append(EVENTS, events(1, detail=["text"]))
    other = changed(Column("detail", "int64", "", "no longer text"))
    with pytest.raises(LakeUnreadable, match="detail"):
        lake.append(other, events(2).append_column("detail", pa.array([5])))


def test_a_broken_table_is_an_error_of_the_lake(tmp_path: Path) -> None:
    """A log that cannot be read names the table."""
    (tmp_path / "events" / "_delta_log").mkdir(parents=True)
    (tmp_path / "events" / "_delta_log" / "00000000000000000000.json").write_text("{not json")
    with pytest.raises(LakeUnreadable, match="events"):
        Lake(tmp_path).version(EVENTS)
