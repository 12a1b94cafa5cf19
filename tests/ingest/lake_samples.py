"""A small table of samples for the tests of the lake's care."""

from __future__ import annotations

from datetime import UTC, datetime

import duckdb
import pyarrow as pa

from ingest.lake import AppTransaction, Lake, table_rows
from ingest.schema import GPU_SAMPLES


def samples(day: int, minute: int, nodes: int = 3) -> pa.Table:
    """Make samples of a few GPUs at one minute, in no good order."""
    at = datetime(2025, 6, day, 0, minute, tzinfo=UTC)
    names = [f"n{number}" for number in reversed(range(nodes))]
    common = {"observed_at": [at] * nodes, "received_at": [at] * nodes, "source": ["t"] * nodes, "tier": ["hot"] * nodes}
    quality = [{"power_w": "blank"}] * nodes
    return table_rows(
        GPU_SAMPLES,
        {
            "node": names,
            "gpu_uuid": [f"G-{name}" for name in names],
            "temp_c": [float(minute)] * nodes,
            "quality": [list(entry.items()) for entry in quality],
            "origin": ["A" * 26] * nodes,
            "seq": [day * 100 + minute] * nodes,
            **common,
        },
    )


def fill(lake: Lake) -> None:
    """Write three days of five files each."""
    for day in (1, 2, 3):
        for minute in range(5):
            lake.append(GPU_SAMPLES, samples(day, minute), AppTransaction("s", day * 10 + minute))


def content(lake: Lake) -> list[tuple[object, ...]]:
    """Read every row and column, ordered."""
    with duckdb.connect() as connection:
        lake.attach(connection, GPU_SAMPLES)
        return connection.execute("select * from gpu_samples order by node, observed_at").fetchall()
