"""Poll eight GPUs through the emulated NVML library: calls and CPU time of a poll, beside gpustat and nvitop on the same library.

Each polls in a process of its own, warm, in turns; the library counts the calls. Prints the median of the rounds. Values are those that one
poll gives of a GPU. Exits with 1 where a hot poll takes more calls or more CPU time than either of the two. They come with `make judges`.
On a GPU a call costs more, so that calls weigh more than what is measured here.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from emulators.nvml.machine import NvmlMachine
from emulators.state import GpuState

ROOT = Path(__file__).resolve().parents[1]
JUDGES = ROOT / ".venv" / "judges" / "nvml_tools" / "bin" / "python"
POLLS, THEIR_POLLS, WARM, ROUNDS = 100, 8, 2, 3  # gpustat and nvitop sleep a tenth of a second for each GPU
CALLS_AT = slice(16, 24)  # of the state file
OURS, THEIRS = ("hot", "warm", "links"), ("gpustat", "nvitop")


def ours(tier: str) -> Callable[[], int]:
    """Give one poll of the worker, which counts the values of a GPU."""
    import mmap  # noqa: PLC0415

    import pynvml  # noqa: PLC0415

    from ingest.nvml.protocol import Ask  # noqa: PLC0415
    from ingest.nvml.worker import PROGRESS_BYTES, Worker  # noqa: PLC0415

    pynvml.nvmlInit()
    worker = Worker(mmap.mmap(-1, PROGRESS_BYTES))
    ask = Ask(1, "warm" if tier == "warm" else "hot", tier == "links", 5.0, ())

    def poll() -> int:
        reading = worker.answer(ask).readings[0]
        assert reading.code is None, reading
        return len(reading.values) + 6 * len(reading.links)

    return poll


def gpustat() -> Callable[[], int]:
    """Give one query of gpustat."""
    import gpustat  # noqa: PLC0415

    return lambda: len(gpustat.GPUStatCollection.new_query().gpus[0].entry)


def nvitop() -> Callable[[], int]:
    """Give one snapshot of all devices by nvitop, processes included as its screen shows them."""
    from nvitop import Device, take_snapshots  # noqa: PLC0415

    devices = Device.all()
    return lambda: len(vars(take_snapshots(devices).devices[0]))


def measure_here(name: str) -> None:
    """Poll and print calls and milliseconds per poll, and values per GPU."""
    poll = gpustat() if name == "gpustat" else nvitop() if name == "nvitop" else ours(name)
    polls = THEIR_POLLS if name in THEIRS else POLLS
    for _ in range(WARM):
        values = poll()
    calls, used_s = calls_so_far(), time.process_time()
    for _ in range(polls):
        poll()
    used_s = time.process_time() - used_s
    print((calls_so_far() - calls) / polls, used_s * 1000 / polls, values)


def calls_so_far() -> int:
    """Read the library's own count."""
    with Path(os.environ["NVML_EMU_STATE"]).open("rb") as state:
        return int.from_bytes(state.read(CALLS_AT.stop)[CALLS_AT], sys.byteorder)


def measure(name: str, machine: NvmlMachine) -> tuple[float, float, float]:
    """Measure in a process of its own."""
    python = JUDGES if name in THEIRS else Path(sys.executable)
    done = subprocess.run(
        [str(python), __file__, name],
        env=os.environ | machine.environment() | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    calls, used_ms, values = map(float, done.stdout.split())
    return calls, used_ms, values


def main() -> int:
    """Measure, print, judge."""
    if not JUDGES.exists():
        print("skipped: gpustat and nvitop are not installed: run make judges")
        return 0
    gpus = [
        GpuState(gpu_uuid=f"GPU-{n:08x}-0000-4000-8000-000000000000", serial=f"165{n}", pci=f"0000:{0x1B + n:02x}:00", gpu_index=n)
        for n in range(8)
    ]
    names = (*OURS, *THEIRS)
    with tempfile.TemporaryDirectory() as folder:
        machine = NvmlMachine(Path(folder) / "machine", gpus=gpus, boot_id="11111111-2222-3333-4444-555555555555")
        rounds = [{name: measure(name, machine) for name in names} for _ in range(ROUNDS)]
        machine.close()
    found = {name: [statistics.median(each[name][at] for each in rounds) for at in range(3)] for name in names}
    hot_calls, hot_ms, _ = found["hot"]
    print(f"{len(gpus)} GPUs, one poll, median of {ROUNDS} rounds of {POLLS}, {THEIR_POLLS} of the peers")
    for name, (calls, used_ms, values) in found.items():
        label = f"forewarn, {name}" if name in OURS else name
        ratios = f"{calls / hot_calls:5.1f} x calls, {used_ms / hot_ms:5.1f} x CPU"
        print(f"{label:<16}{calls:7.0f} calls{used_ms:9.2f} ms{values:6.0f} values a GPU; {ratios}")
    return 0 if all(hot_calls <= found[name][0] and hot_ms <= found[name][1] for name in THEIRS) else 1


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure_here(sys.argv[1])
    else:
        sys.exit(main())
