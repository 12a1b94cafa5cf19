"""The controller of an emulated machine: it owns the state file, shows GPU states in it and lets things happen to them."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from emulators.nvml import semantics
from emulators.nvml.build import LIBRARY, WRITER, build_library
from emulators.nvml.layout import ABI, FAULTS, GPUS, MAGIC, NO_INSTANCE, Event, State
from emulators.nvml.profiles import Profile, apply_profile, profile_of
from emulators.nvml.show import link_values, show_gpu, show_identity, show_links
from emulators.nvml.variants import CURRENT, Variant
from emulators.state import GpuState

XID = 0x8  # nvmlEventTypeXidCriticalError
FAULT_ACTIONS = {"rc": 1, "abort": 2, "segv": 3}
FIELD_LATENCY_US = 30  # what a field value says that it took
LOST, DRIVER_NOT_LOADED = 15, 9


class NvmlMachine:
    """One emulated node as NVML shows it; every process that loads the library with `environment()` sees it live."""

    def __init__(
        self,
        state_path: Path,
        *,
        boot_id: str,
        gpus: Sequence[GpuState],
        driver_version: str | None = None,
        cache_dir: Path | None = None,
        variant: Variant = CURRENT,
        is_privileged: bool = True,
    ) -> None:
        self.state_path = state_path
        self.library_dir = build_library(cache_dir, variant)
        self._writer = ctypes.CDLL(str(self.library_dir / WRITER))
        profile = profile_of(gpus[0].gpu_model if gpus else "")
        state_path.write_bytes(bytes(ctypes.sizeof(State)))
        with state_path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), ctypes.sizeof(State))
        self.state = State.from_buffer(self._map)
        self.state.size, self.state.abi = ctypes.sizeof(State), ABI
        with self.edit_machine() as machine:
            machine.boot_id = boot_id.encode()
            machine.is_privileged, machine.is_persistent = is_privileged, profile.is_persistent
            machine.cuda_version = profile.cuda_version
            _set_driver(machine, driver_version or profile.driver_version)
        self._uuids: list[str] = []
        self._links: list[list[tuple[Any, ...]]] = [[] for _ in range(GPUS)]  # as last shown
        self.show(gpus)
        self.state.magic = MAGIC

    def environment(self) -> dict[str, str]:
        """Variables that make a process load this machine's NVML."""
        return {"LD_LIBRARY_PATH": str(self.library_dir), "NVML_EMU_STATE": str(self.state_path)}

    @property
    def library(self) -> Path:
        """The library itself, for processes that load it by path."""
        return self.library_dir / LIBRARY

    def seat_captured(self, profile: Profile) -> list[str]:
        """Seat the GPUs of a captured machine as they were, idle; gives their UUIDs."""
        seats = [
            GpuState(
                gpu_uuid=f"GPU-{slot:08x}-{profile.cuda_version:04x}-4000-8000-000000000000",
                serial=f"1650{slot:09d}",
                pci=pci,
                gpu_index=slot,
                gpu_model=profile.model,
            )
            for slot, pci in enumerate(profile.addresses)
        ]
        for slot, gpu in enumerate(seats):
            with self.edit_slot(slot) as block:
                self._seat(slot, gpu, block)
        with self.edit_machine() as machine:
            machine.cuda_version, machine.is_persistent, machine.init_rc = profile.cuda_version, profile.is_persistent, 0
            _set_driver(machine, profile.driver_version)
        self.order([gpu.gpu_uuid for gpu in seats])
        return [gpu.gpu_uuid for gpu in seats]

    def show(self, gpus: Sequence[GpuState]) -> None:
        """Make the machine look like this, all at once per GPU; an empty list is a machine without its driver."""
        assert len(gpus) <= GPUS, f"BUG: the layout has room for {GPUS} GPUs"
        for slot, gpu in enumerate(gpus):
            with self.edit_slot(slot) as block:
                if slot >= len(self._uuids) or self._uuids[slot] != gpu.gpu_uuid:
                    self._seat(slot, gpu, block)
                show_gpu(gpu, block)
                if (links := link_values(gpu.links)) != self._links[slot]:
                    show_links(links, block)
                    self._links[slot] = links
                block.device_rc = block.handle_rc = LOST if gpu.is_lost else 0
        listed = [slot for slot, gpu in enumerate(gpus) if not gpu.is_hidden]
        if listed != self.listed or (not gpus) != (self.state.machine.init_rc == DRIVER_NOT_LOADED):
            with self.edit_machine() as machine:
                machine.slots[: len(listed)] = listed
                machine.count = len(listed)
                machine.init_rc = 0 if gpus else DRIVER_NOT_LOADED

    @property
    def listed(self) -> list[int]:
        """Slots in the order of NVML's index."""
        return list(self.state.machine.slots[: self.state.machine.count])

    def _seat(self, slot: int, gpu: GpuState, block: Any) -> None:
        """Put another GPU into a slot: its model's baseline, its identity, no handle of the one before."""
        generation = block.generation + 1
        ctypes.memset(ctypes.addressof(block), 0, ctypes.sizeof(block))
        block.generation, block.field_latency_us = generation, FIELD_LATENCY_US
        apply_profile(profile_of(gpu.gpu_model), slot, block)
        show_identity(gpu, block)
        block.minor = slot
        self._uuids[slot:] = [gpu.gpu_uuid]
        self._links[slot] = []

    @contextmanager
    def edit_slot(self, slot: int) -> Iterator[Any]:
        """Change the block of a slot at will; readers see all of it or nothing."""
        seq = ctypes.byref(self.state, State.gpu_seq.offset + 4 * slot)
        self._writer.emu_begin(seq)
        try:
            yield self.state.gpus[slot]
        finally:
            self._writer.emu_commit(seq)

    @contextmanager
    def edit(self, gpu_uuid: str) -> Iterator[Any]:
        """Change a GPU's block at will."""
        with self.edit_slot(self.slot(gpu_uuid)) as block:
            yield block

    @contextmanager
    def edit_machine(self) -> Iterator[Any]:
        """Change what is true of the whole machine; readers see all of it or nothing."""
        seq = ctypes.byref(self.state, State.machine_seq.offset)
        self._writer.emu_begin(seq)
        try:
            yield self.state.machine
        finally:
            self._writer.emu_commit(seq)

    def slot(self, gpu_uuid: str) -> int:
        """Tell the slot of a GPU."""
        return self._uuids.index(gpu_uuid)

    def advance(self, seconds: float) -> None:
        """Let scenario time pass: counters that run by themselves run, and field values carry the new time."""
        with self.edit_machine() as machine:
            machine.scenario_ns += int(seconds * 1e9)
        for slot in range(len(self._uuids)):
            with self.edit_slot(slot) as block:
                semantics.advance(block, seconds)

    def reset_gpu(self, gpu_uuid: str) -> None:
        """Reset one GPU."""
        with self.edit(gpu_uuid) as block:
            semantics.restart(block)

    def reload_driver(self, version: str | None = None) -> None:
        """Load the driver anew, possibly another version: then processes that loaded the library before get code 18 for ever."""
        for slot in range(len(self._uuids)):
            with self.edit_slot(slot) as block:
                semantics.restart(block)
        with self.edit_machine() as machine:
            machine.driver_generation += 1
            if version is not None:
                _set_driver(machine, version)
        self._writer.emu_ring(ctypes.byref(self.state, State.bell.offset))

    def reboot(self, boot_id: str) -> None:
        """Start the whole node anew."""
        with self.edit_machine() as machine:
            machine.boot_id = boot_id.encode()
        self.reload_driver()

    def order(self, gpu_uuids: Sequence[str]) -> None:
        """List GPUs in this order; those left out are not listed."""
        with self.edit_machine() as machine:
            machine.slots[: len(gpu_uuids)] = [self.slot(uuid) for uuid in gpu_uuids]
            machine.count = len(gpu_uuids)

    def post_xid(self, gpu_uuid: str, code: int, *, gpu_instance: int | None = None, compute_instance: int | None = None) -> None:
        """Let an XID happen: whoever waits for events of this GPU gets it."""
        self.post_event(gpu_uuid, XID, code, gpu_instance=gpu_instance, compute_instance=compute_instance)

    def post_event(
        self, gpu_uuid: str, kind: int, data: int = 0, *, gpu_instance: int | None = None, compute_instance: int | None = None
    ) -> None:
        """Let an event of any type happen."""
        event = Event(
            type=kind,
            data=data,
            timestamp_us=self.state.machine.scenario_ns // 1000,
            gpu_instance=NO_INSTANCE if gpu_instance is None else gpu_instance,
            compute_instance=NO_INSTANCE if compute_instance is None else compute_instance,
        )
        self._writer.emu_post(ctypes.byref(self.state), self.slot(gpu_uuid), ctypes.byref(event))

    def fault(
        self,
        symbol: str,
        *,
        slot: int | None = None,
        action: str = "rc",
        rc: int = 0,
        calls: int = -1,
        latency_us: int = 0,
        holds_lock: bool = False,
    ) -> None:
        """Let a call fail: everywhere or on one slot, for ever or for so many calls."""
        place = next(at for at in range(FAULTS) if not self.state.faults[at].action)
        self.state.fault_calls[place] = calls
        with self.edit_machine():
            fault = self.state.faults[place]
            fault.symbol = (symbol if slot is None else f"{symbol}@{slot}").encode()
            fault.rc, fault.latency_us, fault.holds_lock = rc, latency_us, holds_lock
            fault.action = FAULT_ACTIONS[action]

    def clear_faults(self) -> None:
        """End all faults; a call that hangs goes on hanging."""
        with self.edit_machine():
            for fault in self.state.faults:
                fault.action = 0

    def close(self) -> None:
        """Let go of the state file; processes that have it mapped keep it."""
        del self.state, self._map


def _set_driver(machine: Any, version: str) -> None:
    machine.driver_version = version.encode()
    machine.nvml_version = f"{machine.cuda_version // 1000}.{version}".encode()
