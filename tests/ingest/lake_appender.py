"""A process that appends numbered samples to an old date and to today of a lake: lake_appender.py ROOT FIRST COUNT."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

from ingest.lake import AppTransaction, Lake, table_rows
from ingest.schema import GPU_SAMPLES

DAYS = (datetime(2025, 6, 1, tzinfo=UTC), datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0))


def main() -> None:
    """Append as many commits as asked for, ten rows each, alternately to each date."""
    lake, first, count = Lake(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for number in range(first, first + count):
        at = [DAYS[number % 2] + timedelta(seconds=number)] * 10
        columns = {"node": [f"n{i}" for i in range(10)], "gpu_uuid": ["g"] * 10, "energy_mj_total": [number] * 10}
        rows = table_rows(GPU_SAMPLES, {**columns, "observed_at": at, "received_at": at, "source": ["t"] * 10, "tier": ["hot"] * 10})
        assert lake.append(GPU_SAMPLES, rows, AppTransaction(f"s{first}", number))


if __name__ == "__main__":
    main()
