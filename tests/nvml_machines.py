"""Emulated machines for every test that reads NVML, with the library built once per session; a conftest imports what its tests use."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from emulators.nvml.header import HeaderMissing, find_header
from emulators.nvml.machine import NvmlMachine
from emulators.state import GpuState

MakeMachine = Callable[..., NvmlMachine]


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
