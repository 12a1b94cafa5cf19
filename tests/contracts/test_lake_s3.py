"""A lake on object storage keeps the promises of a lake on a disk (a real S3 protocol, served by moto)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime

import duckdb
import pytest
from moto.server import ThreadedMotoServer
from pyarrow.fs import S3FileSystem

from ingest.errors import LakeConflict
from ingest.lake import AppTransaction, Lake, table_rows
from ingest.lake_care import compact, measure, vacuum
from ingest.lake_check import check
from ingest.schema import EVENTS


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    """Serve S3 on loopback, with one bucket."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    S3FileSystem(
        access_key="a", secret_key="b", endpoint_override=f"{host}:{port}", scheme="http", region="us-east-1", allow_bucket_creation=True
    ).create_dir("bucket")
    yield {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    server.stop()


def append(lake: Lake, code: int, transaction: AppTransaction | None = None, day: int = 1) -> bool:
    """Append one event."""
    at = [datetime(2025, 6, day, tzinfo=UTC)]
    rows = {"node": ["n1"], "observed_at": at, "received_at": at, "source": ["t"], "kind": ["xid"], "code": [code]}
    return lake.append(EVENTS, table_rows(EVENTS, rows), transaction)


def codes(lake: Lake) -> list[int]:
    """Read the codes."""
    with duckdb.connect() as connection:
        lake.attach(connection, EVENTS)
        lake.attach(connection, EVENTS)
        return [code for (code,) in connection.execute("select code from events order by code").fetchall()]


def test_appends_once_per_transaction_and_reads_back(options: dict[str, str]) -> None:
    """As on a disk: an old version writes nothing, a stream that moved on is a conflict, every reader sees every commit."""
    lake, other = Lake("s3://bucket/a", options), Lake("s3://bucket/a", options)
    assert codes(lake) == []
    assert append(lake, 1, AppTransaction("s", 1, after=0))
    assert not append(other, 2, AppTransaction("s", 1, after=0))
    with pytest.raises(LakeConflict):
        append(other, 3, AppTransaction("s", 9, after=0))
    assert append(other, 4, AppTransaction("s", 2, after=1))
    assert codes(lake) == codes(other) == [1, 4]


def test_two_writers_from_the_same_snapshot_do_not_both_commit(options: dict[str, str]) -> None:
    """The store's conditional put decides; of two appends of one stream the later is a conflict."""
    first, second = Lake("s3://bucket/b", options), Lake("s3://bucket/b", options)
    append(first, 0)
    stale = second.open(EVENTS)
    append(first, 1, AppTransaction("s", 1, after=0))
    second.open = lambda table: stale  # type: ignore[method-assign]  # what a writer sees that is a moment late
    with pytest.raises(LakeConflict):
        append(second, 2, AppTransaction("s", 1, after=0))
    assert codes(first) == [0, 1]


def test_care_works_on_it(options: dict[str, str]) -> None:
    """Sorting, checking, measuring and the vacuum find their files there."""
    lake = Lake("s3://bucket/c", options)
    for code in (3, 1, 2):
        append(lake, code)
    assert compact(lake, EVENTS, today=date(2025, 6, 9)).sorted == ["2025-06-01"]
    assert check(lake, EVENTS) == []
    stats = measure(lake, EVENTS)
    assert stats
    assert (stats.rows, stats.files) == (3, 1)
    assert vacuum(lake, EVENTS, is_dry=True) == []
    assert codes(lake) == [1, 2, 3]
