"""The commands of docs/tutorials/real-failures.md on public failure data: figures beside baselines, and below what only a leak reaches."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from forewarn.cli import app

DATA = Path(os.environ.get("FOREWARN_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.data,
    pytest.mark.skipif(not DATA.is_dir(), reason="the public failure data is not beside the project (FOREWARN_TEST_DATA names its folder)"),
]


def forewarn(home: Path, *arguments: str) -> Any:
    environment = {"FOREWARN__LAKE__PATH": str(home / "lake"), "FOREWARN__FLEET__STATE_DIR": str(home)}
    done = CliRunner().invoke(app, [*arguments, "--json"], env=environment, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def figures(home: Path, level: str) -> dict[str, dict[str, Any]]:
    return {row["contender"]: row for row in forewarn(home, "evaluate")["judgement"] if row["level"] == level}


def test_titan(tmp_path: Path) -> None:
    """GPUs of Titan, 28-day horizon, trained before 2016: better than a constant, every figure with its interval, and no leak."""
    taken = forewarn(tmp_path, "import", str(DATA / "titan_to_2016"))
    assert {file["file"]: sum(file["taken"].values()) for file in taken["files"]}["events.parquet"] == 3022
    again = forewarn(tmp_path, "import", str(DATA / "titan_to_2016"))
    assert all(not file["taken"] for file in again["files"])
    forewarn(tmp_path, "features", "--since", "2014-03-01", "--until", "2016-12-01", "--grid-h", "672")
    forewarn(tmp_path, "train", "--cutoff", "2016-01-01", "--at", "2016-12-01", "--horizons", "672")
    found = figures(tmp_path, "gpu")
    model = found["model"]
    assert found["constant"]["average_precision"]["value"] < model["average_precision"]["low"]
    assert model["average_precision"]["value"] < 0.09
    assert model["auroc"]["value"] > 0.75
    assert 0 < model["expected_over_observed"]["low"] < model["expected_over_observed"]["high"]  # lags a rate that rises 17-fold


def test_lanl(tmp_path: Path) -> None:
    """Nodes of LANL, 7-day horizon, trained before 2004, with the healthy nodes added: better than a constant, and no leak."""
    assert forewarn(tmp_path, "import", str(DATA / "lanl"))["units_added"] == 1646
    forewarn(tmp_path, "features", "--since", "2001-01-01", "--until", "2004-12-31", "--grid-h", "168")
    forewarn(tmp_path, "train", "--cutoff", "2004-01-01", "--at", "2004-12-31", "--horizons", "168")
    found = figures(tmp_path, "node")
    assert found["constant"]["average_precision"]["value"] < found["model"]["average_precision"]["low"]
    assert found["model"]["average_precision"]["value"] < 0.08
    assert forewarn(tmp_path, "score", "--at", "2004-12-31")["scores"] > 3000
    forewarn(tmp_path, "alert", "--once", "--at", "2004-12-31")
