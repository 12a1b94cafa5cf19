"""An emulated machine and the source that reads it."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from emulators.nvml.header import HeaderMissing, find_header
from emulators.nvml.machine import NvmlMachine
from emulators.state import GpuState
from ingest.clock import NS, ManualClock
from ingest.nvml import NvmlSource

MakeMachine = Callable[..., NvmlMachine]
OpenSource = Callable[..., Awaitable[NvmlSource]]


@pytest.fixture(scope="session")
def nvml_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of built libraries; skips where nothing can be built."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler named cc")
    try:
        find_header()
    except HeaderMissing as missing:
        pytest.skip(str(missing))
    return tmp_path_factory.mktemp("nvml")


@pytest.fixture
def eight_gpus() -> list[GpuState]:
    """Eight idle H100s."""
    return [
        GpuState(
            gpu_uuid=f"GPU-{slot:08x}-0000-4000-8000-000000000000",
            serial=f"165252400{slot:04d}",
            pci=f"0000:{0x1B + slot:02x}:00",
            gpu_index=slot,
        )
        for slot in range(8)
    ]


@pytest.fixture
def make_machine(nvml_cache: Path, tmp_path: Path) -> Iterator[MakeMachine]:
    """Make machines that are put away after the test."""
    with ExitStack() as stack:

        def make(gpus: list[GpuState], **options: Any) -> NvmlMachine:
            options = {"boot_id": "11111111-2222-3333-4444-555555555555", "cache_dir": nvml_cache, **options}
            path = tmp_path / f"machine-{len(list(tmp_path.iterdir()))}"
            return stack.enter_context(closing(NvmlMachine(path, gpus=gpus, **options)))

        yield make


@pytest.fixture
def machine(make_machine: MakeMachine, eight_gpus: list[GpuState]) -> NvmlMachine:
    """Give a machine of eight idle H100s."""
    return make_machine(eight_gpus)


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
        options = {"environment": machine.environment(), "boot_id_path": boot_id_path, "deadline_s": 1.0, **options}
        source = NvmlSource("gpu001", clock=clock, **options)
        opened.append(source)
        await source.open()
        return source

    yield open_source
    for source in opened:
        await source.close()
