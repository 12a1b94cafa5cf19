"""Start the real services that the contract suites need: one broker per session."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.kafka_admin import KafkaConnection, create_topics

SERVICES = Path(__file__).parent.parent / "services"
JARS = Path(os.environ.get("KAFKA_LIB", Path.home() / ".cache" / "forewarn" / "kafka"))


def free_port() -> int:
    """Ask the system for a port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_broker(directory: Path, **environment: str) -> str:
    """Start a broker whose state is in the directory, and give its address."""
    if shutil.which("java") is None:
        pytest.skip("java is not installed (Debian: openjdk-17-jre-headless maven)")
    port = environment.get("KAFKA_PORT") or str(free_port())
    own = {"KAFKA_PORT": port, "KAFKA_CONTROLLER_PORT": str(free_port()), "KAFKA_LIB": str(JARS), **environment}
    subprocess.run([SERVICES / "kafka_start.sh", directory], env=os.environ | own, check=True, timeout=180, stdout=subprocess.DEVNULL)
    return f"127.0.0.1:{port}"


def stop_broker(directory: Path, signal: str = "TERM") -> None:
    """Stop it; its data stays."""
    subprocess.run([SERVICES / "kafka_stop.sh", directory, signal], check=True, timeout=60)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run one real Apache Kafka for the whole session."""
    directory = tmp_path_factory.mktemp("kafka")
    address = start_broker(directory)
    yield address
    stop_broker(directory, "KILL")


@pytest.fixture
def kafka(broker: str) -> KafkaConnection:
    """Give topics of its own to a test."""
    name = uuid.uuid4().hex[:8]
    settings = KafkaConnection(bootstrap=broker, prefix=f"t{name}", group=f"g{name}")
    create_topics(settings, partitions=3, replication=1, tables=("events", "gpu_samples"))
    return settings
