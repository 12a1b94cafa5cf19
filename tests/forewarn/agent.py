"""The real `forewarn collect` in a process of its own, without a broker: what it reads stays in its spool. Or `forewarn up`."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import tomli_w

from ingest.messages import decode
from ingest.spool import Spool
from ingest.tables import Record

PATIENCE_S = 60.0


class Agent:
    """One collector, alone or in `up`; `configure` writes its configuration, `start` starts it."""

    def __init__(self, directory: Path, *, bootstrap: str = "127.0.0.1:9", command: str = "collect", **collect: Any) -> None:
        self.directory = directory
        self._command = command
        self._alert_port = free_port()
        self.configuration = directory / "forewarn.toml"
        self.log = directory / "log"
        self.port = free_port()
        self._bootstrap = bootstrap
        self.process: subprocess.Popen[bytes] | None = None
        self.configure(**collect)

    def configure(self, **collect: Any) -> None:
        """Write the configuration; the process learns of it by SIGHUP."""
        self.write({"collect": {"metrics_port": self.port, **collect}})

    def write(self, sections: dict[str, Any]) -> None:
        """Write sections beside those that say where everything is."""
        bus = {"kind": "direct"} if self._command == "up" else {"kind": "kafka", "bootstrap": self._bootstrap}
        places = {
            "fleet": {"state_dir": str(self.directory / "state")},
            "lake": {"path": str(self.directory / "lake")},
            "alert": {"port": self._alert_port},
            "bus": bus,
        }
        self.configuration.write_text(tomli_w.dumps(places | sections))

    def start(self, **more: str) -> None:
        """Start the process, with more in its environment, and wait until it answers."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FOREWARN")}
        command = [sys.executable, "-m", "forewarn", self._command, "--config", str(self.configuration)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment | more)
        self.until(lambda: self.get("/healthz")[0] == 200)

    @property
    def running(self) -> subprocess.Popen[bytes]:
        """The process."""
        assert self.process is not None
        return self.process

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.running.send_signal(number)

    def get(self, path: str, timeout_s: float = 2.0) -> tuple[int, str]:
        """Ask for a page: status and body; status 0 where nobody listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=timeout_s) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return 0, ""

    def metric(self, name: str) -> float:
        """Sum a metric over its labels, or read one series given with them."""
        lines = [line.rpartition(" ") for line in self.get("/metrics")[1].splitlines() if not line.startswith("#")]
        return sum(float(value) for series, _, value in lines if name in (series, series.partition("{")[0]))

    def logged(self, event: str) -> list[dict[str, Any]]:
        """Give the log lines of one kind of event."""
        lines = []
        for line in self.log.read_text().splitlines():
            with suppress(json.JSONDecodeError):
                lines.append(json.loads(line))
        return [line for line in lines if line.get("event") == event]

    def memory_mb(self) -> float:
        """Tell the largest resident memory so far, MiB."""
        status = Path(f"/proc/{self.running.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024

    def until(self, holds: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
        """Wait for a condition; fails with the log when it does not come."""
        deadline = time.monotonic() + patience_s
        while not (found := holds()):
            assert time.monotonic() < deadline, f"not within {patience_s:.0f} s\n{self.log.read_text()[-3000:]}"
            assert self.running.poll() is None, f"ended with {self.running.returncode}\n{self.log.read_text()[-3000:]}"
            time.sleep(0.05)
        return found

    def stop(self) -> int:
        """End the process in order and give its exit status."""
        if self.running.poll() is None:
            self.send(signal.SIGTERM)
        return self.running.wait(timeout=40)

    def kill(self) -> None:
        """End the process if it is still there."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def spooled(self, table: str) -> list[Record]:
        """Read what the spool of an ended process holds of a table."""
        spool = Spool(self.directory / "state" / "spool")
        rows: list[Record] = []
        try:
            while taken := spool.take(1000):
                rows += [row for message in taken if message.table == table for row in decode(message.body).rows]
        finally:
            spool.close()
        return rows


def free_port() -> int:
    """Find a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
