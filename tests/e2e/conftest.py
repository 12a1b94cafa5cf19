"""A small live fleet with its devices, the example consumer and `forewarn up`, each the real command in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from emulators.world import WorldSpec
from forewarn.demo_fleet import LiveFleet, free_port, live_configuration, write_configuration, write_secret
from ingest.clock import SharedClock

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
        self.clock = SharedClock.create(self.directory / "clock", self.epoch_ns, self.scale)
        self.processes = LiveFleet(self.directory)
        self.configuration = self.directory / "forewarn.toml"

    def wait_until_up(self) -> None:
        """Wait until the API of `forewarn up` answers."""
        self.processes.wait_until_up(self.api)

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
                *("--live-nodes", str(self.nodes), "--rate-scale", str(self.rate_scale), "--clock-file", str(self.directory / "clock")),
                *("--outcomes-url", f"http://127.0.0.1:{ports[0]}/v1/outcomes", "--outcomes-secret-file", str(keys / "operator")),
            ],
        )
        self.processes.wait_for(self.directory / "fleet" / "endpoints.json")
        write_configuration(self.configuration, live_configuration(self.directory, self.bus, ports, cadence_s=300.0))
        self.api = f"http://127.0.0.1:{ports[0]}"
        self.processes.start("consumer", ["consume", "log", "--config", str(self.configuration)])
        self.clock.go()


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
