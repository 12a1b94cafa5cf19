"""One real Apache Kafka for the time of a benchmark; needs Java, and Maven the first time."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ingest.kafka_admin import KafkaConnection, create_topics
from tests.faults.broker import Broker


class Running(NamedTuple):
    """A broker that runs: how to reach it, its process, and the folder of its log."""

    settings: KafkaConnection
    pid: int
    data: Path


@contextmanager
def kafka(directory: Path, *, partitions: int = 6) -> Iterator[Running]:
    """Start a broker with the topics of the product; end it afterwards."""
    if shutil.which("java") is None:
        sys.exit("this benchmark needs a real Kafka, and java is not installed (Debian: openjdk-17-jre-headless maven)")
    broker = Broker(directory)
    broker.start()
    try:
        broker.wait()
        settings = KafkaConnection(bootstrap=broker.address)
        create_topics(settings, partitions=partitions, replication=1)
        yield Running(settings, int((directory / "kafka.pid").read_text()), directory / "data")
    finally:
        broker.kill()
