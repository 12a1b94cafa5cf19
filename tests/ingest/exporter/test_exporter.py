"""The exporter source against servers: many nodes, slow ones, dead ones, wrong ones."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from emulators.exporter import ExporterFarm
from emulators.exporter_quirks import Quirks
from emulators.state import GpuState
from ingest.clock import NS, ManualClock
from ingest.exporter.source import ExporterSource
from ingest.one_reading import read_once
from ingest.schema import GpuSample, Observed, SourceState

START_NS = 1_790_000_000 * NS
TICKS = itertools.count(START_NS, NS)


class Fleet:
    """Four nodes of two GPUs behind emulated exporters."""

    def __init__(self) -> None:
        self.farm = ExporterFarm()
        self.clock = ManualClock(START_NS)
        self.gpus = {
            f"n{node}": [
                GpuState(gpu_uuid=f"GPU-{node:08x}-0000-4000-8000-{n:012x}", serial=f"{node}{n}", pci=f"0000:{n + 1:02x}:00", gpu_index=n)
                for n in range(2)
            ]
            for node in range(4)
        }
        self.urls: dict[str, str] = {}

    async def start(self) -> None:
        self.urls = await self.farm.start({node: lambda gpus=gpus: gpus for node, gpus in self.gpus.items()})  # type: ignore[misc]


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    fleet = Fleet()
    await fleet.start()
    yield fleet
    await fleet.farm.stop()


Open = Callable[..., Awaitable[ExporterSource]]


@pytest.fixture
async def opened(fleet: Fleet) -> AsyncIterator[Open]:
    sources: list[ExporterSource] = []

    async def open_source(targets: dict[str, str] | None = None, **more: Any) -> ExporterSource:
        source = ExporterSource(targets or fleet.urls, clock=fleet.clock, **more)
        sources.append(source)
        await source.open()
        return source

    yield open_source
    for source in sources:
        await source.close()


def nodes(records: list[Observed]) -> set[str]:
    return {record.node for record in records if isinstance(record, GpuSample)}


def states(records: list[Observed]) -> dict[str, str]:
    return {record.node: record.state for record in records if isinstance(record, SourceState)}


async def read_until(source: ExporterSource, wanted: Callable[[list[Observed]], bool]) -> list[Observed]:
    """Read until the records so far are as wanted, for at most ten seconds."""
    records: list[Observed] = []
    async with asyncio.timeout(10):
        while not wanted(records):
            records += await source.read(next(TICKS))
    return records


async def test_one_read_scrapes_every_node(fleet: Fleet, opened: Open) -> None:
    """Each node's GPUs come under the node's own name, stamped by the fleet's clock when the page came."""
    records = await (await opened()).read(next(TICKS))
    assert nodes(records) == {"n0", "n1", "n2", "n3"}
    assert states(records) == dict.fromkeys(("n0", "n1", "n2", "n3"), "ok")
    assert {record.received_at_ns for record in records} == {START_NS}
    assert len([record for record in records if isinstance(record, GpuSample)]) == 8


async def test_a_dead_target_is_a_state_of_its_node_alone(fleet: Fleet, opened: Open) -> None:
    """A port that nobody listens on is unreachable, and the other nodes are read."""
    source = await opened({**fleet.urls, "n9": "http://127.0.0.1:9/metrics"})
    records = await source.read(next(TICKS))
    assert states(records)["n9"] == "unreachable"
    assert nodes(records) == {"n0", "n1", "n2", "n3"}


async def test_a_slow_target_delays_nobody_and_is_not_lost(fleet: Fleet, opened: Open) -> None:
    """A read ends without the slow page; the page comes with a later read, and the next reads do not wait for it at all."""
    fleet.farm.quirks["n2"] = Quirks(delay_s=1.0)
    source = await opened(patience_s=0.2, deadline_s=5.0)
    began = time.monotonic()
    assert nodes(await source.read(next(TICKS))) == {"n0", "n1", "n3"}
    assert time.monotonic() - began < 0.9
    records = await read_until(source, lambda records: "n2" in nodes(records))
    assert states(records)["n2"] == "ok"


async def test_a_target_beyond_its_deadline_times_out(fleet: Fleet, opened: Open) -> None:
    """A page that never comes is a timeout of its own node."""
    fleet.farm.quirks["n2"] = Quirks(delay_s=60.0)
    source = await opened(patience_s=0.05, deadline_s=0.2)
    records = await read_until(source, lambda records: "n2" in states(records))
    assert states(records)["n2"] == "timeout"


@pytest.mark.parametrize(
    ("quirks", "state"),
    [
        (Quirks(status=500), "error(500)"),
        (Quirks(status=404), "error(404)"),
        (Quirks(is_empty=True), "empty"),
        (Quirks(is_stalled=True), "empty"),
    ],
)
async def test_a_page_without_metrics_is_a_state(fleet: Fleet, opened: Open, quirks: Quirks, state: str) -> None:
    """Errors, empty pages and reloads say nothing about GPUs, and the node comes back by itself."""
    source = await opened()
    await source.read(next(TICKS))
    fleet.farm.quirks["n1"] = quirks
    records = await source.read(next(TICKS))
    assert states(records)["n1"] == state
    assert [record for record in records if record.node == "n1" and not isinstance(record, SourceState)] == []
    del fleet.farm.quirks["n1"]
    assert states(await source.read(next(TICKS)))["n1"] == "ok"


async def test_a_connection_that_breaks_off_is_a_cut_page(fleet: Fleet, opened: Open) -> None:
    """The whole lines of a broken body are kept; no GPU is missing for it."""
    fleet.farm.quirks["n1"] = Quirks(cut_at=4_000)
    records = [record for record in await (await opened()).read(next(TICKS)) if record.node == "n1"]
    assert states(records)["n1"] == "partial"
    assert {record.sm_clock_mhz for record in records if isinstance(record, GpuSample)} == {1980.0}


async def test_two_targets_that_are_one_exporter_are_told(fleet: Fleet, opened: Open) -> None:
    """The same GPUs under two nodes would merge two machines into one: the second node says so and nothing else."""
    records = await (await opened({"a": fleet.urls["n0"], "b": fleet.urls["n0"]})).read(next(TICKS))
    assert sorted(states(records).values()) == ["collision", "ok"]
    assert len(nodes(records)) == 1


async def test_closing_ends_scrapes_under_way(fleet: Fleet, opened: Open) -> None:
    """A source that is closed leaves no task behind."""
    fleet.farm.quirks["n0"] = Quirks(delay_s=30.0)
    source = await opened(patience_s=0.05)
    await source.read(next(TICKS))
    await source.close()
    assert [task for task in asyncio.all_tasks() if "ExporterSource" in repr(task.get_coro())] == []


async def test_one_reading_waits_for_every_first_page(fleet: Fleet) -> None:
    """As of one time each exporter is asked once: a slow one is waited for, and one that never answers is a state, not silence."""
    fleet.farm.quirks["n1"] = Quirks(delay_s=1.3)
    fleet.farm.quirks["n2"] = Quirks(delay_s=60.0)
    records, failed = await read_once([ExporterSource(fleet.urls, clock=fleet.clock, deadline_s=2.0)], START_NS)
    assert failed == []
    assert states(records) == {"n0": "ok", "n1": "ok", "n2": "timeout", "n3": "ok"}
    assert sum(isinstance(record, GpuSample) for record in records) == 6
