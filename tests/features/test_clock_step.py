"""A node whose clock steps by an hour, forth and back, is kept as it was said and changes nothing of any other node."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from features.buckets import GPU_ROLLUPS_1H, GPU_ROLLUPS_5M
from features.rollup import roll_up
from ingest.bus import DirectBus
from ingest.lake import Lake
from ingest.rejects import FileRejects
from ingest.schema import GPU_SAMPLES, GpuSample
from ingest.spool import Spool
from ingest.tables import Table
from ingest.writer import Writer

START = datetime(2025, 6, 1, 22, tzinfo=UTC)  # the step goes over midnight, into another partition
MINUTES = 240
NOBODY: Mapping[str, int] = {}


def live(directory: Path, steps_h: Mapping[str, int]) -> Lake:
    """Let two nodes send a sample a minute for four hours, of which the second hour is under the stepped clocks, and roll up meanwhile."""
    lake, spool = Lake(directory / "lake"), Spool(directory / "spool")
    writer = Writer(DirectBus(spool), lake, FileRejects(directory / "rejects"))
    for minute in range(MINUTES):
        now = START + timedelta(minutes=minute)
        for node in ("a", "b"):
            step_h = steps_h.get(node, 0) if 60 <= minute < 120 else 0
            said_ns = int((now + timedelta(hours=step_h)).timestamp()) * 1_000_000_000
            sample = GpuSample(
                node=node,
                gpu_uuid=f"GPU-{node}",
                tier="hot",
                source="nvml",
                observed_at_ns=said_ns,
                received_at_ns=said_ns,  # the collector of a node has the node's clock
                temp_c=50.0 + minute % 7,
                pcie_replay_total=minute,
            )
            spool.put("gpu_samples", node, [sample])
        if minute % 30 == 29:
            writer.run_once()
            writer.flush()
            roll_up(lake, now)
    roll_up(lake, START + timedelta(hours=9))
    spool.close()
    return lake


def rows(lake: Lake, table: Table, columns: str, node: str) -> list[tuple[object, ...]]:
    """Read what is known of a node."""
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        lake.attach(connection, table)
        return connection.execute(f"select {columns} from {table.name} where node = '{node}' group by all order by all").fetchall()


@pytest.mark.parametrize("step_h", [1, -1])
def test_other_nodes_are_as_they_would_be_without_it(tmp_path: Path, step_h: int) -> None:
    """Every sample and every bucket of the other node is the same, and of the node itself every sample is there under the time it said."""
    stepped, quiet = live(tmp_path / "stepped", {"a": step_h}), live(tmp_path / "quiet", NOBODY)
    samples = "observed_at, received_at, temp_c, pcie_replay_total, date, seq % 2"
    assert rows(stepped, GPU_SAMPLES, samples, "b") == rows(quiet, GPU_SAMPLES, samples, "b")
    assert sum(int(str(row[1])) for row in rows(quiet, GPU_ROLLUPS_1H, "started_at, sum(polls)", "b")) == MINUTES
    for table in (GPU_ROLLUPS_1H, GPU_ROLLUPS_5M):
        sums = "started_at, sum(polls), sum(pcie_replay), round(sum(temp_sum), 6)"
        assert rows(stepped, table, sums, "b") == rows(quiet, table, sums, "b")

    said = rows(stepped, GPU_SAMPLES, "pcie_replay_total, observed_at, date", "a")
    times = [START + timedelta(minutes=minute, hours=step_h if 60 <= minute < 120 else 0) for minute in range(MINUTES)]
    assert said == [(minute, at, f"{at:%Y-%m-%d}") for minute, at in enumerate(times)]
