"""Plants of real processes for the faults, and the places where they happen."""

from __future__ import annotations

import gc
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.contracts.conftest import LEFT_SOCKETS
from tests.disks import small_disk
from tests.faults.broker import Broker
from tests.faults.known_fleet import KnownFleet
from tests.faults.plant import Plant

MakePlant = Callable[..., Plant]


def pytest_itemcollected(item: pytest.Item) -> None:
    """All of these need the real broker; kafka-python leaves sockets to the garbage collector."""
    item.add_marker(pytest.mark.kafka)
    item.add_marker(pytest.mark.filterwarnings(*LEFT_SOCKETS))


@pytest.fixture(autouse=True)
def needs_java() -> Iterator[None]:
    """Skip where the real broker cannot run; leave no socket to later tests."""
    if shutil.which("java") is None:
        pytest.skip("java is not installed (Debian: openjdk-17-jre-headless maven)")
    yield
    gc.collect()


@pytest.fixture
def make_plant(tmp_path: Path) -> Iterator[MakePlant]:
    """Make a fleet of two nodes, a collector for each, and all that is behind them; nothing is started yet."""
    with ExitStack() as stack:

        def make(*, epoch_ns: int, scale: float, interval_s: float, lake: Path | None = None, broker: Broker | None = None) -> Plant:
            nodes = {"collector0": ["n0"], "collector1": ["n1"]}
            fleet = stack.enter_context(KnownFleet(tmp_path / "devices", ["n0", "n1"], epoch_ns=epoch_ns, scale=scale, event_gap_s=0.3))
            broker = broker or Broker(tmp_path / "kafka")
            return stack.enter_context(Plant(tmp_path, fleet, broker, collectors=nodes, interval_s=interval_s, lake=lake))

        yield make


@pytest.fixture
def make_disk(tmp_path: Path) -> Iterator[Callable[[str, str], Path]]:
    """Mount small real disks; needs root."""
    with ExitStack() as stack:
        yield lambda name, size: stack.enter_context(small_disk(tmp_path / name, size))


@pytest.fixture(scope="session")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the library that slows disks and moves clocks."""
    if shutil.which("cc") is None:
        pytest.skip("cc is not installed (Debian: gcc libc6-dev)")
    library = tmp_path_factory.mktemp("faulty") / "faulty.so"
    source = Path(__file__).with_name("faulty.c")
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, source], check=True)
    return library
