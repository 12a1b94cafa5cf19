"""Events and the state file of the emulated library: what reaches other processes, and what a torn or missing file does."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emulators.nvml.machine import NvmlMachine
from emulators.state import GpuState

pytestmark = pytest.mark.nvml
Client = Any
Connect = Callable[..., Client]
FIRST = "GPU-00000000-0000-4000-8000-000000000000"
FOURTH = "GPU-00000003-0000-4000-8000-000000000000"
LISTEN = "keep('s', nvmlEventSetCreate()) or [nvmlDeviceRegisterEvents(x, 0x8, s) for x in h] and 0"


def test_event_from_another_process(machine: NvmlMachine, client: Client) -> None:
    """An event posted by another process arrives within milliseconds; one that was posted before registration never does."""
    machine.post_xid(FIRST, 31)
    client(LISTEN)
    assert client.code("nvmlEventSetWait_v2(s, 0)") == 10
    client.send("nvmlEventSetWait_v2(s, 5000)")
    started = time.monotonic()
    machine.post_xid(FOURTH, 79, gpu_instance=2, compute_instance=1)
    code, event = client.answer()
    assert time.monotonic() - started < 0.5
    assert (code, event["eventType"], event["eventData"], event["gpuInstanceId"], event["computeInstanceId"]) == (0, 8, 79, 2, 1)
    machine.post_xid(FIRST, 999)
    whole = client("nvmlEventSetWait_v2(s, 1000)")
    assert (whole["eventData"], whole["gpuInstanceId"]) == (999, 0xFFFFFFFF)


def test_ring_overflow_loses_the_oldest_and_counts(machine: NvmlMachine, client: Client) -> None:
    """Of 65 events posted while nobody reads, 64 are delivered and one is counted as lost."""
    client(LISTEN)
    for code in range(65):
        machine.post_xid(FIRST, code)
    told = client("[nvmlEventSetWait_v2(s, 0).eventData for _ in range(64)]")
    assert told == list(range(1, 65))
    assert client.code("nvmlEventSetWait_v2(s, 0)") == 10
    assert machine.state.rings[0].lost == 1


def test_event_set_dies_with_its_driver(machine: NvmlMachine, client: Client) -> None:
    """A reload ends every event set, also one that is being waited for."""
    client(LISTEN)
    client.send("nvmlEventSetWait_v2(s, 20000)")
    machine.reload_driver()
    assert client.answer()[0] == 15
    assert client.code("nvmlEventSetWait_v2(s, 0)") == 15


def test_without_state_or_with_another_layout(machine: NvmlMachine, tmp_path: Path) -> None:
    """Without a state file the driver is not loaded (9); with one of another layout versions differ (18); without library it is 12."""
    other = tmp_path / "other"
    other.write_bytes(bytes(ctypes.sizeof(type(machine.state))))
    run = "import pynvml\ntry:\n    pynvml.nvmlInit()\nexcept pynvml.NVMLError as error:\n    print(error.value)"
    for environment, code in (
        ({**machine.environment(), "NVML_EMU_STATE": str(tmp_path / "none")}, "9"),
        ({**machine.environment(), "NVML_EMU_STATE": str(other)}, "18"),
        ({}, "12"),
    ):
        done = subprocess.run([sys.executable, "-c", run], env={**os.environ, **environment}, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == code


def test_trace_names_every_call(machine: NvmlMachine, connect: Connect, tmp_path: Path) -> None:
    """NVML_EMU_TRACE gives one line per call: process, symbol, return code; a stub's code can be chosen."""
    client = connect(machine, NVML_EMU_TRACE=str(tmp_path / "trace"), NVML_EMU_STUB_RC="999")
    assert client.code("nvmlDeviceGetBoardId(h[0])") == 999
    lines = [line.split()[1:] for line in (tmp_path / "trace").read_text().splitlines()]
    assert lines[0] == ["nvmlInitWithFlags", "0"]
    assert lines[-1] == ["nvmlDeviceGetBoardId", "999"]


READER = """
import sys, pynvml
pynvml.nvmlInit()
h = pynvml.nvmlDeviceGetHandleByIndex(0)
torn = 0
for _ in range(int(sys.argv[1])):
    a, b = pynvml.nvmlDeviceGetFieldValues(h, [83, 269])
    torn += a.value.ullVal != b.value.ullVal
print(torn)
"""


def test_no_reader_sees_a_torn_block(machine: NvmlMachine) -> None:
    """While a writer goes at full speed, readers in two processes never see half of a change."""
    environment = {**os.environ, **machine.environment()}
    with machine.edit(FIRST) as gpu:
        gpu.energy_mj = gpu.sw_thermal_ns = 0
    readers = [
        subprocess.Popen([sys.executable, "-c", READER, "20000"], env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    number = 0
    while any(reader.poll() is None for reader in readers):
        number += 1
        with machine.edit(FIRST) as gpu:
            gpu.energy_mj = number
            gpu.sw_thermal_ns = number
    assert [reader.communicate()[0].strip() for reader in readers] == ["0", "0"]
    assert number > 1000
    assert machine.state.torn_reads == 0


def test_writer_killed_in_the_middle_stops_nobody(machine: NvmlMachine, client: Client) -> None:
    """Readers of a block whose writer died get its last state after a bounded wait, counted, and the next writer takes over."""
    machine.state.gpu_seq[0] += 1
    started = time.monotonic()
    assert client("nvmlDeviceGetName(h[0])") == "NVIDIA H100 80GB HBM3"
    assert time.monotonic() - started < 5
    assert machine.state.torn_reads > 0
    with machine.edit(FIRST) as gpu:
        gpu.temp_c = 77
    assert machine.state.gpu_seq[0] % 2 == 0
    assert client("nvmlDeviceGetTemperature(h[0], 0)") == 77


def test_showing_eight_gpus_is_cheap(machine: NvmlMachine, eight_gpus: list[GpuState]) -> None:
    """A whole machine is shown in about a millisecond, links included."""
    started = time.process_time()
    for number in range(50):
        for gpu in eight_gpus:
            gpu.energy_mj_total, gpu.links[0].crc_total = number, number
        machine.show(eight_gpus)
    assert (time.process_time() - started) / 50 < 0.002
