"""Waits for NVML events in a thread of its own; an event wait that fails never spins: the set is made anew with back-off."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pynvml as nvml

from ingest.nvml.calls import Handle, address, attempt
from ingest.nvml.codes import TIMEOUT
from ingest.nvml.protocol import Happened, Listening, ToSupervisor

XID = 0x8
# XID, uncorrected ECC, storm of corrected, DRAM retirement and its failure, poison, GPU unavailable, recovery action. Single corrected
# errors are counted, not told one by one.
WANTED = XID | 0x2 | 0x200 | 0x400 | 0x800 | 0x1000 | 0x2000 | 0x4000 | 0x8000
WAIT_MS = 2000
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 30.0
_WHOLE = 0xFFFFFFFF


class EventThread(threading.Thread):
    """Tells each event once, from the moment the thread has registered for it."""

    def __init__(self, tell: Callable[[ToSupervisor], None]) -> None:
        super().__init__(name="nvml-events", daemon=True)
        self._tell = tell
        self._uuids: dict[int, str] = {}  # by address of the handle
        self._is_up: bool | None = None

    def run(self) -> None:
        """Listen for ever."""
        pause_s = _FIRST_PAUSE_S
        while True:
            code, events = attempt(nvml.nvmlEventSetCreate)
            if code == 0:
                code = self._register(events) or self._listen(events)
                attempt(lambda events=events: nvml.nvmlEventSetFree(events))  # type: ignore[misc]
            pause_s = _FIRST_PAUSE_S if self._is_up else min(2 * pause_s, _LONGEST_PAUSE_S)
            self._say(False, f"NVML return code {code}")
            time.sleep(pause_s)

    def _register(self, events: Handle) -> int:
        """Register every GPU that takes events; gives the last return code when none does."""
        self._uuids.clear()
        code = 0
        count = attempt(nvml.nvmlDeviceGetCount)[1] or 0
        for index in range(count):
            code, _ = attempt(lambda index=index: self._register_gpu(index, events))  # type: ignore[misc]
        return 0 if self._uuids else code or nvml.NVML_ERROR_NOT_FOUND

    def _register_gpu(self, index: int, events: Handle) -> None:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        types = nvml.nvmlDeviceGetSupportedEventTypes(handle) & WANTED
        uuid = nvml.nvmlDeviceGetUUID(handle)
        nvml.nvmlDeviceRegisterEvents(handle, types, events)
        self._uuids[address(handle)] = uuid

    def _listen(self, events: Handle) -> int:
        """Tell events until waiting fails; gives the code it failed with."""
        while True:
            code, event = attempt(lambda: nvml.nvmlEventSetWait_v2(events, WAIT_MS))
            if code in (0, TIMEOUT):
                self._say(True)
            if event is not None:
                self._tell(
                    Happened(
                        self._uuids.get(address(event.device), ""),
                        int(event.eventType),
                        int(event.eventData),
                        _instance(event.gpuInstanceId),
                        _instance(event.computeInstanceId),
                    )
                )
            elif code != TIMEOUT:
                return code

    def _say(self, is_up: bool, detail: str = "") -> None:
        if is_up is not self._is_up:
            self._is_up = is_up
            self._tell(Listening(is_up, detail))


def _instance(number: int) -> int | None:
    return None if number == _WHOLE else int(number)
