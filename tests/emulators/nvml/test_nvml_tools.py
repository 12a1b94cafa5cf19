"""Seven tools that other people wrote for real GPUs run unmodified on the emulated library."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from emulators.nvml.machine import NvmlMachine
from emulators.state import GpuState
from tests.judges import judge

pytestmark = pytest.mark.nvml
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def tool(command: str) -> Path:
    """Find a tool, or skip."""
    return judge("nvml_tools", command)


def run(machine: NvmlMachine, *command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **machine.environment(), "COLUMNS": "120", "TERM": "dumb", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return ANSI.sub("", done.stdout)


@pytest.fixture
def busy(machine: NvmlMachine, eight_gpus: list[GpuState]) -> NvmlMachine:
    """Give a machine whose GPUs are told apart by their temperature."""
    for slot, gpu in enumerate(eight_gpus):
        gpu.temp_c, gpu.power_w, gpu.gpu_util_ratio, gpu.memory_used_mb = 41.0 + slot, 300.0, 0.5, 1024.0
    machine.show(eight_gpus)
    return machine


def test_gpustat(busy: NvmlMachine) -> None:
    """Gpustat lists every GPU with its temperature, load, power and memory."""
    lines = run(busy, tool("gpustat"), "-cpuFP", "--no-color").splitlines()[1:]
    assert lines[3].split("|")[0] == "[3] NVIDIA H100 80GB HBM3 "
    assert [line.split("|")[1].split(",")[0].strip() for line in lines] == [f"{41 + slot}°C" for slot in range(8)]
    assert "300 / 700 W |  1024 / 81559 MB" in lines[0]


def test_gpustat_keeps_the_others_when_one_is_lost(busy: NvmlMachine, eight_gpus: list[GpuState]) -> None:
    """A lost GPU does not keep gpustat from listing the other seven."""
    eight_gpus[2].is_lost = True
    busy.show(eight_gpus)
    lines = run(busy, tool("gpustat"), "--no-color").splitlines()[1:]
    assert [at for at, line in enumerate(lines) if f"{41 + at}°C" not in line] == [2]


def test_nvitop(busy: NvmlMachine) -> None:
    """Nvitop draws its page once."""
    page = run(busy, tool("nvitop"), "-1", "--ascii")
    assert page.count("H100 80GB HBM3") == 8
    assert "48C" in page
    assert "300W / 700W" in page


def test_py3smi(busy: NvmlMachine) -> None:
    """py3smi reads through the oldest names and structures; its memory figure includes the reserved part."""
    page = run(busy, tool("py3smi"))
    assert page.count("300W /  700W") + page.count("300W / 700W") == 8
    assert "1504MiB / 81559MiB" in page


def test_nvidia_ml_py(busy: NvmlMachine) -> None:
    """The official bindings find every one of the names that they refer to, or fail cleanly."""
    names = (
        "import pynvml, re, inspect; pynvml.nvmlInit()\n"
        "names = set(re.findall(r'_nvmlGetFunctionPointer\\(\"(nvml\\w+)\"\\)', inspect.getsource(pynvml)))\n"
        "print(len(names), sorted(n for n in names if not hasattr(pynvml.nvmlLib, n)))"
    )
    count, _, missing = run(busy, tool("python"), "-c", names).strip().partition(" ")
    assert int(count) > 400
    assert missing == "[]"


CARBON = """
from codecarbon.core.gpu import AllGPUDevices
devices = AllGPUDevices()
print(len(devices.devices), devices.get_gpu_details()[3]["temperature"], devices.get_gpu_static_info()[0]["power_limit"])
from codecarbon import OfflineEmissionsTracker
tracker = OfflineEmissionsTracker(country_iso_code="DEU", save_to_file=False, log_level="critical", force_cpu_power=100)
tracker.start()
tracker.stop()
print(tracker.final_emissions_data.gpu_count, tracker.final_emissions_data.gpu_model)
"""


def test_codecarbon(busy: NvmlMachine, tmp_path: Path) -> None:
    """Codecarbon reads energy, power and details of every GPU, and tracks a run; it wants a command nvidia-smi that ends well."""
    (tmp_path / "nvidia-smi").symlink_to("/bin/true")
    lines = run(busy, tool("python"), "-c", CARBON, PATH=f"{tmp_path}:{os.environ['PATH']}").splitlines()
    assert lines == ["8 44 700.0", "8 8 x NVIDIA H100 80GB HBM3"]


GLANCES = """
from glances.plugins.gpu.cards.nvidia import NvidiaGPU
stats = NvidiaGPU().get_device_stats()
print(len(stats), stats[3]["temperature"], stats[3]["proc"])
"""


def test_glances(busy: NvmlMachine) -> None:
    """The GPU plug-in of glances reads every GPU."""
    assert run(busy, tool("python"), "-c", GLANCES).split() == ["8", "44", "50"]


def test_nvitop_exporter(busy: NvmlMachine) -> None:
    """The exporter of nvitop serves a page with every GPU."""
    command = tool("nvitop-exporter")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with subprocess.Popen(
        [str(command), "--bind-address", "127.0.0.1", "--port", str(port), "--interval", "0.5"],
        env={**os.environ, **busy.environment()},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            page = scrape(f"http://127.0.0.1:{port}/metrics", "gpu_temperature")
        finally:
            process.kill()
    temperatures = [line.rsplit(" ", 1)[1] for line in page.splitlines() if line.startswith("gpu_temperature")]
    assert sorted(float(text) for text in temperatures) == [41.0, 42.0, 43.0, 44.0, 45.0, 46.0, 47.0, 48.0]


def scrape(url: str, wanted: str) -> str:
    """Read a page until it has a name eight times."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                page: str = answer.read().decode()
        except (urllib.error.URLError, OSError):
            continue
        if sum(line.startswith(wanted) for line in page.splitlines()) >= 8:
            return page
    raise AssertionError(f"{url} never showed {wanted} of eight GPUs")
