"""A GPU whose failing memory starves its collector is riskier for what is missing of it as for what is counted, up to the decision."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from alerting.costs import CostModel
from alerting.policy import NodeView, PolicySettings, Wanted, want
from alerting.risk import ScoreRow, risks
from features.schema import FEATURES
from ingest.lake import Lake
from models.fitting import Material, Settings, fit_model
from models.hazard import Recipe
from models.model import Model
from models.score import score
from models.trees import Growth
from tests.forewarn.pages import AS_OF, START, features_of, lake_of, pages_of

SICK = "GPU-0a1b2c33-1111-4222-8333-444455556663"
BASE_PER_H, LIFT = 1e-4, 80


@pytest.fixture(scope="module")
def model() -> Model:
    """Fit a model to a fleet in which missing polls and corrected errors, each by itself, multiply the hazard by 80."""
    rng = np.random.default_rng(5)
    landmarks, episodes = [], []
    for number in range(400):
        unit, at_h, fails = f"GPU-{number}", np.arange(0, 40 * 24, 12), None
        silent, noisy = (np.repeat(rng.random(len(at_h) // 10) < 0.1, 10) for _ in range(2))  # for five days each
        for k, at in enumerate(at_h):
            causes = {"fell_off_bus": LIFT if silent[k] else 1, "hbm_ue": LIFT if noisy[k] else 1}
            times = {mode: at + rng.exponential(1 / (BASE_PER_H * lift)) for mode, lift in causes.items()}
            mode = min(times, key=lambda mode: times[mode])
            if times[mode] < at + 12:
                fails = (times[mode], mode)
                break
        end_h, mode = fails or (float(40 * 24), None)
        lived = at_h <= end_h
        polls, errors = np.where(silent, rng.uniform(0.4, 0.9, len(at_h)), 0), np.where(noisy, 10 ** rng.uniform(5, 7, len(at_h)), 0)
        rows = {"hour": at_h[lived], "polls_missing_1h": polls[lived], "ecc_ce_1h": errors[lived]}
        landmarks.append(pl.DataFrame(rows).with_columns(node=pl.lit(f"n{number // 8}"), unit=pl.lit(unit)))
        episodes.append(("gpu", unit, f"n{number // 8}", 0.0, end_h, "failure" if fails else "data_end", mode))
    known = pl.concat(landmarks).with_columns(as_of=_at("hour")).drop("hour").sort("unit", "as_of")
    columns = ["scope", "unit", "node", "begin", "end", "ended_by", "mode"]
    lives = pl.DataFrame(episodes, schema=columns, orient="row", infer_schema_length=None)
    until = START + timedelta(days=40)
    lives = lives.with_columns(started_at=_at("begin"), ended_at=_at("end"), known_at=_at("end"), labelled_at=pl.lit(until))
    settings = Settings(
        recipe=Recipe(growth=Growth(rounds=60)), catalogue=[feature for feature in FEATURES if feature.name in known.columns]
    )
    material = Material({"gpu": known}, lives.drop("begin", "end").sort("scope", "unit", "started_at"))
    return fit_model(material, settings, until=until, name="m", label_origin="synthetic")


def _at(hours: str) -> pl.Expr:
    return pl.lit(START) + pl.duration(microseconds=(pl.col(hours) * 3.6e9).cast(pl.Int64))


def decide(lake: Lake, model: Model) -> Wanted:
    rows = pl.from_arrow(score(lake, model, as_of=AS_OF, now=AS_OF, append=False))
    assert isinstance(rows, pl.DataFrame)
    names = ("node", "horizon_h", "p_fail", "p_low", "p_high", "p_base", "cif", "worst_unit", "reasons", "abstained_because")
    told = [
        ScoreRow(as_of_ns=1, **{name: row[name] for name in names}) for row in rows.filter(pl.col("scope") == "node").iter_rows(named=True)
    ]
    view = NodeView(node="gpu-node-17", risk=risks(told, 24.0)["gpu-node-17"])
    found = want(view, CostModel(checkpoint_interval_h=1.0, gang_nodes=8), PolicySettings())
    assert found
    return found


def test_d30_missing_polls_and_errors_are_features_and_raise_risk(model: Model, tmp_path: Path) -> None:
    """D30: six tenths of the polls of GPU 3 are missing and none of another's; the errors are those of the real time; each raises risk."""
    rows = features_of(lake_of(tmp_path, pages_of("D30")))
    assert rows.filter(pl.col("unit") != SICK)["polls_missing_1h"].to_list() == [0] * 7
    sick = rows.filter(pl.col("unit") == SICK)
    assert sick["polls_missing_1h"].item() == pytest.approx(0.625)
    assert sick["ecc_ce_1h"].item() == pytest.approx(17_700 * 180)

    def hazard(**instead: float) -> float:
        changed = sick.with_columns(**{name: pl.lit(value) for name, value in instead.items()})
        return float(model.scopes["gpu"].hazards_of(changed)[..., 0].sum())  # of the next hour

    healthy = hazard(polls_missing_1h=0.0, ecc_ce_1h=0.0)
    assert hazard(ecc_ce_1h=0.0) > 5 * healthy
    assert hazard(polls_missing_1h=0.0) > 5 * healthy
    assert hazard() > hazard(ecc_ce_1h=0.0)
    assert hazard() > hazard(polls_missing_1h=0.0)


def test_d30_errors_do_not_depend_on_the_polls_that_are_missing(tmp_path: Path) -> None:
    """D30: 17,700 errors a second come to the same features whether every poll of the GPU was answered or three of eight."""
    pages, first = pages_of("D30"), 9_600_000_000
    answered = {at: pages[0].replace(b" %d" % first, b" %d" % (first + 17_700 * at)) for at in range(0, 210, 30)}
    told = []
    for name, polls in (("three", pages), ("all", answered)):
        row = features_of(lake_of(tmp_path / name, polls)).row(by_predicate=pl.col("unit") == SICK, named=True)
        told.append((row["ecc_ce_1h"], row["ecc_ce_24h"], row["ecc_ce_burst_7d"]))
    assert told == [(17_700 * 180,) * 3] * 2


def test_d30_is_decided_upon(model: Model, tmp_path: Path) -> None:
    """D30: something is wanted for the node, and nothing for the same node when all GPUs are on every page and count nothing."""
    sick = decide(lake_of(tmp_path / "sick", pages_of("D30")), model)
    first = pages_of("D30")[0]
    well = decide(lake_of(tmp_path / "well", dict.fromkeys(range(0, 240, 30), first)), model)
    assert sick.p_fail > well.p_fail
    assert sick.action.severity > well.action.severity == 0
