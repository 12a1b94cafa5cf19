"""A real Slurm for tests, with accounting: four nodes of eight GPUs on loopback, all its state in one directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

SERVICES = Path(__file__).parent / "services"
NEEDED = ("munged", "slurmctld", "slurmd", "slurmrestd", "slurmdbd", "mariadbd")


@dataclass(frozen=True)
class Slurm:
    """A running cluster; its commands are run with `run`, or by others with `environment`; `rest` is slurmrestd over TCP, with tokens."""

    directory: Path
    environment: dict[str, str]
    rest: str

    def run(self, *command: str) -> str:
        """Run one of Slurm's commands: what it prints."""
        done = subprocess.run(
            command, env=os.environ | self.environment, cwd=self.directory, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout.strip()

    @property
    def rest_socket(self) -> str:
        """Address of the slurmrestd that knows root by its socket."""
        return f"unix:{self.directory / 'rest.socket'}"

    def command(self, *command: str) -> tuple[str, ...]:
        """Give a command that others can run as it stands: it finds this cluster."""
        return ("env", *(f"{name}={value}" for name, value in self.environment.items()), *command)


@contextmanager
def running_slurm(nodes: int = 4, **settings: str) -> Iterator[Slurm]:
    """Run a cluster; skips where there is no Slurm or no root."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed: deploy/system_packages.sh installs it as root")
    if os.geteuid() != 0:
        pytest.skip("Slurm's daemons run jobs of others and so need root")
    first = 17_000 + os.getpid() % 500 * 20
    ports = {"CTLD_PORT": str(first), "REST_PORT": str(first + 1), "DBD_PORT": str(first + 2), "SLURMD_BASE": str(first + 2)}
    # Slurm's sockets allow no long path, so not pytest's own directory.
    with tempfile.TemporaryDirectory(prefix="forewarn-slurm-") as name:
        directory = Path(name)
        try:
            _start(directory, nodes, ports | {"ACCOUNTING": "1", "START_TIMEOUT": "120"} | settings)
            environment = {"SLURM_CONF": str(directory / "etc" / "slurm.conf"), "TZ": "UTC"}
            yield Slurm(directory, environment, rest=f"http://127.0.0.1:{ports['REST_PORT']}")
        finally:
            subprocess.run([SERVICES / "slurm_stop.sh", directory], check=False, timeout=60)


def _start(directory: Path, nodes: int, settings: dict[str, str]) -> None:
    """Start it; its daemons write into files, for a pipe that they inherit would never end."""
    with (directory / "start.log").open("w") as log:
        command = [SERVICES / "slurm_start.sh", directory, str(nodes)]
        done = subprocess.run(command, env=os.environ | settings, stdout=log, stderr=log, timeout=180, check=False)
    assert done.returncode == 0, (directory / "start.log").read_text()[-3000:]
