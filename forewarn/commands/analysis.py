"""`forewarn features`, `train`, `evaluate`, `score` and `models`: from the lake to probabilities."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import typer

from forewarn.commands.options import (
    ConfigOption,
    JsonOption,
    TimeOption,
    clock_of,
    configuration,
    datetime_or_now,
    rows_as_text,
    show,
    time_of,
)
from forewarn.settings import ascending_horizons
from ingest.errors import ConfigError

HorizonsOption = Annotated[str | None, typer.Option("--horizons", help="Horizons in hours, with commas; default: train.horizons_h.")]


def features(
    path: ConfigOption = None,
    since: Annotated[str | None, typer.Option(help="First landmark; default: one landmark, at --until.")] = None,
    until: Annotated[str | None, typer.Option(help="Last landmark; default: now.")] = None,
    grid_h: Annotated[float | None, typer.Option("--grid-h", help="Hours between landmarks; default: features.grid_h.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Roll samples up, compute features at landmarks, and label what is known.

    Example: forewarn features --since 2026-01-01 --until 2026-03-01 --grid-h 4
    """
    from features.build import build_features  # noqa: PLC0415
    from features.labels import label  # noqa: PLC0415
    from features.rollup import roll_up  # noqa: PLC0415
    from forewarn.compose import lake_of  # noqa: PLC0415

    config = configuration(path)
    last = datetime_or_now(until, clock_of(config))
    first = datetime_or_now(since, clock_of(config)) if since else last
    hours = config.features.grid_h if grid_h is None else grid_h
    if not hours >= 1 / 12 or first > last:  # also not a number
        raise ConfigError(f"--grid-h {hours:g} from {first} to {last}: give at least 0.0834 hours, and a --since before --until")
    step = timedelta(hours=hours)
    landmarks = [first + step * k for k in range(int((last - first) / step) + 1)]
    lake = lake_of(config)
    roll_up(lake, last)
    built = build_features(lake, landmarks)
    labelled = label(lake, last)
    result = {
        "landmarks": len(landmarks),
        "gpu_rows": built.gpu_rows,
        "node_rows": built.node_rows,
        "episodes": labelled.episodes,
        "failures": labelled.failures,
    }
    show(result, as_json=as_json, render=lambda r: "\n".join(f"{name:<10} {value}" for name, value in r.items()))


def train(
    path: ConfigOption = None,
    cutoff: Annotated[
        str | None, typer.Option(help="Train before, judge after; default: the last train.holdout_ratio of the time.")
    ] = None,
    at: TimeOption = None,
    horizons: HorizonsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train, judge against the baselines on later time, store the model and put it in use.

    Example: forewarn train --cutoff 2026-03-01
    """
    from forewarn.training import judgement_rows, judgement_text, train_from  # noqa: PLC0415

    config = configuration(path)
    if cutoff:
        time_of(cutoff, "--cutoff")  # before minutes are spent
    report = train_from(
        config, now=datetime_or_now(at, clock_of(config)), cutoff=cutoff, horizons_h=_horizons(horizons, config.train.horizons_h)
    )
    result = {"version": report.model.version, "path": str(report.path), "judgement": judgement_rows(report.evaluation)}
    show(result, as_json=as_json, render=lambda r: f"model {r['version']} in {r['path']}\n\n{judgement_text(report.evaluation)}")


def evaluate(
    path: ConfigOption = None,
    version: Annotated[str | None, typer.Option(help="Version; default: the one in use.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Print how a model did against its baselines on time that it had not seen.

    Example: forewarn evaluate --json
    """
    from forewarn.training import judgement_rows, judgement_text, stored_evaluation  # noqa: PLC0415

    evaluation = stored_evaluation(configuration(path), version)
    show({"judgement": judgement_rows(evaluation)}, as_json=as_json, render=lambda _: judgement_text(evaluation))


def score(path: ConfigOption = None, at: TimeOption = None, as_json: JsonOption = False) -> None:
    """Score every GPU and node as of a time, and append the scores to the lake.

    Example: forewarn score --at 2026-03-01T12:00:00Z
    """
    from forewarn.analysis import Analysis  # noqa: PLC0415
    from forewarn.compose import lake_of  # noqa: PLC0415

    config = configuration(path)
    with Analysis(config, lake_of(config)) as analysis:
        written = analysis.catch_up(datetime_or_now(at, clock_of(config)))
    show({"scores": written}, as_json=as_json, render=lambda r: f"{r['scores']} scores written")


models = typer.Typer(help="List, promote and roll back model versions.", no_args_is_help=True)


@models.command("list")
def models_list(path: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the versions; the one in use is marked.

    Example: forewarn models list
    """
    store = _store(path)
    current = store.current()
    rows = [{"version": version, "in_use": version == current} for version in store.versions()]
    show(
        rows, as_json=as_json, render=lambda r: rows_as_text(("version", ""), [(v["version"], "in use" if v["in_use"] else "") for v in r])
    )


@models.command("promote")
def models_promote(version: str, path: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Put a version in use.

    Example: forewarn models promote 2026.03.01-3f1c09
    """
    _show_in_use(_store(path).promote(version).version, as_json)


@models.command("rollback")
def models_rollback(path: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Put the version before the current one back in use.

    Example: forewarn models rollback
    """
    _show_in_use(_store(path).rollback().version, as_json)


def _show_in_use(version: str, as_json: bool) -> None:
    show({"in_use": version}, as_json=as_json, render=lambda result: f"in use: {result['in_use']}")


def _store(path: Any) -> Any:
    from forewarn.analysis import MODEL_NAME  # noqa: PLC0415
    from models.store import Store  # noqa: PLC0415

    return Store(configuration(path).fleet.state_dir / "models", MODEL_NAME)


def _horizons(text: str | None, default: list[float]) -> list[float]:
    if text is None:
        return default
    try:
        return list(ascending_horizons(sorted(float(part) for part in text.split(","))))
    except ValueError as error:
        raise typer.BadParameter("give hours above zero with commas, for example 24,168", param_hint="--horizons") from error
