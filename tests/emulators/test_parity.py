"""History and the live path say the same: a row written in bulk equals what the real collector makes of the device at that time."""

from __future__ import annotations

import asyncio
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from emulators.bmc.server import Bmc
from emulators.exporter import Labels, render
from emulators.history_chassis import chassis_readings
from emulators.history_samples import SampleHistory
from emulators.layout import DAY_NS, DRIVER_VERSION, HOUR_NS, NS, WorldSpec
from emulators.nvml.machine import NvmlMachine
from emulators.world import World
from ingest.clock import ManualClock
from ingest.exporter.node import ExporterNode
from ingest.nvml.source import NvmlSource
from ingest.redfish.source import RedfishSource
from ingest.redfish.target import RedfishTarget
from ingest.schema import ChassisReading, GpuSample

CADENCE_NS = 300 * NS
# Told by the run of a collector, not by the device.
OWN = {"node", "observed_at_ns", "received_at_ns", "epoch", "latency_us", "xid_last_age_s"}


@cache
def fleet() -> World:
    return World(WorldSpec.show(seed=9, nodes=8, days=10, rate_scale=300.0, defects=False))


@cache
def history(source: str) -> dict[tuple[str, int, str], dict[str, Any]]:
    """Key the rows of two days by node, poll and GPU."""
    start_ns = fleet().spec.start_ns
    found = {}
    for table in SampleHistory(fleet()).gpu_samples(start_ns, start_ns + 2 * DAY_NS):
        for row in table.to_pylist():
            poll = (int(row["observed_at"].timestamp() * 1e6) * 1000 - start_ns) // CADENCE_NS
            if row["source"] == source:
                found[row["node"], poll, row["gpu_uuid"]] = row
    return found


def compare(live: GpuSample, written: dict[str, Any]) -> None:
    for name in set(GpuSample.__struct_fields__) - OWN:
        value, stored = getattr(live, name), written.get(name)
        stored = dict(stored) if isinstance(stored, list) else stored
        if name.endswith("_ratio") and value is not None:
            assert value == pytest.approx(stored, abs=0.0101), name  # NVML has whole percents
        else:
            assert value == stored, (name, live.node, live.gpu_uuid)


def polls_with_trouble(source: str) -> list[tuple[str, int]]:
    """List polls in which a GPU has no values, and every 40th other one."""
    rows = history(source)
    bad = {key[:2] for key, row in rows.items() if row.get("temp_c") is None}
    return sorted(bad | {key[:2] for key in rows if key[1] % 40 == 0})


def test_an_exporter_page_becomes_the_written_rows() -> None:
    """Pages of GPUs that work, are lost and are hidden become, through the real parser, the rows of the history."""
    compared = 0
    nodes: dict[str, ExporterNode] = {}
    for name, poll in polls_with_trouble("exporter"):
        uuids = [gpu.uuid for gpu in fleet().gpus if gpu.node == name and gpu.removed_ns is None]
        at_ns = fleet().spec.start_ns + poll * CADENCE_NS
        node = nodes.setdefault(name, ExporterNode(name, expected=uuids))
        node.scraped(render(fleet().gpu_states(name, at_ns - CADENCE_NS), Labels(host=name)), 200, at_ns - CADENCE_NS)
        said = node.scraped(render(fleet().gpu_states(name, at_ns), Labels(host=name)), 200, at_ns)
        for record in said:
            if isinstance(record, GpuSample) and record.gpu_present:
                compare(record, history("exporter")[name, poll, record.gpu_uuid])
                compared += 1
            elif isinstance(record, GpuSample):
                written = history("exporter").get((name, poll, record.gpu_uuid))
                assert written is None or not written["gpu_present"]
    assert compared > 300


async def test_a_bmc_is_read_as_written() -> None:
    """Every series of a BMC that loses a supply becomes, through the real collector, the readings of the history."""
    large = World(WorldSpec.show(defects=False))
    failing = [f for f in large.failures if f.mode == "psu_vr" and f.is_visible]
    failure = next(f for f in failing if not all(large.chassis_state(f.node, f.failed_ns // CADENCE_NS * CADENCE_NS).psu_is_present))
    at_ns = failure.failed_ns // CADENCE_NS * CADENCE_NS
    rows = [row for row in chassis_readings(large, at_ns, at_ns + HOUR_NS).to_pylist() if row["node"] == failure.node]
    written = {(row["sensor"], row["quantity"], row["device"], row["unit"]): (row["value"], row["text"], row["quality"]) for row in rows}
    bmc = Bmc(
        failure.node,
        read_state=lambda: (large.chassis_state(failure.node, at_ns), large.gpu_states(failure.node, at_ns)),
        now_ns=lambda: at_ns,
        report_interval_s=0.1,
    )
    target = RedfishTarget(url=await bmc.start(), username="forewarn", password="forewarn-test")
    source = RedfishSource({failure.node: target}, clock=ManualClock(at_ns), poll_interval_s=3600)
    await source.open()
    read = {}
    try:
        async with asyncio.timeout(20):
            while not written.keys() <= read.keys():
                for record in await source.read(at_ns):
                    if isinstance(record, ChassisReading):
                        read[record.sensor, record.quantity, record.device, record.unit] = (record.value, record.text, record.quality)
                await asyncio.sleep(0.01)
    finally:
        await source.close()
        await bmc.stop()
    assert {key: read[key] for key in written} == written


@pytest.mark.nvml
async def test_the_agent_reads_the_written_rows(tmp_path: Path) -> None:
    """The states shown by the emulated library become, through the real agent, the rows of the history."""
    name = "gpu001"
    polls = [poll for node, poll in polls_with_trouble("nvml") if node == name]
    start_ns = fleet().spec.start_ns
    machine = NvmlMachine(
        tmp_path / "state", boot_id="", gpus=fleet().gpu_states(name, start_ns), driver_version=DRIVER_VERSION, cache_dir=tmp_path
    )
    boot_file, clock = tmp_path / "boot_id", ManualClock(start_ns)
    agent = NvmlSource(
        name,
        clock=clock,
        interval_s=300,
        warm_interval_s=300,
        cold_interval_s=21_600,
        environment=machine.environment(),
        boot_id_path=boot_file,
    )
    await agent.open()
    compared = 0
    try:
        for poll in polls:
            at_ns = start_ns + poll * CADENCE_NS
            boot_file.write_text(fleet().boot_id(name, at_ns))  # a file of a few bytes
            machine.show(fleet().gpu_states(name, at_ns))
            clock.advance((at_ns - clock.now_ns()) / NS)
            for record in await agent.read(at_ns):
                written = history("nvml").get((name, poll, record.gpu_uuid)) if isinstance(record, GpuSample) else None
                if written is not None and record.tier == written["tier"]:
                    compare(record, written)
                    compared += 1
    finally:
        await agent.close()
        machine.close()
    assert compared > 50
