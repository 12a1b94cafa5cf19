"""Samples of a fleet as collectors send them: eight GPUs a node, every number given; gauges vary, counters grow slowly or stand."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from ingest.clock import NS
from ingest.columns import arrow_table
from ingest.messages import VERSION, Message, encode
from ingest.schema import GPU_SAMPLES, GpuSample
from ingest.spool import GAUGES, Spooled

GPUS = 8
START_NS = 1_750_000_000 * NS
INTERVAL_NS = 10 * NS
Poll = tuple[str, tuple[GpuSample, ...]]


def polls_of_fleet(nodes: int, polls: int) -> list[Poll]:
    """Make the rows of all nodes and polls in the order of time: node and its eight samples."""
    rng = random.Random(1)
    columns = [column for column in GPU_SAMPLES.own_columns if column.type in ("double", "int64", "bool") and column.name != "gpu_instance"]
    made = []
    for poll in range(polls):
        for number in range(nodes):
            at = START_NS + poll * INTERVAL_NS + number
            times = {"observed_at_ns": at, "received_at_ns": at + rng.randrange(10**8)}
            samples = tuple(
                GpuSample(
                    node=f"node{number:04d}",
                    gpu_uuid=f"GPU-{number * GPUS + gpu:08x}-1111-4222-8333-{number * 7919:012x}",
                    boot_id=f"b00t{number:028x}",
                    serial=f"16{number * GPUS + gpu:011d}",
                    pci=f"0000:{gpu:02x}:00",
                    gpu_model="NVIDIA H100 80GB HBM3",
                    driver_version="580.105.08",
                    source="nvml",
                    tier="warm",
                    **times,
                    **{column.name: _value(column, rng, number * GPUS + gpu, poll) for column in columns},
                )
                for gpu in range(GPUS)
            )
            made.append((f"node{number:04d}", samples))
    return made


def _value(column: Any, rng: random.Random, gpu: int, poll: int) -> Any:
    """Make a value: gauges vary, counters grow slowly or stand, flags are off."""
    if column.type == "bool":
        return column.name in ("ecc_mode", "gpu_present")
    if column.type == "int64":
        if column.name == "energy_mj_total":
            return gpu * 10**9 + poll * 7_000_000 + rng.randrange(100_000)
        return gpu + poll // 50 if column.name.startswith(("ecc_ce", "pcie_replay", "nvlink_crc")) else 0
    if column.unit in ("°C", "W"):
        return round(rng.gauss(60, 5), 1)
    return round(rng.uniform(0.8, 1.0), 2) if column.unit == "0..1" else 1980.0


def messages_of(polls: list[Poll], *, first: int = 0) -> list[Spooled]:
    """Write the polls as messages of one spool, numbered from `first`."""
    origin = "0" * 26
    return [
        Spooled(
            GAUGES,
            origin,
            seq,
            GPU_SAMPLES.name,
            node,
            len(rows),
            encode(Message(v=VERSION, table=GPU_SAMPLES.name, node=node, origin=origin, seq=seq, rows=rows)),
        )
        for seq, (node, rows) in enumerate(polls, first)
    ]


def table_of(polls: list[Poll]) -> pa.Table:
    """Give the rows of the polls as Arrow, with the columns of the writer."""
    rows = arrow_table(GPU_SAMPLES, [row for _, samples in polls for row in samples])
    seqs = [seq for seq, (_, samples) in enumerate(polls) for _ in samples]
    return rows.append_column("origin", pa.array(["0" * 26] * len(seqs), pa.string())).append_column("seq", pa.array(seqs, pa.int64()))
