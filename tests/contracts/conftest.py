"""Start the real services that the contract suites need: one broker per session."""

from __future__ import annotations

import gc
import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ingest.kafka_admin import KafkaConnection, create_topics

SERVICES = Path(__file__).parent.parent / "services"
JARS = Path(os.environ.get("KAFKA_LIB", Path.home() / ".cache" / "forewarn" / "kafka"))


# kafka-python 3.0 leaves sockets to the garbage collector; `no_garbage` calls it while their warnings are not errors.
LEFT_SOCKETS = ("ignore:unclosed:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let the tests of the real broker live with the library's sockets."""
    if item.get_closest_marker("kafka"):
        item.add_marker(pytest.mark.filterwarnings(*LEFT_SOCKETS))


@pytest.fixture(autouse=True)
def no_garbage(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave no open socket to later tests."""
    yield
    if request.node.get_closest_marker("kafka"):
        gc.collect()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start_broker(directory: Path, **environment: str) -> str:
    if shutil.which("java") is None:
        pytest.skip("java is not installed (Debian: openjdk-17-jre-headless maven)")
    port = environment.get("KAFKA_PORT") or str(_free_port())
    own = {"KAFKA_PORT": port, "KAFKA_CONTROLLER_PORT": str(_free_port()), "KAFKA_LIB": str(JARS), **environment}
    subprocess.run([SERVICES / "kafka_start.sh", directory], env=os.environ | own, check=True, timeout=180, stdout=subprocess.DEVNULL)
    return f"127.0.0.1:{port}"


def _stop_broker(directory: Path, signal: str = "TERM") -> None:
    subprocess.run([SERVICES / "kafka_stop.sh", directory, signal], check=True, timeout=60)


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    """Give a way to ask the system for a port that nobody uses."""
    return _free_port


@pytest.fixture(scope="session")
def start_broker() -> Callable[..., str]:
    """Give a way to start a broker whose state is in a directory; it answers the address."""
    return _start_broker


@pytest.fixture(scope="session")
def stop_broker() -> Callable[..., None]:
    """Give a way to stop it; its data stays."""
    return _stop_broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run one real Apache Kafka for the whole session."""
    directory = tmp_path_factory.mktemp("kafka")
    address = _start_broker(directory)
    yield address
    _stop_broker(directory, "KILL")


@pytest.fixture
def kafka(broker: str) -> KafkaConnection:
    """Give topics of its own to a test."""
    name = uuid.uuid4().hex[:8]
    settings = KafkaConnection(bootstrap=broker, prefix=f"t{name}", group=f"g{name}")
    create_topics(settings, partitions=3, replication=1, tables=("events", "gpu_samples"))
    return settings
