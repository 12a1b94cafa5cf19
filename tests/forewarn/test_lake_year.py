"""A year of a small fleet stays under the number of files that docs/lake.md states."""

from __future__ import annotations

import os
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from forewarn.lake_tables import all_tables, kept_days, kept_from
from forewarn.settings import LakeSection
from ingest.lake import Lake, table_rows
from ingest.lake_care import compact, expire, measure
from ingest.schema import EVENTS, GPU_SAMPLES

FIRST = date(2025, 1, 1)
DAYS = 365 if os.environ.get("FOREWARN_TEST_LONG") else 75
PAGE = Path(__file__).resolve().parents[2] / "docs" / "lake.md"


def live_files(kept: int) -> int:
    """Tell how many files a table has after a year: one a date that is kept, and three of today before its merge."""
    return min(kept or 365, 365) + 3


def test_commits_leave_one_file_a_date(tmp_path: Path) -> None:
    """A table that is kept for ever and one that is kept for 30 days: three commits a day, care once a month; a year in the long run."""
    lake, settings = Lake(tmp_path), LakeSection()
    for number in range(DAYS):
        today = FIRST + timedelta(days=number)
        for hour in (1, 9, 17):
            at = [datetime(today.year, today.month, today.day, hour, tzinfo=UTC)]
            common = {"node": ["n1"], "observed_at": at, "received_at": at, "source": ["t"]}
            lake.append(EVENTS, table_rows(EVENTS, {**common, "kind": ["xid"]}))
            if number >= DAYS - 70:
                lake.append(GPU_SAMPLES, table_rows(GPU_SAMPLES, {**common, "gpu_uuid": ["g"], "tier": ["hot"]}))
        if number % 30 == 29 or number == DAYS - 1:
            for table in (EVENTS, GPU_SAMPLES):
                first = kept_from(settings, table, today)
                if first:
                    expire(lake, table, before=first)
                compact(lake, table, today=today)

    events, samples = measure(lake, EVENTS), measure(lake, GPU_SAMPLES)
    assert events
    assert samples
    assert (events.rows, events.files) == (3 * DAYS, DAYS)
    assert (samples.rows, samples.files) == (3 * 31, 31)


def test_all_tables_together_stay_under_the_stated_number() -> None:
    """One file for each table and date that is kept by default, over all tables that are declared."""
    settings = LakeSection()
    (stated,) = re.findall(r"stays under ([\d,]+) live files", PAGE.read_text())
    assert stated == "5,200"
    assert sum(live_files(kept_days(settings, table)) for table in all_tables().values()) < 5200
