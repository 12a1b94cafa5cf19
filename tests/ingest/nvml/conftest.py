"""An emulated machine and the source that reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from emulators.nvml.machine import NvmlMachine
from ingest.clock import NS, ManualClock
from ingest.nvml.source import NvmlSource
from tests.nvml_machines import eight_gpus, machine, make_machine, nvml_cache

__all__ = ["eight_gpus", "machine", "make_machine", "nvml_cache"]

OpenSource = Callable[..., Awaitable[NvmlSource]]


@pytest.fixture
def clock() -> ManualClock:
    """Give fleet time that moves only when told to."""
    return ManualClock(1_750_000_000 * NS)


@pytest.fixture
def boot_id_path(tmp_path: Path) -> Path:
    """Give the file that names the boot."""
    path = tmp_path / "boot_id"
    path.write_text("11111111-2222-3333-4444-555555555555\n")
    return path


@pytest_asyncio.fixture
async def open_source(machine: NvmlMachine, clock: ManualClock, boot_id_path: Path) -> AsyncIterator[OpenSource]:
    """Open sources that are closed after the test."""
    opened: list[NvmlSource] = []

    async def open_source(**options: Any) -> NvmlSource:
        options = {"environment": machine.environment(), "boot_id_path": boot_id_path, "deadline_s": 1.0, "start_wait_s": 60, **options}
        source = NvmlSource("gpu001", clock=clock, **options)
        opened.append(source)
        await source.open()
        return source

    yield open_source
    for source in opened:
        await source.close()
