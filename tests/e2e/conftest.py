"""A small live fleet with its devices, the example consumer and `forewarn up`, each the real command in a process of its own."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import requests

from emulators.world import WorldSpec
from forewarn.demo_fleet import LiveClock, LiveFleet, live_configuration, write_configuration, write_secret

NS = 1_000_000_000


@dataclass
class SmallFleet:
    """Eight nodes that fail often; `configuration` is what `forewarn up` takes."""

    directory: Path
    bus: dict[str, str] = field(default_factory=lambda: {"kind": "direct"})
    nodes: int = 8
    scale: float = 1440.0
    rate_scale: float = 300.0

    def __post_init__(self) -> None:
        self.epoch_ns = WorldSpec.show(seed=3, days=30).start_ns + 5 * 86_400 * NS
        self.clock = LiveClock(epoch_ns=self.epoch_ns, scale=self.scale, started_monotonic_ns=time.monotonic_ns() + 8 * NS)
        self.processes = LiveFleet(self.directory)
        self.configuration = self.directory / "forewarn.toml"

    def wait_until_up(self, patience_s: float = 60.0) -> None:
        """Wait until the API of `forewarn up` answers."""
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            with suppress(requests.RequestException):
                if requests.get(f"{self.api}/healthz", timeout=2).ok:
                    return
            self.processes.require_alive()
            time.sleep(0.05)
        raise AssertionError(f"forewarn up did not answer within {patience_s:.0f} s")

    def start(self) -> None:
        """Start devices and consumer; `up` is the test's to start."""
        ports = (free_port(), free_port())
        keys = self.directory / "secrets"
        for name in ("webhook", "acks", "operator"):
            write_secret(keys / name)
        self.processes.start(
            "fleet",
            [
                *("emulate", "fleet", "--directory", str(self.directory / "fleet"), "--seed", "3", "--days", "30"),
                *("--live-nodes", str(self.nodes), "--rate-scale", str(self.rate_scale), "--epoch-ns", str(self.epoch_ns)),
                *("--scale", str(self.scale), "--started-monotonic-ns", str(self.clock.started_monotonic_ns)),
                *("--outcomes-url", f"http://127.0.0.1:{ports[0]}/v1/outcomes", "--outcomes-secret-file", str(keys / "operator")),
            ],
        )
        self.processes.wait_for(self.directory / "fleet" / "endpoints.json")
        write_configuration(self.configuration, live_configuration(self.directory, self.clock, self.bus, ports, cadence_s=300.0))
        self.api = f"http://127.0.0.1:{ports[0]}"
        self.processes.start("consumer", ["consume", "log", "--config", str(self.configuration)])
        while self.clock.now_ns() == self.epoch_ns:  # two readings at one fleet time would look like one taken twice
            time.sleep(0.05)


@pytest.fixture
def small_fleet(tmp_path: Path) -> Iterator[Callable[..., SmallFleet]]:
    """Make small fleets that are stopped with the test."""
    made: list[SmallFleet] = []

    def make(**changes: object) -> SmallFleet:
        directory = tmp_path / f"fleet{len(made)}"
        directory.mkdir()
        made.append(SmallFleet(directory, **changes))  # type: ignore[arg-type]
        made[-1].start()
        return made[-1]

    yield make
    for fleet in made:
        fleet.processes.stop()


def free_port() -> int:
    """Find a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
