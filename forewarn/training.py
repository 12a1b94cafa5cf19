"""Train from the configuration, and print a judgement: the model next to its baselines, every figure with its interval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from features.schema import EPISODES
from forewarn.analysis import MODEL_NAME
from forewarn.compose import lake_of
from forewarn.settings import Config
from ingest.clock import datetime_of, parse_time
from ingest.errors import ConfigError
from ingest.lake import Lake
from models.card import Evaluation
from models.evaluate import HorizonFigures, Result
from models.ranking import Figure
from models.store import Store
from models.train import TrainReport, train

CONTENDERS = ("model", "constant", "rules", "logistic", "history")
COLUMNS = ("contender", "capture@1%", "capture@5%", "avg precision", "AUROC", "exp/observed", "alerts")


def train_from(
    config: Config, *, now: datetime, cutoff: str | None, horizons_h: Sequence[float], progress: Callable[[float], None] = lambda _: None
) -> TrainReport:
    """Train on what came before the cutoff, judge on what came after it, and put the model in use."""
    lake = lake_of(config)
    return train(
        lake,
        config.fleet.state_dir / "models",
        cutoff=_cutoff(lake, config, cutoff, now),
        now=now,
        label_origin=config.train.label_origin,
        horizons_h=horizons_h,
        seed=config.train.seed,
        name=MODEL_NAME,
        progress=progress,
    )


def stored_evaluation(config: Config, version: str | None) -> Evaluation:
    """Read how a stored version was judged."""
    store = Store(config.fleet.state_dir / "models", MODEL_NAME)
    model = store.load(version)
    return msgspec.json.decode((store.path / model.version / "metrics.json").read_bytes(), type=Evaluation)


def judgement_rows(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Give one row per level, horizon and contender, with figures as [value, low, high]."""
    return [
        {"level": result.level, "contender": result.contender, **_plain(result, figures)}
        for level in ("gpu", "node")
        for name in CONTENDERS
        if (result := evaluation.result(level, name))
        for figures in result.horizons
    ]


def judgement_tables(evaluation: Evaluation) -> list[tuple[str, list[tuple[str, ...]]]]:
    """Give the judgement at the main horizon, one table a level: its title, and rows of text in the order of COLUMNS."""
    tables = []
    for level in ("gpu", "node"):
        results = [result for name in CONTENDERS if (result := evaluation.result(level, name))]
        if results:
            figures = evaluation.at_main(results[0])
            title = f"{'GPUs' if level == 'gpu' else 'nodes'}: {figures.failures} failures after {figures.landmarks:,} landmarks"
            tables.append((title, [_cells(result, evaluation.at_main(result)) for result in results]))
    return tables


def judgement_text(evaluation: Evaluation) -> str:
    """Lay the judgement out for people."""
    from forewarn.commands.options import rows_as_text  # noqa: PLC0415  # commands import this module

    times = (f"{at:%Y-%m-%d %H:%M}" for at in (evaluation.cutoff, evaluation.evaluated_until))
    head = "Trained before {}, judged until {}, horizon {:g} h; 95 % intervals.".format(*times, evaluation.main_horizon_h)
    notes = "exp/observed: expected over observed failures. alerts: per 1,000 node-days, at the model's threshold."
    levels = [level for level in ("gpu", "node") if evaluation.result(level, "history")]
    lift = [f"{level}: {'better than' if evaluation.has_lift(level) else 'no lift against'} history alone" for level in levels]
    tables = [line for title, rows in judgement_tables(evaluation) for line in ("", title, rows_as_text(COLUMNS, rows))]
    return "\n".join([head, *tables, "", notes, *lift])


def _cells(result: Result, figures: HorizonFigures) -> tuple[str, ...]:
    alerts = "-" if result.warning is None else f"{result.warning.alerts_per_1000_node_days:.0f}"
    shown = (figures.capture_1, figures.capture_5, figures.average_precision, figures.auroc, _inverse(figures.observed_over_expected))
    return (result.contender, *(_short(figure) for figure in shown), alerts)


def _short(figure: Figure) -> str:
    if figure.value is None:
        return "-"
    value = f"{figure.value:.2f}".lstrip("0") if figure.value < 1 else f"{figure.value:.2f}"
    if figure.low is None or figure.high is None:
        return value
    low, high = (f"{end:.2f}".removeprefix("0") for end in (figure.low, figure.high))
    return f"{value} {low}–{high}"


def _plain(result: Result, figures: HorizonFigures) -> dict[str, Any]:
    plain: dict[str, Any] = {
        **msgspec.to_builtins(figures),
        "expected_over_observed": msgspec.to_builtins(_inverse(figures.observed_over_expected)),
    }
    plain["alerts_per_1000_node_days"] = None if result.warning is None else result.warning.alerts_per_1000_node_days
    return plain


def _inverse(observed_over_expected: Figure) -> Figure:
    def turned(value: float | None) -> float | None:
        return 1 / value if value else None

    figure = observed_over_expected
    return Figure(value=turned(figure.value), low=turned(figure.high), high=turned(figure.low))


def _cutoff(lake: Lake, config: Config, given: str | None, now: datetime) -> datetime:
    if given is not None:
        return datetime_of(parse_time(given))
    with lake.reading() as connection:
        lake.attach(connection, EPISODES)
        first = connection.execute("select min(started_at) from episodes where labelled_at <= ?", [now]).fetchone()
    if first is None or first[0] is None:
        raise ConfigError("train: the lake has no episodes: run forewarn features first")
    start: datetime = first[0]
    return now - (now - start) * config.train.holdout_ratio
