"""Through a real Apache Kafka the lake gets the same rows as through the direct bus."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from forewarn import compose
from forewarn.commands.options import clock_of
from forewarn.config import load
from forewarn.settings import Config
from ingest.lake import Lake
from ingest.pump import Pump
from ingest.schema import TABLES
from ingest.spool import Spool
from ingest.writer import Writer
from tests.contracts.conftest import LEFT_SOCKETS, _start_broker, _stop_broker
from tests.e2e.conftest import SmallFleet

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.kafka,
    pytest.mark.nvml,
    *(pytest.mark.filterwarnings(text) for text in LEFT_SOCKETS),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run one real broker for these tests."""
    directory = tmp_path_factory.mktemp("kafka")
    yield _start_broker(directory)
    _stop_broker(directory, "KILL")


def test_both_buses_leave_the_same_rows(small_fleet: Callable[..., SmallFleet], address: str, tmp_path: Path) -> None:
    """What the collectors read of an emulated fleet reaches two lakes, once by each bus, equal in every column."""
    fleet = small_fleet(bus={"kind": "kafka", "bootstrap": address})
    config = load(fleet.configuration, {})
    collect_for(config, 8.0)
    shutil.copytree(config.fleet.state_dir / "spool", tmp_path / "copy")
    direct, kafka = Lake(tmp_path / "direct"), Lake(tmp_path / "kafka")
    write_directly(config, tmp_path / "copy", direct)
    write_through_kafka(config, kafka)
    rows = {name: rows_of(direct, name) for name in TABLES}
    assert len(rows["gpu_samples"]) > 200
    assert sum(bool(found) for found in rows.values()) >= 5
    assert {name: rows_of(kafka, name) == found for name, found in rows.items()} == dict.fromkeys(TABLES, True)


def test_up_runs_over_kafka(small_fleet: Callable[..., SmallFleet], address: str) -> None:
    """`forewarn up` with brokers between collector and writer fills the lake and leaves in order."""
    fleet = small_fleet(bus={"kind": "kafka", "bootstrap": address, "group": "up"})
    process = subprocess.Popen([sys.executable, "-m", "forewarn", "up", "--config", str(fleet.configuration)], start_new_session=True)
    fleet.wait_until_up()
    lake = Lake(fleet.directory / "lake")
    deadline = time.monotonic() + 60
    while len(rows_of(lake, "gpu_samples")) < 500 and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=40) == 0
    assert len(rows_of(lake, "gpu_samples")) >= 500


def collect_for(config: Config, seconds: float) -> None:
    """Let the configured collector fill its spool; nobody takes anything out of it."""

    async def run() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, stop.set)
        await compose.collector_of(config, clock_of(config), spool).run(stop)

    spool = compose.spool_of(config)
    try:
        asyncio.run(run())
    finally:
        spool.close()


def write_directly(config: Config, directory: Path, lake: Lake) -> None:
    from ingest.bus import DirectBus  # noqa: PLC0415

    spool = Spool(directory)
    drain(compose.writer_of(config, lake, DirectBus(spool)))
    spool.close()


def write_through_kafka(config: Config, lake: Lake) -> None:
    spool = compose.spool_of(config)
    pump = Pump(spool, compose.publisher_of(config))
    pump.start()  # it waits for the topics, which the writer makes
    drain(compose.writer_of(config, lake, compose.subscriber_of(config)), lambda: not spool.size_bytes)
    pump.stop(flush_s=30)
    spool.close()


def drain(writer: Writer, is_sent: Callable[[], bool] = lambda: True) -> None:
    """Run a writer until everything is sent and some seconds more."""
    stop = threading.Event()
    thread = threading.Thread(target=writer.run, args=(stop,))
    thread.start()
    deadline = time.monotonic() + 90
    while not is_sent() and time.monotonic() < deadline:
        time.sleep(0.1)
    thread.join(timeout=8.0)
    stop.set()
    thread.join(timeout=40)


def rows_of(lake: Lake, name: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        lake.attach(connection, TABLES[name])
        return connection.execute(f"select * from {name} order by all").fetchall()
