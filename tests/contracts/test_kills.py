"""SIGKILL at any moment: no row is in the lake twice, and no row that the spool had taken is missing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from ingest.bus import DirectBus, Subscriber
from ingest.kafka_admin import KafkaConnection
from ingest.kafka_bus import KafkaPublisher, KafkaSubscriber
from ingest.lake import Lake
from ingest.pump import Pump
from ingest.rejects import FileRejects
from ingest.schema import EVENTS, GPU_SAMPLES
from ingest.spool import Spool
from ingest.writer import Writer

VICTIM = Path(__file__).parent.parent / "ingest" / "kill_victim.py"
LONGER = 50 if os.environ.get("FOREWARN_TEST_LONG") else 1
ROOT = VICTIM.parent.parent.parent


class Victim:
    """The process that starts what is to be killed."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, VICTIM, directory, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            text=True,
        )

    def kill_after(self, kind: str, seconds: float) -> None:
        """Start a child, let it live so long, and end it at once."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{kind}\n")
        self._process.stdin.flush()
        child = int(self._process.stdout.readline())
        threading.Event().wait(seconds)
        os.kill(child, signal.SIGKILL)
        assert self._process.stdout.readline() == "ended\n"

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


def acknowledged(directory: Path) -> set[int]:
    """Read the numbers that the spool had taken; a last line that was torn is none."""
    text = (directory / "acknowledged").read_text()
    return {int(line) for line in text[: text.rfind("\n") + 1].split()}


def written(directory: Path) -> list[int]:
    """Read the numbers in the lake."""
    lake = Lake(directory / "lake")
    with duckdb.connect() as connection:
        lake.attach(connection, EVENTS)
        lake.attach(connection, GPU_SAMPLES)
        query = "select code from events union all select energy_mj_total from gpu_samples"
        return [number for (number,) in connection.execute(query).fetchall()]


def lives(directory: Path, kills: int, longest_s: float) -> Iterator[float]:
    """Say of each life how long it may be: as long as given, and longer and more where the machine is too slow to reach the lake."""
    for kill in range(4 * kills):
        if kill >= kills and len(set(written(directory))) > 60:
            return
        if kill % 3 == 2 and len(written(directory)) < 20 * kill:
            longest_s = min(2 * longest_s, 30.0)
        yield longest_s


def drain(writer: Writer, is_complete: Callable[[], bool]) -> None:
    """Write the rest."""
    deadline = time.monotonic() + 60
    while not is_complete():
        assert time.monotonic() < deadline, "acknowledged rows are missing"
        writer.run_once()
        writer.flush()


def assert_once(directory: Path, subscriber: Subscriber) -> None:
    """Write what is left and compare."""
    wanted = acknowledged(directory)
    assert 50 < len(set(written(directory)) & wanted) < len(wanted), "the kills have not met the middle of the work"
    writer = Writer(subscriber, Lake(directory / "lake"), FileRejects(directory / "rejects"))
    drain(writer, lambda: wanted <= set(written(directory)))
    writer.close()
    found = written(directory)
    assert len(found) == len(set(found))
    assert len(wanted) > 100
    assert not list((directory / "rejects").glob("*"))


def test_collector_and_writer_of_one_machine(tmp_path: Path) -> None:
    """Twenty kills (a thousand in the long run) of a process that collects and writes, over one spool and one lake."""
    moments = random.Random(7)
    victim = Victim(tmp_path)
    for longest_s in lives(tmp_path, 20 * LONGER, 0.6):
        victim.kill_after("direct", moments.uniform(0.05, longest_s))
    victim.close()

    spool = Spool(tmp_path / "spool")
    assert_once(tmp_path, DirectBus(spool))
    spool.close()


@pytest.mark.kafka
def test_collectors_and_writers_around_kafka(kafka: KafkaConnection, tmp_path: Path) -> None:
    """Six kills of a collector and six of a writer (fifty times as many in the long run), with a real broker between them."""
    moments = random.Random(8)
    collector, writer = Victim(tmp_path, kafka.bootstrap, kafka.prefix), Victim(tmp_path, kafka.bootstrap, kafka.prefix)
    for longest_s in lives(tmp_path, 6 * LONGER, 3.5):
        writing = threading.Thread(target=writer.kill_after, args=("write", moments.uniform(longest_s * 0.6, longest_s)))
        writing.start()
        collector.kill_after("collect", moments.uniform(longest_s * 0.3, longest_s * 0.6))
        writing.join()
    collector.close()
    writer.close()

    spool, publisher = Spool(tmp_path / "spool"), KafkaPublisher(kafka)
    pump = Pump(spool, publisher)
    while pump.pass_on(0.0):
        pass
    publisher.close()
    spool.close()
    group = KafkaConnection(bootstrap=kafka.bootstrap, prefix=kafka.prefix, group=kafka.prefix, session_timeout_s=1.0)
    assert_once(tmp_path, KafkaSubscriber(group, tables=("events", "gpu_samples")))
