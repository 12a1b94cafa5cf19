"""The demo runs from its first day to its account, and the same seed gives the same history, truth and model."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import duckdb
import pytest

from emulators.world import World, WorldSpec
from forewarn.demo import DemoOptions, run_demo
from forewarn.screen import Screen, summary
from ingest.lake import Lake
from ingest.schema import EVENTS, GPU_SAMPLES, JOBS, OUTCOMES

pytestmark = [pytest.mark.e2e, pytest.mark.nvml]
SMALL = {"days": 16, "live_nodes": 8, "failures": 2, "live_s": 40.0}


def short_demo(directory: Path, seed: int) -> dict[str, object]:
    return json.loads(json.dumps(summary(run_demo(DemoOptions(directory=directory, seed=seed, **SMALL), Screen(is_quiet=True)))))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """Run one short demo for all tests of this module."""
    directory = tmp_path_factory.mktemp("demo")
    return directory, short_demo(directory, seed=7)


def test_demo_ends_with_an_account(demo: tuple[Path, dict[str, object]]) -> None:
    """Every failure of the live part has a verdict: announced with its lead, or not with the reason."""
    _, result = demo
    verdicts = result["failures"]
    assert len(verdicts) >= 1
    assert all((v["lead_h"] is None) != (v["why_not"] is None) for v in verdicts)
    assert result["announced"] == sum(v["lead_h"] is not None for v in verdicts)


def test_model_stands_next_to_its_baselines(demo: tuple[Path, dict[str, object]]) -> None:
    """The judgement names the model and four baselines at both levels, each with figures at every horizon."""
    _, result = demo
    seen = {(row["level"], row["contender"]) for row in result["judgement"]}
    assert seen == {(level, name) for level in ("gpu", "node") for name in ("model", "constant", "rules", "logistic", "history")}


def test_every_live_source_reached_the_lake(demo: tuple[Path, dict[str, object]]) -> None:
    """The collectors read what the devices showed: agent, exporter, kernel log and BMC, after the history ended."""
    directory, _ = demo
    start = World(WorldSpec.show(seed=7, days=56)).spec.start_ns + 16 * 86_400 * 10**9
    lake = Lake(directory / "lake")
    with duckdb.connect() as connection:
        lake.attach(connection, GPU_SAMPLES)
        found = connection.execute("select distinct source from gpu_samples where epoch_ns(observed_at) > ?", [start]).fetchall()
    assert {source for (source,) in found} == {"nvml", "exporter"}


def test_the_same_seed_gives_the_same_history_and_model(demo: tuple[Path, dict[str, object]], tmp_path: Path) -> None:
    """History, truth and model of a second run are equal, value by value, to those of the first."""
    directory, _ = demo
    again = tmp_path / "again"
    run_demo(DemoOptions(directory=again, seed=7, **{**SMALL, "failures": 1, "live_s": 20.0}), Screen(is_quiet=True))
    assert fingerprint(again) == fingerprint(directory)


def fingerprint(directory: Path) -> dict[str, str]:
    """Sum up the history before the live part, the truth and the model's files."""
    start = World(WorldSpec.show(seed=7, days=56)).spec.start_ns + 16 * 86_400 * 10**9
    lake = Lake(directory / "lake")
    prints = {}
    with duckdb.connect() as connection:
        for table in (GPU_SAMPLES, EVENTS, JOBS, OUTCOMES):
            lake.attach(connection, table)
            rows = f"select hash({table.name}) as h from {table.name} where epoch_ns(received_at) <= {start} and origin is null"
            prints[table.name] = str(connection.execute(f"select count(*), bit_xor(h), sum(h::hugeint) from ({rows})").fetchall())
        prints["truth"] = str(connection.execute(f"select * from read_parquet('{directory}/truth.parquet') order by all").fetchall())
    first = sorted((directory / "state" / "models" / "hazard").glob("*/model.json"))[0].parent
    for file in sorted(first.glob("*.txt")):
        prints[file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
    return prints
