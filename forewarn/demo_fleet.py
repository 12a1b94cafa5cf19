"""The live part's processes: the emulated fleet, the example consumer and `forewarn up`, each the real command on a real configuration."""

from __future__ import annotations

import base64
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import requests
import tomli_w

from ingest.errors import ForewarnError

_PORTS = range(20_000, 32_000)  # below those that Linux hands out
_READY_S = 60.0  # wall seconds that a process may take until it is ready


@dataclass
class LiveFleet:
    """Children of the demo; `stop` ends them all, the newest first, each with the time to leave in order."""

    directory: Path
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, name: str, arguments: Sequence[str]) -> None:
        """Start `forewarn` with the given arguments; its output goes to a log beside the lake."""
        log = (self.directory / f"{name}.log").open("ab")
        environment = {key: value for key, value in os.environ.items() if not key.startswith("FOREWARN__")}
        self.children.append(
            subprocess.Popen(
                [sys.executable, "-m", "forewarn", *arguments], stdout=log, stderr=log, env=environment, start_new_session=True
            )
        )
        log.close()

    def require_alive(self) -> None:
        """Raise where a child has ended by itself."""
        for child in self.children:
            if child.poll() is not None:
                command = " ".join(str(part) for part in child.args[3:5]) if isinstance(child.args, list) else str(child.args)
                raise ForewarnError(f"forewarn {command} ended with code {child.returncode}: see the logs in {self.directory}")

    def wait_for(self, file: Path) -> None:
        """Wait until a child has written a file."""
        deadline = time.monotonic() + _READY_S
        while not file.exists():
            self.require_alive()
            if time.monotonic() > deadline:
                raise ForewarnError(f"{file} did not appear within {_READY_S:.0f} s: see the logs in {self.directory}")
            time.sleep(0.05)

    def wait_until_up(self, url: str) -> None:
        """Wait until `forewarn up` answers at the address of its API."""
        deadline = time.monotonic() + _READY_S
        while True:
            with suppress(requests.RequestException):
                if requests.get(f"{url}/healthz", timeout=2).ok:
                    return
            self.require_alive()
            if time.monotonic() > deadline:
                raise ForewarnError(f"forewarn up did not answer within {_READY_S:.0f} s: see {self.directory / 'up.log'}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Ask every child to leave, then wait for it."""
        for child in reversed(self.children):
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
            try:
                child.wait(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        self.children.clear()


def free_port() -> int:
    """Find a port that is free now and that the system will not give to somebody who asks for any."""
    while True:
        port = secrets.choice(_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def write_secret(file: Path) -> Path:
    """Make a webhook secret, readable by its owner alone."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as handle:
        handle.write("whsec_" + base64.b64encode(secrets.token_bytes(24)).decode())
    return file


def write_configuration(file: Path, values: Mapping[str, Any]) -> Path:
    """Write a configuration file."""
    file.write_text(tomli_w.dumps(values))
    return file


def live_configuration(directory: Path, bus: Mapping[str, Any], ports: tuple[int, int], cadence_s: float) -> dict[str, Any]:
    """Compose the configuration of the live part from what the emulated fleet says of its devices."""
    api_port, consumer_port = ports
    endpoints: dict[str, Any] = msgspec.json.decode((directory / "fleet" / "endpoints.json").read_bytes())
    keys = directory / "secrets"
    return {
        "fleet": {
            "cluster": "demo",
            "state_dir": str(directory / "state"),
            "clock_file": str(directory / "clock"),
        },
        "lake": {"path": str(directory / "lake")},
        "bus": dict(bus),
        "collect": {**_pace(cadence_s), **_sources(endpoints["nodes"]), **_scheduler(endpoints["scheduler"])},
        "write": {"max_age_s": 1.5},
        "score": {"every_s": 3600.0, "stale_after_s": 7200.0},
        "alert": {
            "max_score_age_h": 6.0,
            "webhook_url": f"http://127.0.0.1:{consumer_port}/webhook",
            "secret_file": str(keys / "webhook"),
            "ack_secrets": {"log": str(keys / "acks"), "operator": str(keys / "operator")},
            "port": api_port,
        },
        "consume": {"port": consumer_port, "secret_file": str(keys / "webhook"), "ack_secret_file": str(keys / "acks")},
    }


def _pace(cadence_s: float) -> dict[str, Any]:
    return {
        "interval_s": cadence_s,
        "warm_interval_s": cadence_s,
        "cold_interval_s": 21_600.0,
        "link_interval_s": 21_600.0,
        "chassis_interval_s": 3600.0,
        "jobs_interval_s": 1800.0,
        "metrics_port": 0,
    }


def _sources(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "nvml": [
            {"node": node, "environment": dict(at["nvml"]["environment"]), "boot_id_file": at["nvml"]["boot_id_file"]}
            for node, at in nodes.items()
            if at.get("nvml")
        ],
        "exporter": {node: at["exporter"] for node, at in nodes.items() if at.get("exporter")},
        "kernel_log": {node: at["kernel_log"] for node, at in nodes.items()},
        "redfish": [
            {
                "node": node,
                "url": at["bmc"]["url"],
                "username": at["bmc"]["username"],
                "password_file": str(at["bmc"]["password_file"]),
                "verify": False,
            }
            for node, at in nodes.items()
            if at.get("bmc")
        ],
    }


def _scheduler(commands: Mapping[str, str]) -> dict[str, Any]:
    return {name: [command, "--json"] for name, command in commands.items()}
