"""A process that has loaded everything and forks children that run a command: a life begins within a tenth of a second instead of two.

Told over standard input, a JSON line each: `{"module": ..., "arguments": [...], "directory": ..., "log": ..., "code": ...}`; it answers
with the child's pid. A child that ends by itself leaves its exit code in the file `code`; one that is killed leaves none.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

MODULES = ("forewarn.cli", "tests.faults.compactor")
_LOADED_AHEAD = (
    *MODULES,
    "forewarn.collecting",
    "forewarn.compose",
    "forewarn.commands.ingestion",
    "forewarn.health",
    "forewarn.systemd",
    "forewarn.vitals",
    "ingest.collector",
    "ingest.exporter",
    "ingest.kafka_bus",
    "ingest.kernel_log",
    "ingest.lake",
    "ingest.spool",
    "ingest.writer",
    "ingest.xid_merge",
)


class Child:
    """A child of the nursery, with the part of `subprocess.Popen` that the plant uses."""

    def __init__(self, pid: int, code_file: Path) -> None:
        self.pid = pid
        self._code_file = code_file
        self._handle = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Give the exit code where it has ended, minus SIGKILL where it left none."""
        return self._code() if select.select([self._handle], [], [], 0)[0] else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        if not select.select([self._handle], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return self._code()

    def kill(self) -> None:
        """End it at once."""
        signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to leave."""
        signal.pidfd_send_signal(self._handle, signal.SIGTERM)

    def _code(self) -> int:
        return int(self._code_file.read_text()) if self._code_file.exists() else -signal.SIGKILL


class Nursery:
    """The forking process; `close` leaves the children alone."""

    def __init__(self, root: Path) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("FOREWARN__")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment | {"PYTHONPATH": str(root)},
            cwd=root,
            text=True,
        )

    def fork(self, module: str, arguments: Sequence[str], *, log: Path, code_file: Path) -> Child:
        """Begin a life."""
        assert self._process.stdin
        assert self._process.stdout
        code_file.unlink(missing_ok=True)
        order = {"module": module, "arguments": list(arguments), "log": str(log), "code": str(code_file)}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return Child(int(self._process.stdout.readline()), code_file)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


def live(order: Mapping[str, str]) -> int:
    """Run a command in a child and give its exit code."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing), (1, log), (2, log)):
        os.dup2(source, target)
    sys.argv = [order["module"], *order["arguments"]]
    try:
        importlib.import_module(order["module"]).main()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    return 0


def main() -> None:
    """Load, then fork as told."""
    for module in _LOADED_AHEAD:
        importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system buries them
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            code = live(order)
            sys.stdout.flush()
            Path(order["code"]).write_text(str(code))
            os._exit(code)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
