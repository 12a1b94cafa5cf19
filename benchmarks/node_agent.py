"""What the node agent takes of a node: size of a fresh install, then memory and CPU of collector and NVML worker together.

Installs the project without extras into a new environment and runs its `forewarn collect` over eight emulated GPUs at a cadence of 10 s,
without a broker, so that trying to reach one is part of the cost. Prints megabytes and the share of a core; exits with 1 beyond 120 MB
or 1 % of a core. A machine that is busy with something else counts more CPU. `--seconds N` is how long is measured, 180 by default.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

import tomli_w

from emulators.nvml.machine import NvmlMachine
from emulators.state import GpuState

ROOT = Path(__file__).resolve().parents[1]
MOST_MB, MOST_SHARE = 120.0, 0.01
CADENCE_S, START_S, SETTLE_S = 10.0, 120.0, 30.0
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def install(directory: Path) -> tuple[Path, float, float]:
    """Make the environment; give its command and the size of what was installed, MB: as it comes, and with all byte code."""
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(directory)], check=True)
    packages = next(directory.glob("lib/python*/site-packages"))
    before = size_mb(packages)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", str(directory), str(ROOT)], check=True)
    plain_mb = size_mb(packages) - before
    subprocess.run([str(directory / "bin" / "python"), "-m", "compileall", "-q", str(packages)], check=True)
    return directory / "bin" / "forewarn", plain_mb, size_mb(packages) - before


def size_mb(folder: Path) -> float:
    """Sum the files of a folder, MB."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def configure(directory: Path) -> tuple[NvmlMachine, Path]:
    """Emulate a node of eight GPUs and write the configuration of its collector."""
    gpus = [
        GpuState(gpu_uuid=f"GPU-{n:08x}-0000-4000-8000-000000000000", serial=f"165{n}", pci=f"0000:{0x1B + n:02x}:00", gpu_index=n)
        for n in range(8)
    ]
    machine = NvmlMachine(directory / "machine", gpus=gpus, boot_id="11111111-2222-3333-4444-555555555555")
    (directory / "boot_id").write_text("11111111-2222-3333-4444-555555555555\n")
    (directory / "kmsg").write_text("")
    file = directory / "forewarn.toml"
    nvml = {"node": "n1", "environment": machine.environment(), "boot_id_file": str(directory / "boot_id")}
    collect = {"interval_s": CADENCE_S, "metrics_port": 0, "nvml": [nvml], "kernel_log": {"n1": str(directory / "kmsg")}}
    told = {"fleet": {"state_dir": str(directory / "state")}, "bus": {"kind": "kafka", "bootstrap": "127.0.0.1:9"}, "collect": collect}
    file.write_text(tomli_w.dumps(told))
    assert tomllib.loads(file.read_text()) == told
    return machine, file


def family(pid: int) -> list[int]:
    """Name a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(grandchild for child in children for grandchild in family(int(child)))]


def memory_mb(pid: int) -> float:
    """Tell the resident memory of a process, MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1e6


def cpu_s(pid: int) -> float:
    """Tell the CPU time of a process, its ended children included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / TICKS


def measure(command: Path, file: Path, seconds: float) -> tuple[list[float], float]:
    """Run the collector; give the largest memory of each process, MB, and the share of a core that all of them took."""
    with subprocess.Popen([str(command), "collect", "--config", str(file)], stderr=subprocess.DEVNULL, cwd="/") as process:
        try:
            deadline = time.monotonic() + START_S
            while len(family(process.pid)) < 2 and time.monotonic() < deadline:
                time.sleep(0.5)
            time.sleep(SETTLE_S)
            pids = family(process.pid)
            started_s, before_s = time.monotonic(), sum(cpu_s(pid) for pid in pids)
            largest = [0.0 for _ in pids]
            while time.monotonic() < started_s + seconds:
                largest = [max(known, memory_mb(pid)) for known, pid in zip(largest, pids, strict=True)]
                time.sleep(1.0)
            share = (sum(cpu_s(pid) for pid in pids) - before_s) / (time.monotonic() - started_s)
        finally:
            process.terminate()
    return largest, share


def main() -> int:
    """Measure and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        command, plain_mb, compiled_mb = install(directory / "venv")
        machine, file = configure(directory)
        memories, share = measure(command, file, options.seconds)
        machine.close()
    total_mb = sum(memories)
    print(f"install without extras: {plain_mb:.0f} MB, with byte code {compiled_mb:.0f} MB")
    print(f"resident: {total_mb:.0f} MB ({' + '.join(f'{each:.0f}' for each in memories)}), CPU {100 * share:.2f} % of a core")
    return 0 if len(memories) == 2 and total_mb <= MOST_MB and share <= MOST_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
