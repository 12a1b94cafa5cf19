"""Pages of an exporter and records of any collector on their way to features: collector, spool, writer, lake, roll-up."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from features.buckets import GPU_ROLLUPS_5M
from features.build import build_features
from features.rollup import roll_up
from features.schema import GPU_FEATURES
from ingest.bus import DirectBus
from ingest.clock import ns_of
from ingest.exporter.node import ExporterNode
from ingest.lake import Lake
from ingest.messages import group
from ingest.rejects import FileRejects
from ingest.schema import Observed
from ingest.spool import Spool
from ingest.writer import Writer

CASES = Path(__file__).parents[1] / "cases" / "exporter"
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
AS_OF = START + timedelta(minutes=10)


def pages_of(case: str) -> dict[int, bytes]:
    """Read the pages of a case by the second at which they come."""
    return {int(file.stem[1:]): file.read_bytes() for file in sorted((CASES / case).iterdir())}


def lake_of(directory: Path, pages: dict[int, bytes]) -> Lake:
    """Read pages and take them all the way to features as of `AS_OF`."""
    node = ExporterNode("gpu-node-17")
    polls = (node.scraped(page, 200, ns_of(START + timedelta(seconds=second))) for second, page in pages.items())
    return lake_of_polls(directory, polls, AS_OF)


def lake_of_polls(directory: Path, polls: Iterable[Iterable[Observed]], as_of: datetime) -> Lake:
    """Take the records of a node's polls all the way to features as of a time."""
    lake, spool = Lake(directory / "lake"), Spool(directory / "spool")
    for records in polls:
        for table, name, rows in group(records):
            spool.put(table, name, rows)
    writer = Writer(DirectBus(spool), lake, FileRejects(directory / "rejects"))
    writer.run_once()
    writer.flush()
    spool.close()
    roll_up(lake, as_of + timedelta(minutes=40))  # nothing came later: buckets close when patience is over
    build_features(lake, [as_of])
    return lake


def features_of(lake: Lake) -> pl.DataFrame:
    """Give the features of the GPUs."""
    return pl.read_parquet(lake.files(GPU_FEATURES), hive_partitioning=False).rename({"gpu_uuid": "unit"}).sort("unit")


def rollups_of(lake: Lake) -> pl.DataFrame:
    """Give the five-minute buckets of the GPUs."""
    return pl.read_parquet(lake.files(GPU_ROLLUPS_5M), hive_partitioning=False).sort("gpu_uuid")
