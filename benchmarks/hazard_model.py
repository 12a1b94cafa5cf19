"""Measure training and scoring on a fleet of the demo's size: `python -m benchmarks.hazard_model [--gpus 384] [--score 8000]`.

Prints wall and CPU seconds beside the peer of each: person-period rows x trees per second, and predictions of one booster alone.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import numpy as np
import polars as pl

from features.schema import FEATURES
from models.fitting import Material, Settings, fit_model
from models.fleet import Fleet, fleet_of
from models.model import Model
from models.score import Scoring, score_fleet
from models.trial import judge_recipe

START = datetime(2026, 1, 1, tzinfo=UTC)
DAYS, EVERY_H = 60, 4
T = TypeVar("T")
MODES = ("fell_off_bus", "gpu_faulty", "hbm_ue", "nvlink", "thermal")


def main() -> None:
    """Run the measurements and print one line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=384, help="GPUs of the fleet that is trained on")
    parser.add_argument("--score", type=int, default=8000, help="GPUs of the larger fleet that is scored")
    options = parser.parse_args()
    material = draw(options.gpus, np.random.default_rng(7))
    settings, end = Settings(), START + timedelta(days=DAYS)
    rows = {scope: len(landmarks) for scope, landmarks in material.landmarks.items()}
    print(f"landmarks: {rows}; failures: {int((material.episodes['ended_by'] == 'failure').sum())}")
    measure("judge against baselines", lambda: judge_recipe(material, settings, cutoff=START + timedelta(days=45), now=end))
    model = measure("train until now", lambda: fit_model(material, settings, until=end, name="bench", label_origin="synthetic"))
    for gpus in (128, options.score):
        fleet = as_fleet(gpus, end)
        measure(f"score {gpus:,} GPUs", lambda fleet=fleet: score_fleet(model, fleet, as_of=end, now=end, scoring=Scoring()))
        measure(f"  of which trees alone, {gpus:,} GPUs", lambda gpus=gpus: trees_alone(model, gpus))
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


def measure(what: str, act: Callable[[], T]) -> T:
    """Run once and print wall and CPU time."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = act()
    print(f"{what}: {time.perf_counter() - wall:.2f} s wall, {time.process_time() - cpu:.2f} s CPU")
    return result


def trees_alone(model: Model, gpus: int) -> None:
    """Predict with the trees and nothing else: the floor of a scoring pass."""
    trained = model.scopes["gpu"]
    trained.hazard.hazards(np.random.default_rng(0).random((gpus, len(trained.hazard.features)), dtype=np.float32))


def draw(gpus: int, rng: np.random.Generator) -> Material:
    """Draw landmarks with every feature of the catalogue as noise, one that foretells failures, and episodes of all modes."""
    times = [START + timedelta(hours=h) for h in range(0, DAYS * 24, EVERY_H)]
    units = [f"GPU-{i:05d}" for i in range(gpus)]
    signal = rng.random((gpus, len(times))) < 0.05
    frames = {"gpu": _landmarks(units, times, "gpu", signal, rng), "node": _landmarks(_nodes(units), times, "node", None, rng)}
    episodes = [row for i, unit in enumerate(units) for row in _episodes(unit, _node(i), signal[i], rng)]
    episodes += [("node", node, node, 0.0, DAYS * 24.0, "data_end", None) for node in _nodes(units)]
    return Material(frames, _frame(episodes))


def _node(index: int) -> str:
    return f"n{index // 8:04d}"


def _nodes(units: list[str]) -> list[str]:
    return sorted({_node(i) for i in range(len(units))})


def _landmarks(units: list[str], times: list[datetime], scope: str, signal: np.ndarray | None, rng: np.random.Generator) -> pl.DataFrame:
    count = len(units) * len(times)
    names = [feature.name for feature in FEATURES if feature.scope == scope]
    values = {name: rng.normal(size=count) for name in names}
    if signal is not None:
        values["ecc_ce_24h"] = np.where(signal.ravel(), rng.exponential(50, count), 0.0)
    nodes = [_node(i) if scope == "gpu" else unit for i, unit in enumerate(units)]
    keys = {"node": np.repeat(nodes, len(times)), "unit": np.repeat(units, len(times)), "as_of": times * len(units)}
    return pl.DataFrame({**keys, **values}).with_columns(telemetry_age_s=pl.lit(30.0)).sort("unit", "as_of")


def _episodes(unit: str, node: str, signal: np.ndarray, rng: np.random.Generator) -> list[tuple[object, ...]]:
    rate = np.where(signal, 0.01, 4e-4) * EVERY_H
    failed = np.flatnonzero(rng.random(len(signal)) < rate)
    ends = [(float(step * EVERY_H + rng.uniform(0.1, EVERY_H - 0.1)), str(rng.choice(MODES))) for step in failed]
    starts = [0.0, *(at for at, _ in ends)]
    rows: list[tuple[object, ...]] = [("gpu", unit, node, s, at, "failure", mode) for s, (at, mode) in zip(starts, ends, strict=False)]
    return [*rows, ("gpu", unit, node, starts[-1], DAYS * 24.0, "data_end", None)]


def _frame(rows: list[tuple[object, ...]]) -> pl.DataFrame:
    names = ["scope", "unit", "node", "begin", "finish", "ended_by", "mode"]
    frame = pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None)
    at = {
        to: pl.lit(START) + pl.duration(microseconds=(pl.col(of) * 3.6e9).cast(pl.Int64))
        for to, of in (("started_at", "begin"), ("ended_at", "finish"), ("known_at", "finish"))
    }
    return frame.with_columns(**at, labelled_at=pl.lit(START + timedelta(days=DAYS))).drop("begin", "finish").sort("unit", "started_at")


def as_fleet(gpus: int, at: datetime) -> Fleet:
    """Give a fleet as of a time, with noise for features."""
    rng = np.random.default_rng(1)
    units = [f"GPU-{i:05d}" for i in range(gpus)]
    gpu_rows = _landmarks(units, [at], "gpu", rng.random((gpus, 1)) < 0.05, rng)
    return fleet_of(gpu_rows, _landmarks(_nodes(units), [at], "node", None, rng), {}, at)


if __name__ == "__main__":
    main()
