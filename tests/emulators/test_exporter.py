"""The emulated exporter: pages in the format of the real one, and a server of many."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from emulators.exporter import ExporterFarm
from emulators.exporter_page import FAMILIES, Labels, render
from emulators.exporter_quirks import Quirks, render_quirky
from emulators.state import GpuState

# A line of a real page (dcgm-exporter, documentation and issues), values and labels exchanged.
REAL = re.compile(
    r'DCGM_FI_[A-Z0-9_]+\{gpu="\d+",UUID="GPU-[0-9a-f-]{36}",pci_bus_id="[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.0",device="nvidia\d+",'
    r'modelName="[^"]+",hostname="[^"]*"(,[A-Za-z_]+="[^"]*")*\} -?(\d+|\d+\.\d{6})'
)


@pytest.fixture
def gpus() -> list[GpuState]:
    return [
        GpuState(gpu_uuid=f"GPU-0a1b2c3{n}-1111-4222-8333-44445555666{n}", serial=f"165{n}", pci=f"0000:{n + 0x1A:02x}:00", gpu_index=n)
        for n in range(8)
    ]


def families(page: bytes) -> dict[str, list[float]]:
    return {family.name: [sample.value for sample in family.samples] for family in text_string_to_metric_families(page.decode())}


def test_lines_are_those_of_the_real_exporter(gpus: list[GpuState]) -> None:
    """Every line has the real exporter's form, and prometheus_client reads the whole page."""
    gpus[1].xid_last = 31
    page = render(gpus, Labels(host="gpu-1"))
    lines = [line for line in page.decode().split("\n") if line and not line.startswith("#")]
    assert [line for line in lines if not REAL.fullmatch(line)] == []
    assert len(lines) == len(FAMILIES) * 8 + 1
    assert page.endswith(b"\n")
    assert families(page)["DCGM_FI_DEV_GPU_TEMP"] == [30.0] * 8


def test_integers_and_doubles_print_as_dcgm_prints_them(gpus: list[GpuState]) -> None:
    """Powers have six decimals, counters none."""
    gpus[0].power_w, gpus[0].energy_mj_total = 412.5, 2**62
    page = render(gpus[:1])
    assert re.search(rb"DCGM_FI_DEV_POWER_USAGE\{[^}]*\} 412\.500000\n", page)
    assert re.search(rb"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION\{[^}]*\} 4611686018427387904\n", page)


def test_what_the_hardware_does_not_have_has_no_series(gpus: list[GpuState]) -> None:
    """Absent values, absent last XIDs and lost GPUs leave no line behind."""
    gpus[0].memory_temp_c = None
    gpus[1].is_lost = True
    gpus[2].is_hidden = True
    found = families(render(gpus))
    assert (len(found["DCGM_FI_DEV_MEMORY_TEMP"]), len(found["DCGM_FI_DEV_GPU_TEMP"])) == (5, 6)
    assert "DCGM_FI_DEV_XID_ERRORS" not in found


def test_labels_may_hold_what_a_template_would_eat(gpus: list[GpuState]) -> None:
    """A percent sign in a label is printed as it is."""
    gpus[0].gpu_model = "NVIDIA 100% %d"
    assert b'modelName="NVIDIA 100% %d"' in render(gpus)


def test_quirks_off_is_the_plain_page(gpus: list[GpuState]) -> None:
    """The line-by-line printer and the fast one print the same page."""
    gpus[3].xid_last = 79
    assert render_quirky(gpus, Labels(host="a"), Quirks()) == render(gpus, Labels(host="a"))


@pytest.mark.parametrize(
    ("quirks", "text"),
    [
        (Quirks(namespace="renamed"), b"\nDCGM_FI_DEV_GPU_TEMP_CELSIUS{"),
        (Quirks(namespace="old"), b"\ndcgm_gpu_temp{"),
        (Quirks(host_label="Hostname"), b',Hostname="a",'),
        (Quirks(xid_starts_at_zero=True), b'err_code="0",err_msg="No Error"} 0\n'),
        (Quirks(pods={"GPU-0a1b2c30-1111-4222-8333-444455556660": ('rack "A"',)}), b',pod="rack "A""} '),
        (Quirks(instances={"GPU-0a1b2c30-1111-4222-8333-444455556660": (3, 4)}), b',GPU_I_PROFILE="1g.10gb",GPU_I_ID="4"} '),
        (Quirks(stamps_ms={"GPU-0a1b2c30-1111-4222-8333-444455556660": 1_700_000_000_000}), b"} 30 1700000000000\n"),
        (Quirks(xid_counts={"GPU-0a1b2c30-1111-4222-8333-444455556660": {31: 2}}), b'window_size_in_ms="300000",xid="31"} 2\n'),
        (Quirks(leaks={("GPU-0a1b2c30-1111-4222-8333-444455556660", "DCGM_FI_DEV_GPU_TEMP"): "N/A"}), b"} N/A\n"),
    ],
)
def test_each_quirk_shows(gpus: list[GpuState], quirks: Quirks, text: bytes) -> None:
    """What a quirk promises is on the page, and only then."""
    assert text in render_quirky(gpus, Labels(host="a"), quirks)
    assert text not in render_quirky(gpus, Labels(host="a"), Quirks())


@pytest.fixture
async def farm(gpus: list[GpuState]) -> AsyncIterator[tuple[ExporterFarm, dict[str, str]]]:
    farm = ExporterFarm()
    yield farm, await farm.start({"a": lambda: gpus[:4], "b": lambda: gpus[4:]})
    await farm.stop()


async def test_every_node_has_its_page(farm: tuple[ExporterFarm, dict[str, str]]) -> None:
    """Pages are served under one port, packed when asked, with their node as host."""
    async with aiohttp.ClientSession() as session:
        async with session.get(farm[1]["a"], headers={"Accept-Encoding": "gzip"}) as answer:
            assert answer.headers["Content-Encoding"] == "gzip"
            assert len(families(await answer.read())["DCGM_FI_DEV_GPU_TEMP"]) == 4
        async with session.get(farm[1]["b"], headers={"Accept-Encoding": "identity"}) as answer:
            assert "Content-Encoding" not in answer.headers
            assert b'hostname="b"' in await answer.read()
        async with session.get(farm[1]["a"].replace("/a/", "/z/")) as answer:
            assert answer.status == 404


async def test_health_lies_during_a_reload(farm: tuple[ExporterFarm, dict[str, str]]) -> None:
    """During a hot reload the page is an empty 200 and /health answers 200 with its headers."""
    farm[0].quirks["a"] = Quirks(is_empty=True)
    async with aiohttp.ClientSession() as session:
        async with session.get(farm[1]["a"]) as answer:
            assert (answer.status, await answer.read()) == (200, b"")
        async with session.get(farm[1]["a"].replace("/metrics", "/health")) as answer:
            assert (answer.status, answer.headers["X-Reload-In-Progress"]) == (200, "true")


async def test_a_frozen_page_stays_until_it_thaws(farm: tuple[ExporterFarm, dict[str, str]], gpus: list[GpuState]) -> None:
    """A dead host engine serves what it had."""
    farm[0].quirks["a"] = Quirks(is_frozen=True)
    async with aiohttp.ClientSession() as session:

        async def energy() -> float:
            async with session.get(farm[1]["a"]) as answer:
                return families(await answer.read())["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"][0]

        assert await energy() == 0
        gpus[0].energy_mj_total = 500
        assert await energy() == 0
        farm[0].quirks["a"] = replace(farm[0].quirks["a"], is_frozen=False)
        assert await energy() == 500
