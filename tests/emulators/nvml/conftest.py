"""An emulated machine to look at, with the library built once per session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from emulators.nvml.machine import NvmlMachine
from tests.nvml_machines import eight_gpus, machine, make_machine, nvml_cache

__all__ = ["eight_gpus", "machine", "make_machine", "nvml_cache"]


class Client:
    """A process of its own that calls NVML on request."""

    def __init__(self, machine: NvmlMachine, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "client.py")],
            env={**os.environ, **machine.environment(), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.started = self.ask("init()")

    def send(self, expression: str) -> None:
        """Ask without waiting for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(expression + "\n")
        self._process.stdin.flush()

    def answer(self) -> tuple[int, Any]:
        """Wait for the answer: return code and value; (-2, None) from a process that is dead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        code, value = json.loads(line) if line else (-2, None)
        return code, value

    def ask(self, expression: str) -> tuple[int, Any]:
        """Evaluate: return code and value."""
        self.send(expression)
        return self.answer()

    def __call__(self, expression: str) -> Any:
        """Evaluate what must succeed."""
        code, value = self.ask(expression)
        assert code == 0, f"{expression} gave {code}"
        return value

    def code(self, expression: str) -> int:
        """Evaluate for the return code."""
        return self.ask(expression)[0]

    def wait(self) -> int:
        """Wait for the end of the process: its exit status."""
        self._process.communicate(timeout=10)
        return self._process.returncode

    def close(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


@pytest.fixture
def connect() -> Iterator[Callable[..., Client]]:
    """Start clients that end with the test."""
    with ExitStack() as stack:
        yield lambda machine, **environment: stack.enter_context(closing(Client(machine, **environment)))


@pytest.fixture
def client(machine: NvmlMachine, connect: Callable[..., Client]) -> Client:
    """Give a client of the machine of eight idle H100s."""
    return connect(machine)
