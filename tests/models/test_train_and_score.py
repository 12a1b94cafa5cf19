"""From the lake to a promoted model and back into the lake as scores."""

import json
from dataclasses import replace
from datetime import timedelta

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from features.schema import EPISODES, GPU_FEATURES, NODE_FEATURES
from ingest.lake import Lake
from ingest.schema import SOURCE_STATES
from models.fitting import NothingToTrain, Settings
from models.hazard import Recipe
from models.model import ScopeModel
from models.schema import SCORES
from models.score import Scoring, score
from models.store import Store
from models.train import train
from models.trees import Growth

RENAMED = {"ce_6h": "ecc_ce_24h", "drift_c": "temp_drift_c_per_day", "noise": "power_swing_24h_w", "past_failures": "failures_life"}
SETTINGS = Settings(recipe=Recipe(growth=Growth(rounds=40)))


@pytest.fixture(scope="module")
def lake(known_fleet, tmp_path_factory):
    lake = Lake(tmp_path_factory.mktemp("lake"))
    gpu = known_fleet.material.landmarks["gpu"].rename({"unit": "gpu_uuid", **RENAMED}).drop("empty")
    lake.append(GPU_FEATURES, gpu.with_columns(telemetry_age_s=pl.lit(30.0)).to_arrow())
    node = known_fleet.material.landmarks["node"].drop("unit").rename({"fan_rpm_cv": "fan_slowest_24h"})
    lake.append(NODE_FEATURES, node.with_columns(telemetry_age_s=pl.lit(30.0)).to_arrow())
    lake.append(EPISODES, known_fleet.material.episodes.to_arrow())
    return lake


@pytest.fixture(scope="module")
def report(lake, known_fleet, tmp_path_factory):
    models = tmp_path_factory.mktemp("models")
    cutoff = known_fleet.start + timedelta(days=42)
    return train(lake, models, cutoff=cutoff, now=known_fleet.end, label_origin="synthetic", settings=SETTINGS)


@pytest.fixture
def as_of(known_fleet):
    return known_fleet.end - timedelta(hours=6)


def test_training_judges_stores_and_promotes(report):
    """The card, the figures and the table versions lie beside the model, and the store serves it."""
    assert report.evaluation.has_lift("gpu")
    assert json.loads((report.path / "data.json").read_text())["tables"] == {"gpu_features": 0, "node_features": 0, "episodes": 0}
    assert json.loads((report.path / "metrics.json").read_text())["main_horizon_h"] == 24.0
    assert "**synthetic**" in (report.path / "card.md").read_text()
    assert Store(report.path.parent.parent, "hazard").load().version == report.model.version


def test_only_informative_features_are_used(report):
    """Columns that are empty in this lake are no part of the model."""
    assert set(report.model.scopes["gpu"].hazard.features) == {"ecc_ce_24h", "temp_drift_c_per_day", "power_swing_24h_w"}


def test_scores_add_up(lake, report, as_of):
    """Incidences add up to p, the interval holds p, horizons grow, and a node survives when all its GPUs do."""
    rows = pl.from_arrow(score(lake, report.model, as_of=as_of, now=as_of, append=False))
    assert rows.group_by("scope").len().sort("scope")["len"].to_list() == [40 * 4 * 4, 40 * 4]
    incidence = np.array([sum(cif.values()) for cif in rows["cif"].to_list()])
    np.testing.assert_allclose(incidence, rows["p_fail"].to_numpy(), rtol=1e-9)
    assert (rows["p_low"] <= rows["p_fail"]).all()
    assert (rows["p_high"] >= rows["p_fail"]).all()
    assert rows.sort("horizon_h").group_by("unit").agg((pl.col("p_fail").diff() >= 0).all())["p_fail"].all()
    alive = rows.filter(pl.col("scope") == "gpu").group_by("node", "horizon_h").agg((1 - pl.col("p_fail")).product().alias("alive"))
    both = rows.filter(pl.col("scope") == "node").join(alive, on=["node", "horizon_h"])
    np.testing.assert_allclose(1 - both["p_fail"].to_numpy(), both["alive"].to_numpy(), rtol=1e-9)


def test_the_worst_gpu_is_named_and_explained(lake, report, as_of, known_fleet):
    """The riskiest node names its riskiest GPU, which is in a burst, and says so."""
    rows = pl.from_arrow(score(lake, report.model, as_of=as_of, now=as_of, append=False)).filter(pl.col("horizon_h") == 24.0)
    worst = rows.filter(pl.col("scope") == "node").sort("p_fail", descending=True).row(0, named=True)
    gpus = rows.filter((pl.col("scope") == "gpu") & (pl.col("node") == worst["node"])).sort("p_fail", descending=True)
    assert worst["worst_unit"] == gpus["unit"][0]
    reasons = json.loads(worst["reasons"])
    assert reasons[0]["feature"] == "ecc_ce_24h"
    assert reasons[0]["component"] == worst["worst_unit"]
    assert worst["p_base"] == pytest.approx(1 - (1 - gpus["p_base"][0]) ** 4)


def test_scores_are_appended(lake, report, as_of):
    """The rows that are given are the rows in the lake."""
    given = score(lake, report.model, as_of=as_of, now=as_of, nodes=["n001", "n002"])
    assert isinstance(given, pa.Table)
    assert set(given["node"].to_pylist()) == {"n001", "n002"}
    stored = pl.read_parquet(lake.files(SCORES), hive_partitioning=False)
    assert len(stored) == given.num_rows == (2 * 4 + 2) * 4
    assert set(stored["model_version"]) == {report.model.version}


def test_stale_telemetry_is_no_verdict_on_the_node(lake, report, as_of):
    """Half an hour later, with no newer features, the model abstains; the base rate is still given and no reason is made up."""
    later = as_of + timedelta(minutes=30)
    rows = pl.from_arrow(score(lake, report.model, as_of=later, now=later, append=False))
    assert rows["p_fail"].is_null().all()
    assert rows["cif"].is_null().all()
    assert rows["reasons"].is_null().all()
    assert set(rows["abstained_because"]) == {"stale_telemetry"}
    assert (rows["telemetry_age_s"] == 1830.0).all()
    assert rows["p_base"].is_not_null().all()


def test_a_model_of_history_alone_does_not_abstain(lake, report, as_of):
    """What needs no telemetry is not silenced by its absence."""
    history = replace(report.model, features=tuple(replace(f, family="history") for f in report.model.features))
    later = as_of + timedelta(minutes=30)
    rows = pl.from_arrow(score(lake, history, as_of=later, now=later, append=False))
    assert rows["p_fail"].is_not_null().all()


def test_old_landmarks_are_not_scored(lake, report, as_of):
    """Features older than the limit give no row at all."""
    later = as_of + timedelta(hours=3)
    assert score(lake, report.model, as_of=later, now=later, append=False, scoring=Scoring(oldest_landmark_h=2)).num_rows == 0


def test_silent_sources_are_named(lake, report, as_of):
    """The newest state of each source counts: one that went silent is named, one that came back is not."""
    states = [("nvml", "hung", 600), ("redfish", "unreachable", 900), ("redfish", "ok", 300)]
    when = [as_of - timedelta(seconds=s) for _, _, s in states]
    lake.append(
        SOURCE_STATES,
        pa.table(
            {
                "node": ["n001"] * 3,
                "source": [s for s, _, _ in states],
                "state": [s for _, s, _ in states],
                "observed_at": when,
                "received_at": when,
            }
        ),
    )
    rows = pl.from_arrow(score(lake, report.model, as_of=as_of, now=as_of, nodes=["n001"], append=False))
    assert {tuple(sources) for sources in rows["missing_sources"]} == {("nvml",)}


def test_scoring_what_training_saw_gives_equal_hazards(lake, report, as_of, known_fleet):
    """The scores of a landmark come from the same features and trees as training's."""
    rows = pl.from_arrow(score(lake, report.model, as_of=as_of, now=as_of, append=False))
    trained: ScopeModel = report.model.scopes["gpu"]
    landmark = known_fleet.material.landmarks["gpu"].filter(pl.col("as_of") == as_of).rename(RENAMED)
    hazard = trained.hazards_of(landmark).sum(axis=1)
    day = 1 - np.exp(-(hazard[:, :3] @ np.array([1.0, 5.0, 18.0])))
    scored = rows.filter((pl.col("scope") == "gpu") & (pl.col("horizon_h") == 24.0)).sort("unit")
    np.testing.assert_allclose(scored["p_fail"].to_numpy(), day, rtol=1e-9)


def test_an_empty_lake_is_said(tmp_path, known_fleet):
    """No features is one clear error, not a model of nothing."""
    with pytest.raises(NothingToTrain, match="no features"):
        train(Lake(tmp_path), tmp_path / "m", cutoff=known_fleet.start, now=known_fleet.end, label_origin="real")


def test_training_twice_gives_the_same_version(lake, report, known_fleet, tmp_path):
    """Same lake, same seed: the same bytes under the same name."""
    again = train(
        lake, tmp_path, cutoff=known_fleet.start + timedelta(days=42), now=known_fleet.end, label_origin="synthetic", settings=SETTINGS
    )
    assert again.model.version == report.model.version
