"""Single emulated devices for anyone's own tools: an NVML library over a state file, and a BMC on a port."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from emulators.bmc.profile import PROFILES as BMC_PROFILES
from emulators.bmc.server import Bmc
from emulators.nvml.machine import NvmlMachine
from emulators.nvml.profiles import PROFILES as GPU_PROFILES
from emulators.state import ChassisState, GpuState
from forewarn.extras import build_tools_named
from ingest.errors import ConfigError


def make_nvml(profile: str, gpus: int, directory: Path) -> dict[str, str]:
    """Make a healthy machine's library and state file; gives the environment under which any program reads them."""
    model = next((each for each in GPU_PROFILES if each.column.lower().startswith(profile.lower())), None)
    if model is None:
        known = ", ".join(each.column.split("-")[0].lower() for each in GPU_PROFILES)
        raise ConfigError(f"--profile {profile}: no such model: choose one of {known}")
    directory.mkdir(parents=True, exist_ok=True)
    state = (directory / "nvml.state").resolve()
    with build_tools_named():
        machine = NvmlMachine(state, boot_id="00000000-0000-4000-8000-000000000001", gpus=_gpus(gpus, model.model))
    environment = machine.environment()
    machine.close()
    return dict(environment)


async def serve_bmc(profile: str, port: int, say: Callable[[str], None]) -> None:
    """Serve one BMC of a healthy node until cancelled."""
    if profile not in BMC_PROFILES:
        raise ConfigError(f"--profile {profile}: no such BMC: choose one of {', '.join(BMC_PROFILES)}")
    gpus = _gpus(8, "NVIDIA H100 80GB HBM3")
    chassis = ChassisState(node="node1", serial="1571423000123")
    bmc = Bmc("node1", read_state=lambda: (chassis, gpus), now_ns=time.time_ns, profile=profile)
    url = await bmc.start(port=port)
    say(f"{url}  user forewarn  password forewarn-test")
    try:
        await asyncio.Event().wait()
    finally:
        await bmc.stop()


def _gpus(number: int, model: str) -> list[GpuState]:
    return [
        GpuState(
            gpu_uuid=f"GPU-{slot:08x}-0000-4000-8000-{slot:012x}",
            serial=f"165252400{slot:04d}",
            pci=f"0000:{0x10 + 0x0B * slot:02x}:00",
            gpu_index=slot,
            gpu_model=model,
        )
        for slot in range(number)
    ]
