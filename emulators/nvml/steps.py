"""Field cases as steps: a machine of eight healthy H100s, and what is then done to it.

A step is one JSON object: `{"gpu": 3, "set": {...}}` changes one GPU's block, `{"state": {...}}` the machine, `{"fault": "call@slot",
"rc": 15}` or `"crash": true` lets a call fail, `{"lib": "hide", "symbols": [...]}` takes calls away from the library.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulators.nvml.machine import NvmlMachine
from emulators.nvml.profiles import NOT_SUPPORTED, support
from emulators.nvml.variants import CURRENT, Variant
from emulators.state import GpuState

# Names that steps use for members of the state.
_NAMES = {"dev_rc": "device_rc", "mem_temp": "memory_temp_c", "replay": "pcie_replay", "temp": "temp_c", "fan": "fan_percent"}


@dataclass(frozen=True)
class Steps:
    """The steps of one case."""

    id: str
    steps: tuple[dict[str, Any], ...]

    @property
    def variant(self) -> Variant:
        """The library that the steps ask for."""
        hidden = frozenset(symbol for step in self.steps if step.get("lib") == "hide" for symbol in step["symbols"])
        return Variant(name=self.id.lower(), hidden=hidden) if hidden else CURRENT

    def machine(self, state_path: Path, cache_dir: Path | None = None) -> NvmlMachine:
        """Make the machine as it is before the first step."""
        gpus = [
            GpuState(gpu_uuid=f"GPU-{slot:08x}-0000-4000-8000-000000000000", serial=f"165252400{slot:04d}", pci=pci, gpu_index=slot)
            for slot, pci in enumerate(f"0000:{0x53 + 0x11 * slot:02x}:00" for slot in range(8))
        ]
        return NvmlMachine(state_path, boot_id="11111111-2222-3333-4444-555555555555", gpus=gpus, cache_dir=cache_dir, variant=self.variant)

    def take(self, machine: NvmlMachine) -> None:
        """Take all steps, in order and at their time."""
        for step in self.steps:
            time.sleep(step.get("after_ms", 0) / 1000)
            _take(machine, step)


def read_steps(path: Path) -> Steps:
    """Read a case."""
    case = json.loads(path.read_text())
    return Steps(case["id"], tuple(case["steps"]))


def _take(machine: NvmlMachine, step: dict[str, Any]) -> None:
    if "gpu" in step:
        _set_gpu(machine, step["gpu"], step["set"])
    elif "state" in step:
        with machine.edit_machine() as whole:
            for name, value in step["state"].items():
                setattr(whole, "count" if name == "ngpu" else name, value)
    elif "fault" in step:
        symbol, _, slot = step["fault"].partition("@")
        action = "abort" if step.get("crash") else "rc"
        machine.fault(symbol, slot=int(slot) if slot else None, action=action, rc=step.get("rc", 0), calls=step.get("calls", -1))


def _set_gpu(machine: NvmlMachine, slot: int, values: dict[str, Any]) -> None:
    with machine.edit_slot(slot) as block:
        for name, value in values.items():
            member = _NAMES.get(name, name)
            setattr(block, member, value)
            if member == "memory_temp_c" and value == 0:  # a part without the sensor
                support(block, memory_temp_c=NOT_SUPPORTED)
