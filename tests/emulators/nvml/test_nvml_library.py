"""The library is what the header says it is: its symbols, its structures, and one truth behind all ways to read it."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest

from emulators.nvml.build import build_library
from emulators.nvml.fields import FIELDS
from emulators.nvml.generate import layout_header
from emulators.nvml.header import find_header
from emulators.nvml.layout import BLOCKS, in_memory_order
from emulators.nvml.machine import NvmlMachine
from emulators.nvml.profiles import PROFILES
from emulators.nvml.variants import GENERATIONS, generation
from emulators.state import GpuState

pytestmark = pytest.mark.nvml
Client = Any


def exported(library: Path) -> set[str]:
    listed = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True).stdout
    return {line.split()[2] for line in listed.splitlines() if line.split()[2].startswith("nvml")}


def test_exports_exactly_the_header(machine: NvmlMachine) -> None:
    """The library exports every prototype of the header and nvmlErrorString, and nothing else."""
    header = find_header()
    assert exported(machine.library) == {*header.prototypes, "nvmlErrorString"}
    if header.version == "13.5.37":
        assert len(exported(machine.library)) == 436


@pytest.mark.parametrize(("number", "symbols"), [(1200, 306), (1202, 326), (1204, 346), (1206, 352), (1208, 372), (1300, 397), (1302, 409)])
def test_older_header_has_fewer_symbols(nvml_cache: Path, number: int, symbols: int) -> None:
    """The library of an older header has that header's calls alone (12.0: without two that the current header has dropped)."""
    library = build_library(nvml_cache, generation(number)) / "libnvidia-ml.so.1"
    assert len(exported(library)) == symbols + 1


def test_layout_has_no_padding() -> None:
    """Every member of the state lies where its size alone puts it, so that C and Python cannot disagree."""
    for mirror, members in BLOCKS.values():
        at = 0
        for member in in_memory_order(members):
            field = getattr(mirror, member.name)
            assert field.offset == at
            at += field.size
    assert "uint64_t" in layout_header()


SIZES = {
    "c_nvmlMemory_t": 24,
    "c_nvmlMemory_v2_t": 40,
    "c_nvmlProcessInfo_v2_t": 24,
    "c_nvmlFieldValue_t": 40,
    "c_nvmlEventData_t": 32,
    "c_nvmlUtilization_t": 8,
    "c_nvmlViolationTime_t": 16,
    "c_nvmlRowRemapperHistogramValues": 20,
    "c_nvmlGpuFabricInfo_v2_t": 36,
    "c_nvmlGpuFabricInfo_v3_t": 40,
    "c_nvmlEccSramErrorStatus_v1_t": 104,
    "c_nvmlTemperature_v1_t": 12,
    "c_nvmlMarginTemperature_v1_t": 8,
    "c_nvmlPlatformInfo_v2_t": 44,
    "c_nvmlBAR1Memory_t": 24,
    "nvmlPciInfo_t": 68,
}
C_NAMES = {
    "c_nvmlRowRemapperHistogramValues": "nvmlRowRemapperHistogramValues_t",
    "c_nvmlProcessInfo_v2_t": "nvmlProcessInfo_v2_t",
}


def test_structures_are_as_long_as_the_bindings_think(tmp_path: Path) -> None:
    """Sizes of structures in C (the header) and in ctypes (pynvml) are equal to the figures known for them."""
    checks = []
    for name, size in SIZES.items():
        assert ctypes.sizeof(getattr(pynvml, name)) == size, name
        checks.append(f'_Static_assert(sizeof({C_NAMES.get(name, name.removeprefix("c_"))}) == {size}, "{name}");')
    words = {"nvmlMemory_v2": 0x02000028, "nvmlGpuFabricInfo_v3": 0x03000028, "nvmlTemperature_v1": 0x0100000C}
    for name, word in words.items():
        assert getattr(pynvml, name) == word, name
        checks.append(f'_Static_assert({name} == {word}, "{name}");')
    source = tmp_path / "sizes.c"
    source.write_text("\n".join(["#include <nvml.h>", *checks, ""]))
    subprocess.run(["cc", f"-I{find_header().path.parent}", "-c", str(source), "-o", str(tmp_path / "sizes.o")], check=True)


# Named call and the field that reads the same quantity.
PAIRS = [
    ("nvmlDeviceGetTemperature(h[0], 0)", "308"),
    ("nvmlDeviceGetTotalEnergyConsumption(h[0])", "83"),
    ("nvmlDeviceGetPowerUsage(h[0])", "(185, 0)"),
    ("nvmlDeviceGetEnforcedPowerLimit(h[0])", "(190, 0)"),
    ("nvmlDeviceGetPcieReplayCounter(h[0])", "94"),
    ("nvmlDeviceGetTotalEccErrors(h[0], 0, 0)", "3"),
    ("nvmlDeviceGetTotalEccErrors(h[0], 1, 0)", "4"),
    ("nvmlDeviceGetTotalEccErrors(h[0], 0, 1)", "5"),
    ("nvmlDeviceGetMemoryErrorCounter(h[0], 0, 0, 2)", "11"),
    ("nvmlDeviceGetMemoryErrorCounter(h[0], 1, 1, 2)", "23"),
    ("nvmlDeviceGetRemappedRows(h[0])[0]", "142"),
    ("nvmlDeviceGetRemappedRows(h[0])[1]", "143"),
    ("nvmlDeviceGetRemappedRows(h[0])[2]", "144"),
    ("nvmlDeviceGetRemappedRows(h[0])[3]", "145"),
    ("nvmlDeviceGetNvLinkErrorCounter(h[0], 7, 0)", "(161, 7)"),
    ("nvmlDeviceGetNvLinkErrorCounter(h[0], 7, 1)", "(162, 7)"),
    ("nvmlDeviceGetNvLinkErrorCounter(h[0], 7, 2)", "(163, 7)"),
    ("nvmlDeviceGetNvLinkState(h[0], 7)", "(165, 7)"),
    ("nvmlDeviceGetNvLinkVersion(h[0], 7)", "(166, 7)"),
    ("nvmlDeviceGetEccMode(h[0])[0]", "1"),
]


def test_getters_and_fields_read_one_truth(
    make_machine: Callable[..., NvmlMachine], connect: Callable[..., Client], eight_gpus: list[GpuState]
) -> None:
    """Each named call that shares a quantity with a field gives the value of nvmlDeviceGetFieldValues."""
    gpu = eight_gpus[0]
    gpu.temp_c, gpu.energy_mj_total, gpu.power_w, gpu.pcie_replay_total = 57, 123_456_789, 412.0, 9
    gpu.dram_ce_volatile_total, gpu.sram_ce_volatile_total, gpu.dram_ue_volatile_total = 100, 3, 4
    gpu.dram_ce_aggregate_total, gpu.dram_ue_aggregate_total = 1000, 7
    gpu.remapped_rows_ce_total, gpu.remapped_rows_ue_total, gpu.remap_pending, gpu.remap_failure = 5, 6, True, False
    gpu.links[7].replay_total, gpu.links[7].recovery_total, gpu.links[7].crc_total, gpu.links[7].is_up = 11, 12, 13, False
    client = connect(make_machine(eight_gpus))
    for call, field in PAIRS:
        code, _, value = client(f"fields(h[0], {field})")[0]
        assert (code, value) == (0, client(call)), (call, field)
    assert client("nvmlDeviceGetTotalEccErrors(h[0], 0, 0)") == 103


def test_field_rules(client: Client) -> None:
    """A link that is not there is an invalid argument, a younger or unknown field is not supported, and the call itself succeeds."""
    answers = client("fields(h[0], (165, 18), 9999, (186, 1), (186, 9), 193)")
    assert [answer[0] for answer in answers] == [2, 3, 3, 2, 0]
    assert answers[4] == [0, 5, -8]


def test_unknown_field_by_choice(machine: NvmlMachine, client: Client) -> None:
    """Some drivers call an unknown field an invalid argument."""
    with machine.edit_machine() as whole:
        whole.unknown_field_rc = 2
    assert [code for code, *_ in client("fields(h[0], 9999, 83)")] == [2, 0]


def test_wrong_version_word_and_short_buffer(client: Client) -> None:
    """A version word that is not known gives 25, a buffer that is too short 7."""
    wrong = "filled(c_nvmlTemperature_v1_t(), 0x0700000C, pynvml.nvmlLib.nvmlDeviceGetTemperatureV, h[0])"
    assert client.code(wrong) == 25
    assert client("pynvml.nvmlLib.nvmlDeviceGetUUID(h[0], ctypes.create_string_buffer(8), 8)") == 7


def test_every_getter_of_the_bindings_answers_cleanly(client: Client) -> None:
    """No call of pynvml that takes just a handle fails in another way than by a return code."""
    taking_a_handle = (
        "callable(f := getattr(pynvml, n)) and f.__code__.co_argcount == 1 and f.__code__.co_varnames[0] in ('handle', 'device')"
    )
    single = client(f"[n for n in sorted(vars(pynvml)) if n.startswith('nvmlDeviceGet') and {taking_a_handle}]")
    assert len(single) > 60
    for name in single:
        code = client.code(f"bool({name}(h[0]))")
        assert code in {0, -1, 2, 3, 7, 25, 26}, (name, code)


# What each captured model has of some telling quantities: fields 308, 82, 194, 186 GPU, 186 module, 142, 29, 161, 213, 230.
TELLING = "308, 82, 194, (186, 0), (186, 1), 142, 29, (161, 0), (213, 0), 230, 74, 94"
GOLDEN = {
    "A100-SXM4-40GB": "++-+-+-+-+-+",
    "H100": "++++-+-+-+++",
    "B200": "++++-+--++++",
    "GB200": "++++++--++++",
    "GB300": "++++++--++++",
    "L40S": "+-++-+---+++",
    "T4": "+--+--+--+++",
}


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.column)
def test_profile_has_the_capabilities_of_its_capture(
    make_machine: Callable[..., NvmlMachine], connect: Callable[..., Client], profile: Any
) -> None:
    """A model supports what its capture shows and nothing else."""
    machine = make_machine([])
    machine.seat_captured(profile)
    client = connect(machine)
    assert client.started == (0, len(profile.addresses))
    answers = client(f"fields(h[0], {TELLING})")
    assert "".join("+" if code == 0 else "-" for code, *_ in answers) == GOLDEN[profile.column]
    assert client("nvmlDeviceGetName(h[0])") == profile.model
    assert client("nvmlSystemGetDriverVersion()") == profile.driver_version
    assert {code for code, *_ in answers} <= {0, 2, 3}


def test_profile_values_are_those_of_the_capture(make_machine: Callable[..., NvmlMachine], connect: Callable[..., Client]) -> None:
    """Values differ by slot where the capture shows that they do, and calls that the driver has retired say so."""
    machine = make_machine([])
    machine.seat_captured(next(profile for profile in PROFILES if profile.column == "H100"))
    client = connect(machine)
    assert client("[nvmlDeviceGetPcieReplayCounter(x) for x in h]") == [150, 144, 174, 158, 145, 172, 162, 106]
    assert client("nvmlDeviceGetMemoryInfo(h[0]).used") == 480 * 1024 * 1024
    assert client("nvmlDeviceGetMemoryInfo(h[0], version=nvmlMemory_v2).used") == 0
    assert client("nvmlDeviceGetRowRemapperHistogram(h[0])")["max"] == 2560
    machine.seat_captured(next(profile for profile in PROFILES if profile.column == "T4"))
    turing = connect(machine)
    assert turing("nvmlDeviceGetTotalEccErrors(h[0], 0, 1)") == 1
    assert turing.code("nvmlDeviceGetPowerState(h[0])") == 26
    assert turing("nvmlDeviceGetTemperatureThreshold(h[0], 0)") == 96
    assert turing("nvmlDeviceGetPciInfo(h[0]).busId") == "00000000:00:1E.0"


def test_field_ids_are_unambiguous() -> None:
    """No field is declared twice for the same scope, and those whose meaning changed between headers have none by default."""
    keys = [(field.id, field.scope if field.rule == 1 else 0) for field in FIELDS]
    assert len(keys) == len(set(keys))
    assert GENERATIONS[-1] == 1305
