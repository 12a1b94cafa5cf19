"""Where the judges are: validators, clients and tools of others, each kind in a virtual environment that `make judges` makes."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def judge(kind: str, command: str) -> Path:
    """Find a command of one kind of judges; where it is not installed the test is skipped and says how to install it."""
    path = ROOT / ".venv" / "judges" / kind / "bin" / command
    if not path.exists():
        pytest.skip(f"{command} is not installed: run `make judges`")
    return path
