"""The process that calls NVML for one node: `python -m ingest.nvml.worker SOCKET PROGRESS`, both inherited file descriptors.

GPUs are read in threads (`lanes`), so that a hung call costs its GPU alone; the main thread only looks handles up, anew when the
device count changes or a handle is lost. The kernel ends the process with its supervisor, whatever hangs.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import socket
import sys
import threading
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import pynvml as nvml

from ingest.nvml.calls import address, attempt
from ingest.nvml.codes import UNKNOWN
from ingest.nvml.events import EventThread
from ingest.nvml.lanes import Lane, Lanes, Outcome
from ingest.nvml.protocol import (
    EXIT_BASE,
    EXIT_UNKNOWN,
    HEAD_BYTES,
    Answer,
    Ask,
    Hello,
    Reading,
    Seat,
    ToSupervisor,
    frame,
    to_worker,
)
from ingest.nvml.reader import GpuReader

PROGRESS_BYTES = 64
_LISTED_GPUS = 32
_PR_SET_PDEATHSIG = 1


class Channel:
    """The socket to the supervisor; any thread may send."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._stream = self._socket.makefile("rb")
        self._lock = threading.Lock()

    def send(self, message: ToSupervisor) -> None:
        """Send one message; the supervisor's end is ours."""
        with self._lock:
            try:
                self._socket.sendall(frame(message))
            except OSError:
                os._exit(0)

    def receive(self) -> Any:
        """Wait for the next message; None when the supervisor is gone."""
        head = self._stream.read(HEAD_BYTES)
        body = self._stream.read(int.from_bytes(head, "big")) if len(head) == HEAD_BYTES else b""
        try:
            return to_worker.decode(body)
        except msgspec.DecodeError:
            return None


class Worker:
    """The GPUs of the node as this process knows them."""

    def __init__(self, progress: mmap.mmap) -> None:
        self._progress = progress
        self.driver_version: str = nvml.nvmlSystemGetDriverVersion()
        self._lost_indices: tuple[int, ...] = ()
        self._count = 0
        self.lanes = Lanes([], self._mark)
        self.find_gpus()

    def _mark(self, place: int, is_reading: bool) -> None:
        self._progress[place] = is_reading

    @property
    def seats(self) -> tuple[Seat, ...]:
        """Who is where, in the order of the progress page."""
        return tuple(lane.reader.seat for lane in self.lanes.lanes)

    def find_gpus(self) -> None:
        """Look up every listed GPU; known ones keep their lane and what is known of their capabilities."""
        known = {lane.gpu_uuid: lane for lane in self.lanes.lanes}
        lost = []
        self._count = nvml.nvmlDeviceGetCount()
        for index in range(min(self._count, _LISTED_GPUS)):
            _, found = attempt(lambda index=index: _find(index))  # type: ignore[misc]
            if found is None:
                lost.append(index)
                continue
            handle, seat = found
            if (lane := known.get(seat.gpu_uuid)) is None:
                self.lanes.lanes.append(Lane(GpuReader(handle, seat), place=len(self.lanes.lanes) % PROGRESS_BYTES))
            else:
                lane.reader.handle, lane.reader.seat, lane.is_listed = handle, seat, True
                known.pop(seat.gpu_uuid)
        for lane in known.values():
            lane.is_listed = lane.reader.seat.index in lost
        self._lost_indices = tuple(lost)

    def answer(self, ask: Ask) -> Answer:
        """Poll; raises NVMLError when the machine as a whole has no NVML any more."""
        if nvml.nvmlDeviceGetCount() != self._count or self._lost_indices:
            self.find_gpus()
        outcome = self._read(ask, frozenset(ask.skip))
        if fresh := self._renew_lost(outcome.readings):
            outcome.readings.update(self._read(ask, {lane.gpu_uuid for lane in self.lanes.lanes} - fresh).readings)
        readings = [outcome.readings.get(lane.gpu_uuid) or _silent(lane, ask) for lane in self.lanes.lanes if lane.is_listed]
        return Answer(ask.number, self.driver_version, tuple(readings), self._lost_indices, outcome.overran, outcome.is_starved)

    def _read(self, ask: Ask, skip: Collection[str]) -> Outcome:
        outcome = self.lanes.read(ask.tier, with_links=ask.links, deadline_s=ask.deadline_s, skip=skip)
        if outcome.failure is not None:
            raise outcome.failure
        return outcome

    def _renew_lost(self, readings: Mapping[str, Reading]) -> set[str]:
        """Look lost GPUs up again and name those that got a new handle: a reset or driver reload made the old one stale."""
        stale = {lane: address(lane.reader.handle) for lane in self.lanes.lanes if _is_lost(readings.get(lane.gpu_uuid))}
        if stale:
            self.find_gpus()
        fresh = [lane for lane, before in stale.items() if lane.is_listed and address(lane.reader.handle) != before]
        for lane in fresh:
            lane.reader.forget()
        return {lane.gpu_uuid for lane in fresh}


def _is_lost(reading: Reading | None) -> bool:
    return reading is not None and reading.code == "lost"


def _silent(lane: Lane, ask: Ask) -> Reading:
    quality = dict.fromkeys(lane.reader.columns(ask.tier), "timeout")
    return Reading(lane.reader.seat, "timeout", lane.busy_us(), {}, quality)


def _find(index: int) -> tuple[Any, Seat]:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    uuid: str = nvml.nvmlDeviceGetUUID(handle)
    _, serial = attempt(lambda: nvml.nvmlDeviceGetSerial(handle))
    _, pci = attempt(lambda: nvml.nvmlDeviceGetPciInfo(handle))
    _, model = attempt(lambda: nvml.nvmlDeviceGetName(handle))
    return handle, Seat(uuid, index, serial, pci and pci.busId, model)


def serve(channel: Channel, worker: Worker) -> None:
    """Answer until the supervisor has enough."""
    channel.send(Hello(worker.driver_version, worker.seats))
    EventThread(channel.send).start()
    while isinstance(ask := channel.receive(), Ask):
        channel.send(worker.answer(ask))


def main(arguments: list[str]) -> int:
    """Run the worker; the exit status tells the NVML code that ended it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal tells the whole group; the supervisor decides
    channel = Channel(int(arguments[0]))
    progress = mmap.mmap(int(arguments[1]), PROGRESS_BYTES)
    try:
        nvml.nvmlInit()
        serve(channel, Worker(progress))
    except nvml.NVMLError as error:
        return EXIT_UNKNOWN if error.value == UNKNOWN else EXIT_BASE + int(error.value)
    return 0


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # not sys.exit: a hung thread must not keep the process
