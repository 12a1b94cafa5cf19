"""Small lakes and small tables for the tests of the feature layer."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from features import engine
from ingest.lake import Lake, table_rows
from ingest.schema import GPU_SAMPLES
from ingest.tables import TIMESTAMP, Table

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture
def connection() -> Iterator[engine.Connection]:
    with engine.connect(1) as opened:
        yield opened


@pytest.fixture
def at() -> Callable[..., datetime]:
    """Give the time so many hours, minutes, seconds after the first of January 2026."""

    def time_at(hours: float = 0, minutes: float = 0, seconds: float = 0) -> datetime:
        return START + timedelta(hours=hours, minutes=minutes, seconds=seconds)

    return time_at


Rows = Sequence[Mapping[str, Any]]


def _as_rows(table: Table, rows: Rows) -> pa.Table:
    columns: dict[str, list[Any]] = {}
    for column in table.own_columns:
        values = [row.get(column.name) for row in rows]
        if column.type == TIMESTAMP or any(value is not None for value in values):
            columns[column.name] = values
    return table_rows(table, columns)


@pytest.fixture
def put(lake: Lake) -> Callable[[Table, Rows], None]:
    """Append rows to a table; `received_at` is `observed_at` and `source` is nvml where a row does not say."""

    def append(table: Table, rows: Rows) -> None:
        filled = [
            {"source": "nvml", "node": "n1", "tier": "warm", "received_at": row["observed_at"], **row} if "observed_at" in row else row
            for row in rows
        ]
        lake.append(table, _as_rows(table, filled))

    return append


@pytest.fixture
def read(lake: Lake) -> Callable[[Table], list[dict[str, Any]]]:
    """Read a table's rows, sorted as the table is."""

    def rows(table: Table) -> list[dict[str, Any]]:
        with engine.connect(1) as opened:
            lake.attach(opened, table)
            return opened.sql(f"from {table.name} order by {', '.join(table.sort_by)}").to_arrow_table().to_pylist()

    return rows


@pytest.fixture
def sampled(put: Callable[[Table, Rows], None]) -> Callable[..., None]:
    """Put samples of a small fleet: `gpus` GPUs on nodes of two, polled every five minutes from `hours[0]` to `hours[1]`, seeded."""

    def write(hours: tuple[float, float], *, gpus: int = 4, seed: int = 0, silent: Mapping[str, tuple[float, float]] | None = None) -> None:
        rng = random.Random(seed)
        rows = []
        for number in range(gpus):
            uuid = f"g{number}"
            errors = 0
            for step in range(int(hours[1] * 12)):
                hour = step / 12
                errors += rng.random() < 0.1
                temperature, power = 50 + rng.random() * 20, 300 + rng.random() * 300
                from_h, until_h = (silent or {}).get(uuid, (0, 0))
                if hour < hours[0] or from_h <= hour < until_h:
                    continue
                observed_at = START + timedelta(minutes=5 * step, seconds=2)
                rows.append(
                    {
                        "node": f"n{number // 2}",
                        "gpu_uuid": uuid,
                        "gpu_index": number % 2,
                        "observed_at": observed_at,
                        "received_at": observed_at + timedelta(seconds=1),
                        "temp_c": temperature,
                        "power_w": power,
                        "gpu_util_ratio": 0.8,
                        "sm_clock_mhz": 1900.0,
                        "uptime_s": hour * 3600,
                        "ecc_ce_volatile_total": errors,
                        "nvlink_crc_total": 2 * errors,
                        "nvlink_replay_total": errors,
                        "pcie_replay_total": step,
                        "hw_thermal_ns_total": step * 10**9,
                        "pcie_link_gen": 5,
                        "pcie_link_width": 16,
                    }
                )
        put(GPU_SAMPLES, rows)

    return write
