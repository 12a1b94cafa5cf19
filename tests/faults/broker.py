"""One real broker that can be killed at any moment, and how to wait for what other processes do."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.contracts.conftest import JARS, SERVICES


class Broker:
    """One real broker; its data outlives it."""

    def __init__(self, directory: Path) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self._directory = directory
        self.controller = f"127.0.0.1:{free_port()}"
        ports = {"KAFKA_PORT": self.address.rpartition(":")[2], "KAFKA_CONTROLLER_PORT": self.controller.rpartition(":")[2]}
        self.environment = os.environ | ports | {"KAFKA_LIB": str(JARS), "KAFKA_HEAP": "256m", "START_TIMEOUT": "300"}
        self._starter: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin to start it."""
        self._directory.mkdir(parents=True, exist_ok=True)
        with (self._directory / "start.log").open("ab") as log:
            command = [SERVICES / "kafka_start.sh", self._directory]
            self._starter = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, start_new_session=True)

    def wait(self, patience_s: float = 300.0) -> None:
        """Wait until it listens; one that ended while it started is started again."""
        deadline = time.monotonic() + patience_s
        while self._starter is None or self._starter.wait(patience_s):
            assert time.monotonic() < deadline, (self._directory / "start.log").read_text()[-2000:]
            self.start()

    def look_after(self) -> None:
        """Start it again where it ended by itself."""
        if self._starter and self._starter.poll():
            self.start()

    def kill(self) -> None:
        """End it at once, even in the middle of its start."""
        if self._starter:
            with suppress(ProcessLookupError):
                os.killpg(self._starter.pid, signal.SIGKILL)
            self._starter.wait()
            wait_until(lambda: not _has_living(self._starter.pid), "the broker is gone", 20)
            (self._directory / "kafka.pid").unlink(missing_ok=True)
            self._starter = None


def free_port() -> int:
    """Find a free port below those that the system gives to outgoing connections: a client that tries again and again would take it."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("a hundred ports are taken")


def wait_until(is_so: Callable[[], bool], what: str, patience_s: float, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Wait for a condition; fails with its name when it does not come true in time."""
    deadline = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < deadline, f"not within {patience_s:.0f} s: {what}"
        meanwhile()
        time.sleep(0.05)


def _has_living(group: int) -> bool:
    """Say whether a process group has a process that is not a zombie."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, pgrp = stat.read_text().rpartition(")")[2].split()[:3]
            if int(pgrp) == group and state != "Z":
                return True
    return False
