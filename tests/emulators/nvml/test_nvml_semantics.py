"""What the emulated driver does when things happen: reload, reset, reboot, upgrade, loss, MIG, faults, events."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from emulators.nvml import semantics
from emulators.nvml.machine import NvmlMachine
from emulators.nvml.profiles import PROFILES, support
from emulators.nvml.variants import R470, R535, generation
from emulators.state import GpuState

pytestmark = pytest.mark.nvml
Client = Any
Connect = Callable[..., Client]
FIRST = "GPU-00000000-0000-4000-8000-000000000000"
FOURTH = "GPU-00000003-0000-4000-8000-000000000000"
LISTEN = "keep('s', nvmlEventSetCreate()) or [nvmlDeviceRegisterEvents(x, 0x8, s) for x in h] and 0"


def worn(machine: NvmlMachine, gpus: list[GpuState]) -> None:
    """Give the first GPU a past."""
    gpu = gpus[0]
    gpu.energy_mj_total, gpu.sw_thermal_ns_total, gpu.pcie_replay_total, gpu.uptime_s = 1_000_000, 5_000, 9, 3600.0
    gpu.dram_ce_volatile_total, gpu.dram_ce_aggregate_total, gpu.links[2].recovery_total = 40, 400, 3
    gpu.remapped_rows_ue_total, gpu.remap_pending, gpu.recovery_action = 1, True, 1
    machine.show(gpus)


PAST = "fields(h[0], 83, 269, 94, 3, 5, (162, 2), 143, 144, 230)"


def values(client: Client, expression: str) -> list[Any]:
    return [value for _, _, value in client(expression)]


@pytest.mark.parametrize("what", ["reload", "reset", "reboot"])
def test_restart_of_a_gpu(machine: NvmlMachine, connect: Connect, eight_gpus: list[GpuState], what: str) -> None:
    """At driver load and GPU reset volatile counters restart, pending remaps take effect, lifetime counts stay, handles go stale."""
    worn(machine, eight_gpus)
    client = connect(machine)
    assert values(client, PAST) == [1_000_000, 5_000, 9, 40, 400, 3, 1, 1, 1]
    if what == "reset":
        machine.reset_gpu(FIRST)
    elif what == "reload":
        machine.reload_driver()
    else:
        machine.reboot("99999999-2222-3333-4444-555555555555")
    assert client.code("nvmlDeviceGetName(h[0])") == 15
    assert client.code("nvmlDeviceGetName(h[1])") == (0 if what == "reset" else 15)
    assert client("init()") == 8
    assert values(client, PAST) == [0, 0, 0, 0, 400, 0, 1, 0, 0]
    assert client("nvmlDeviceGetRowRemapperHistogram(h[0])") == {"max": 2559, "high": 1, "partial": 0, "low": 0, "none": 0}


def test_upgrade_underneath(machine: NvmlMachine, client: Client, connect: Connect) -> None:
    """A driver upgraded under a running process gives 18 there, whatever it does, and works in a new process."""
    machine.reload_driver("595.91.07")
    assert client.code("nvmlDeviceGetCount()") == 18
    client.ask("nvmlShutdown()")
    assert client.code("nvmlInit()") == 18
    assert connect(machine)("nvmlSystemGetDriverVersion()") == "595.91.07"


def test_pending_modes_take_effect_at_reset(machine: NvmlMachine, connect: Connect) -> None:
    """An ECC mode that was changed shows as pending until a reset."""
    with machine.edit(FIRST) as gpu:
        gpu.ecc_mode_pending = 0
    assert connect(machine)("nvmlDeviceGetEccMode(h[0])") == [1, 0]
    machine.reset_gpu(FIRST)
    after = connect(machine)
    assert after("nvmlDeviceGetEccMode(h[0])") == [0, 0]
    assert after.code("nvmlDeviceGetTotalEccErrors(h[0], 0, 0)") == 3


def test_renumbering_keeps_identities(machine: NvmlMachine, connect: Connect, eight_gpus: list[GpuState]) -> None:
    """Order of the list may change and a GPU be left out; UUIDs stay, and the one that is gone is not found."""
    uuids = [gpu.gpu_uuid for gpu in eight_gpus]
    machine.order([uuids[2], uuids[0], uuids[1]])
    client = connect(machine)
    assert client("[nvmlDeviceGetUUID(x) for x in h]") == [uuids[2], uuids[0], uuids[1]]
    assert client(f"nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUID('{uuids[1]}'))") == 2
    assert client.code(f"nvmlDeviceGetHandleByUUID('{uuids[7]}')") == 6


def test_hidden_gpu_shrinks_the_count(machine: NvmlMachine, client: Client, eight_gpus: list[GpuState]) -> None:
    """A GPU that leaves the list makes the count smaller, and its old handle lost."""
    eight_gpus[3].is_hidden = True
    machine.show(eight_gpus)
    assert client("nvmlDeviceGetCount()") == 7
    assert client.code("nvmlDeviceGetUUID(h[3])") == 15
    assert client("nvmlDeviceGetIndex(h[4])") == 3


def test_lost_gpu(machine: NvmlMachine, client: Client, eight_gpus: list[GpuState]) -> None:
    """A lost GPU fails at its lookup and at every call, and only itself."""
    eight_gpus[3].is_lost = True
    machine.show(eight_gpus)
    assert [client.code(f"nvmlDeviceGetName(h[{at}])") for at in (2, 3, 4)] == [0, 15, 0]
    assert client.code("nvmlDeviceGetHandleByIndex(3)") == 15


def test_mig(machine: NvmlMachine, client: Client) -> None:
    """With MIG on, utilisation, remaps and processes of the parent are not supported, links report down, instances have handles."""
    with machine.edit(FIRST) as gpu:
        semantics.split(gpu, [(1, 0, 10 << 30), (2, 0, 20 << 30)])
    calls = ("nvmlDeviceGetUtilizationRates(h[0])", "nvmlDeviceGetRemappedRows(h[0])", "nvmlDeviceGetComputeRunningProcesses_v3(h[0])")
    assert [client.code(call) for call in calls] == [3, 3, 3]
    assert client("nvmlDeviceGetNvLinkState(h[0], 0)") == 0
    assert client("nvmlDeviceGetMaxMigDeviceCount(h[0])") == 7
    client("keep('mig', nvmlDeviceGetMigDeviceHandleByIndex(h[0], 1))")
    assert client("nvmlDeviceIsMigDeviceHandle(mig)") == 1
    assert client("nvmlDeviceGetGpuInstanceId(mig)") == 2
    assert client("nvmlDeviceGetMemoryInfo(mig).total") == 20 << 30
    assert client.code("nvmlDeviceGetMigDeviceHandleByIndex(h[0], 2)") == 6
    assert client("nvmlDeviceGetUUID(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig))") == FIRST


def test_without_root(make_machine: Callable[..., NvmlMachine], connect: Connect, eight_gpus: list[GpuState]) -> None:
    """SRAM status is for root alone; everything else is for everybody."""
    client = connect(make_machine(eight_gpus, is_privileged=False))
    read = "filled(c_nvmlEccSramErrorStatus_v1_t(), nvmlEccSramErrorStatus_v1, pynvml.nvmlLib.nvmlDeviceGetSramEccErrorStatus, h[0])"
    assert client.code(read) == 4
    assert client.code("nvmlDeviceClearEccErrorCounts(h[0], 0)") == 4
    assert client.code("nvmlDeviceGetTotalEccErrors(h[0], 0, 0)") == 0


def test_persistence_off_makes_the_first_call_slow(machine: NvmlMachine, connect: Connect) -> None:
    """Without persistence mode the first call of a process to a GPU attaches it."""
    with machine.edit_machine() as whole:
        whole.is_persistent, whole.first_call_us = 0, 100_000
    client = connect(machine)
    seconds = "(t := __import__('time').monotonic(), nvmlDeviceGetName(h[0]), __import__('time').monotonic() - t)[2]"
    assert client(seconds) >= 0.1
    assert client(seconds) < 0.1


def test_administrator_clears_counters(machine: NvmlMachine, client: Client, eight_gpus: list[GpuState]) -> None:
    """Clearing ECC counts and link errors shows in every process, and in the kind that was cleared alone."""
    worn(machine, eight_gpus)
    client("nvmlDeviceClearEccErrorCounts(h[0], 0)")
    client("nvmlDeviceResetNvLinkErrorCounters(h[0], 2)")
    assert values(client, "fields(h[0], 3, 5, (162, 2))") == [0, 400, 0]
    assert machine.state.gpu_seq[0] % 2 == 0


def test_time_passes_on_request(machine: NvmlMachine, client: Client, eight_gpus: list[GpuState]) -> None:
    """Energy follows from power, throttled time from the reasons, and the stamp of field values from the scenario's clock."""
    eight_gpus[0].power_w, eight_gpus[0].clock_event_reasons = 500.0, 0x40
    machine.show(eight_gpus)
    machine.advance(10)
    assert values(client, "fields(h[0], 83, 270, 269)") == [5_000_000, 10_000_000_000, 0]
    assert client("nvmlDeviceGetFieldValues(h[0], [83])[0].timestamp") == 10_000_000


def test_fault_table(machine: NvmlMachine, client: Client) -> None:
    """A fault names a call, everywhere or on one slot, for ever or for so many calls; a retired call gives 26, a bad field its own code."""
    machine.fault("nvmlDeviceGetTemperature", rc=26)
    machine.fault("nvmlDeviceGetPowerUsage", slot=3, rc=999, calls=2)
    assert [client.code("nvmlDeviceGetTemperature(h[0], 0)")] == [26]
    assert [client.code("nvmlDeviceGetPowerUsage(h[3])") for _ in range(3)] == [999, 999, 0]
    assert client.code("nvmlDeviceGetPowerUsage(h[4])") == 0
    machine.clear_faults()
    assert client.code("nvmlDeviceGetTemperature(h[0], 0)") == 0
    with machine.edit(FIRST) as gpu:
        support(gpu, memory_temp_c=999)
    assert client("fields(h[0], 82, 83)")[0] == [999, 1, 0]


def test_crash_kills_the_caller(machine: NvmlMachine, connect: Connect) -> None:
    """A crash fault takes the process down that makes the call."""
    for action, status in (("abort", signal.SIGABRT), ("segv", signal.SIGSEGV)):
        machine.clear_faults()
        client = connect(machine)
        machine.fault("nvmlDeviceGetSerial", slot=2, action=action)
        assert client.code("nvmlDeviceGetSerial(h[1])") == 0
        assert client.code("nvmlDeviceGetSerial(h[2])") == -2
        assert client.wait() == -status


@pytest.mark.parametrize("holds_lock", [False, True])
def test_hang(machine: NvmlMachine, client: Client, holds_lock: bool) -> None:
    """A call that hangs keeps siblings waiting only when it holds the driver's lock."""
    machine.fault("nvmlDeviceGetSerial", slot=2, latency_us=400_000, holds_lock=holds_lock, rc=10, calls=1)
    client("keep('thread', __import__('threading').Thread(target=lambda: nvmlDeviceGetSerial(h[2]), daemon=True))")
    client("__import__('threading').__dict__.__setitem__('excepthook', lambda _: None)")
    client("thread.start()")
    started = time.monotonic()
    while machine.state.fault_calls[0]:
        assert time.monotonic() - started < 5
    started = time.monotonic()
    client("nvmlDeviceGetName(h[1])")
    assert (time.monotonic() - started > 0.2) is holds_lock


def test_old_driver_without_version_3(make_machine: Callable[..., NvmlMachine], connect: Connect, eight_gpus: list[GpuState]) -> None:
    """On branch 470 the bindings miss the third version of the process list and raise something that is not an NVMLError."""
    client = connect(make_machine(eight_gpus, variant=R470))
    assert client.ask("nvmlDeviceGetComputeRunningProcesses(h[0])") == (-1, "NVMLLibraryMismatchError")


def with_processes(machine: NvmlMachine) -> None:
    with machine.edit(FIRST) as gpu:
        gpu.process_count = 3
        gpu.process_pid[:3] = [101, 102, 103]
        gpu.process_memory[:3] = [1 << 30, 2 << 30, 3 << 30]


def test_driver_535_garbles_the_process_list(
    make_machine: Callable[..., NvmlMachine], connect: Connect, eight_gpus: list[GpuState]
) -> None:
    """Drivers 535.43 to 535.86 write longer entries than the bindings read: a pid of 4294967295 appears."""
    pids = "[p.pid for p in nvmlDeviceGetComputeRunningProcesses_v3(h[0])]"
    good, bad = make_machine(eight_gpus), make_machine(eight_gpus, variant=R535)
    with_processes(good)
    with_processes(bad)
    assert connect(good)(pids) == [101, 102, 103]
    assert 4294967295 in connect(bad)(pids)


def test_older_header_knows_fewer_fields(make_machine: Callable[..., NvmlMachine], connect: Connect, eight_gpus: list[GpuState]) -> None:
    """A library of an older header does not support younger fields, and 12.6 has fields 199 and 200 the other way round."""
    meanings = {}
    for number in (1200, 1206, 1208, 1300):
        machine = make_machine(eight_gpus, variant=generation(number))
        with machine.edit(FIRST) as gpu:
            support(gpu, mig_query_capable=0, link_power_threshold_max=0)
            gpu.mig_query_capable, gpu.link_power_threshold_max = 1, 70
        meanings[number] = [(code, value) for code, _, value in connect(machine)("fields(h[0], 199, 200, 230, 269)")]
    assert meanings[1200] == [(3, 0)] * 4
    assert meanings[1206] == [(0, 70), (0, 1), (3, 0), (3, 0)]
    assert meanings[1208] == [(0, 1), (0, 70), (0, 0), (3, 0)]
    assert meanings[1300] == [(0, 1), (0, 70), (0, 0), (0, 0)]


def test_blackwell_links(make_machine: Callable[..., NvmlMachine], connect: Connect) -> None:
    """NVLink 5 counters answer per link and over all links; a rate of no errors is packed as mantissa 15, exponent 255."""
    machine = make_machine([])
    uuid = machine.seat_captured(next(profile for profile in PROFILES if profile.column == "B200"))[0]
    with machine.edit(uuid) as gpu:
        semantics.set_nvlink5(gpu, 3, 213, 4)
        semantics.set_nvlink5(gpu, 5, 213, 1)
        semantics.set_nvlink5(gpu, 3, 222, semantics.packed_ber(15, 255))
    client = connect(machine)
    assert values(client, "fields(h[0], (213, 3), (213, 5), (213, 0xFFFFFFFF), (222, 3))") == [4, 1, 5, 0xFFF]
