"""The recurring analysis goes from landmark to landmark of fleet time, each once, however often it is asked and whoever died in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from features.schema import NODE_FEATURES
from forewarn.analysis import Analysis
from forewarn.settings import Config
from ingest.lake import Lake, table_rows
from ingest.schema import GPU_SAMPLES

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture
def open_analysis(tmp_path: Path, lake: Lake) -> Iterator[Callable[[], Analysis]]:
    """Begin the analysis of one hour after the other, as often as a test wants; there is no model yet."""
    config = Config.model_validate({"fleet": {"state_dir": str(tmp_path / "state")}, "score": {"every_s": 3600}})
    opened: list[Analysis] = []

    def begin() -> Analysis:
        opened.append(Analysis(config, lake))
        return opened[-1]

    yield begin
    for analysis in opened:
        analysis.__exit__(None, None, None)


def sample(lake: Lake, *minutes: int) -> None:
    """Put one sample of one GPU into the lake for each of the minutes."""
    times = [START + timedelta(minutes=minute) for minute in minutes]
    columns = {
        "node": ["n1"] * len(times),
        "gpu_uuid": ["GPU-1"] * len(times),
        "source": ["nvml"] * len(times),
        "tier": ["hot"] * len(times),
        "observed_at": times,
        "received_at": times,
    }
    lake.append(GPU_SAMPLES, table_rows(GPU_SAMPLES, columns))


def landmarks(lake: Lake) -> list[datetime]:
    with duckdb.connect() as connection:
        lake.attach(connection, NODE_FEATURES)
        return [at for (at,) in connection.execute("select as_of from node_features order by 1").fetchall()]


def test_a_landmark_is_due_when_the_lake_is_complete_up_to_it(lake: Lake, open_analysis: Callable[[], Analysis]) -> None:
    """It waits for what was taken before the full hour, and comes once."""
    analysis = open_analysis()
    sample(lake, *range(0, 175, 5))
    for minute in (175, 181, 185):
        analysis.keep_up(START + timedelta(minutes=minute))
    assert landmarks(lake) == [START + timedelta(hours=2)]
    sample(lake, 175, 180)
    for minute in (186, 190):
        analysis.keep_up(START + timedelta(minutes=minute))
    assert landmarks(lake) == [START + timedelta(hours=2), START + timedelta(hours=3)]


def test_a_fleet_that_has_fallen_silent_is_still_analysed(lake: Lake, open_analysis: Callable[[], Analysis]) -> None:
    """After half an hour of patience the landmark is taken without its last samples."""
    analysis = open_analysis()
    sample(lake, *range(0, 175, 5))
    analysis.keep_up(START + timedelta(minutes=211))
    assert landmarks(lake) == [START + timedelta(hours=3)]


def test_one_that_was_away_goes_on_with_the_newest_landmark(lake: Lake, open_analysis: Callable[[], Analysis]) -> None:
    """What nobody waited for is not made up for, and what was done is not done again."""
    sample(lake, *range(0, 125, 5))
    open_analysis().keep_up(START + timedelta(minutes=125))
    sample(lake, *range(125, 365, 5))
    for _ in range(2):
        open_analysis().keep_up(START + timedelta(minutes=365))
    assert landmarks(lake) == [START + timedelta(hours=2), START + timedelta(hours=6)]
