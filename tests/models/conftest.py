"""A fleet whose hazards are known: GPUs with error bursts that raise one mode, nodes with a noisy fan that raises another."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from features.schema import Feature
from models.fitting import Material

START = datetime(2026, 1, 1, tzinfo=UTC)

CATALOGUE = (
    Feature("ce_6h", "ecc", "gpu", "1/h", "PT6H", ("hbm_ue",), "corrected memory errors"),
    Feature("drift_c", "thermal", "gpu", "°C", "P1D", ("thermal",), "core temperature above its peers"),
    Feature("noise", "power", "gpu", "W", "PT6H", (), "power swing"),
    Feature("past_failures", "history", "gpu", "count", "", (), "failures so far"),
    Feature("empty", "link", "gpu", "1/h", "PT6H", ("nvlink",), "link retrains"),
    Feature("fan_rpm_cv", "chassis", "node", "1", "P1D", ("psu_vr",), "spread of fan speeds"),
)


@dataclass(frozen=True)
class KnownFleet:
    """Landmarks and episodes drawn from known hazards; `hazard(rows)` gives the true total hazard per hour of GPU rows."""

    material: Material
    start: datetime
    end: datetime
    base: float
    lift: float
    catalogue: tuple[Feature, ...] = CATALOGUE

    def hazard(self, rows: pl.DataFrame) -> np.ndarray:
        return np.where(rows["ce_6h"].to_numpy() > 0, self.base * self.lift, self.base) + self.base


def draw_fleet(*, nodes: int, days: int, base: float, lift: float, seed: int, every_h: int = 6, period_h: int = 72) -> KnownFleet:
    """Draw a fleet: each GPU has a burst state for whole periods of `period_h`; in it its `hbm_ue` hazard is `lift` times `base`.

    `thermal` strikes at `base` whatever the features say. Failed GPUs come back after 12 h as new episodes.
    """
    rng = np.random.default_rng(seed)
    landmarks, episodes, node_rows, node_episodes = [], [], [], []
    end = START + timedelta(days=days)
    times = np.arange(0, days * 24, every_h)
    for n in range(nodes):
        node = f"n{n:03d}"
        for g in range(4):
            unit = f"GPU-{n:03d}-{g}"
            bursts = rng.random(days * 24 // period_h + 1) < 0.1
            landmarks.append(_gpu_landmarks(node, unit, times, bursts=bursts, period_h=period_h, rng=rng))
            episodes += _gpu_episodes(node, unit, days * 24, bursts=bursts, period_h=period_h, base=base, lift=lift, rng=rng)
        node_rows.append(pl.DataFrame({"node": node, "unit": node, "hour": times, "fan_rpm_cv": rng.normal(size=len(times))}))
        node_episodes.append(("node", node, node, 0.0, days * 24.0, "data_end", None))
    material = Material({"gpu": _dated(landmarks), "node": _dated(node_rows)}, _episode_frame(episodes + node_episodes, end))
    return KnownFleet(material, START, end, base, lift)


def _gpu_landmarks(node, unit, times, *, bursts, period_h, rng) -> pl.DataFrame:
    burst = bursts[times // period_h]
    return pl.DataFrame(
        {
            "node": node,
            "unit": unit,
            "hour": times,
            "ce_6h": np.where(burst, rng.exponential(20, len(times)) + 0.1, 0.0),
            "drift_c": rng.normal(size=len(times)),
            "noise": rng.normal(size=len(times)),
            "past_failures": np.zeros(len(times)),
            "empty": pl.Series([None] * len(times), dtype=pl.Float64),
        }
    )


def _gpu_episodes(node, unit, hours, *, bursts, period_h, base, lift, rng) -> list[tuple]:
    found, begin = [], 0.0
    while begin < hours:
        times = {
            "thermal": begin + rng.exponential(1 / base),
            "hbm_ue": _burst_failure(begin, hours, bursts=bursts, period_h=period_h, base=base, lift=lift, rng=rng),
        }
        mode = min(times, key=times.get)
        at = times[mode]
        if at >= hours:
            found.append(("gpu", unit, node, begin, float(hours), "data_end", None))
            break
        found.append(("gpu", unit, node, begin, at, "failure", mode))
        begin = at + 12
    return found


def _burst_failure(begin, hours, *, bursts, period_h, base, lift, rng) -> float:
    """Invert the cumulative hazard of a rate that changes with each period."""
    need, at = rng.exponential(), begin
    while at < hours:
        period = int(at // period_h)
        rate = base * lift if bursts[period] else base
        room = (period + 1) * period_h - at
        if need < rate * room:
            return at + need / rate
        need, at = need - rate * room, float((period + 1) * period_h)
    return float("inf")


def _dated(frames: list[pl.DataFrame]) -> pl.DataFrame:
    rows = pl.concat(frames)
    return rows.with_columns(as_of=pl.lit(START) + pl.duration(hours=pl.col("hour"))).drop("hour").sort("unit", "as_of")


def _episode_frame(rows: list[tuple], labelled: datetime) -> pl.DataFrame:
    frame = pl.DataFrame(
        rows, schema=["scope", "unit", "node", "begin", "finish", "ended_by", "mode"], orient="row", infer_schema_length=None
    )
    at = {name: pl.lit(START) + pl.duration(microseconds=(pl.col(hour) * 3.6e9).round().cast(pl.Int64)) for name, hour in _CLOCKS.items()}
    return frame.with_columns(**at, labelled_at=pl.lit(labelled)).drop("begin", "finish").sort("scope", "unit", "started_at")


_CLOCKS = {"started_at": "begin", "ended_at": "finish", "known_at": "finish"}


@pytest.fixture(scope="session")
def known_fleet() -> KnownFleet:
    """Draw a fleet in which a burst, a tenth of the time, multiplies the hazard of `hbm_ue` by 30."""
    return draw_fleet(nodes=40, days=60, base=2e-4, lift=30, seed=3)


@pytest.fixture
def draw() -> Callable[..., KnownFleet]:
    """Draw other fleets."""
    return draw_fleet


@dataclass(frozen=True)
class Check:
    """One worked example; `expect` compares with its printed output at its printed precision."""

    inputs: dict
    outputs: dict
    tolerance: dict

    def expect(self, output: str, found) -> None:
        np.testing.assert_allclose(
            np.asarray(found, dtype=float), np.asarray(self.outputs[output], dtype=float), rtol=0, atol=self.tolerance[output] or 1e-12
        )


@pytest.fixture(scope="session")
def check() -> Callable[[str], Check]:
    """Look a worked example up by its id."""
    values = json.loads((Path(__file__).parent / "reference" / "check_values.json").read_text())["values"]
    return lambda cv: Check(values[cv]["inputs"], values[cv]["outputs"], values[cv]["abs"])
