"""The model card: where the labels come from, what was measured on later time, and beside which baselines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from models.early_warning import AlertRule
from models.evaluate import HorizonFigures, Result, WarningFigures
from models.model import Model
from models.ranking import Figure

_ORIGIN = {
    "synthetic": "**synthetic**: the failures were drawn by an emulator; the figures say nothing about a real fleet",
    "real": "**real**: failures of a real fleet",
}

_RANKING_COLUMNS = (
    "horizon",
    "contender",
    "failures",
    "capture 1 %",
    "capture 5 %",
    "average precision",
    "prevalence",
    "AUROC",
    "observed/expected",
    "Brier skill",
    "bits/failure",
    "AP if removed survive",
)
_WARNING_COLUMNS = (
    "contender",
    "threshold",
    "failures caught",
    "late",
    "missed",
    "recall",
    "precision",
    "bounds with unresolved",
    "alerts per 1,000 node-days",
    "lead median (p10) h",
    "caught per mode",
)


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What `metrics.json` holds: all contenders on landmarks after the cutoff."""

    trained_from: datetime
    cutoff: datetime
    evaluated_until: datetime
    main_horizon_h: float
    failures_trained: dict[str, dict[str, int]]  # per scope and mode
    results: tuple[Result, ...]

    def result(self, level: str, contender: str) -> Result | None:
        """Find one contender's result."""
        return next((r for r in self.results if r.level == level and r.contender == contender), None)

    def at_main(self, result: Result) -> HorizonFigures:
        """Give a result's figures at the main horizon."""
        return next(f for f in result.horizons if f.horizon_h == self.main_horizon_h)

    def has_lift(self, level: str) -> bool:
        """Tell whether the model captures more than history alone: the interval of the difference lies above zero."""
        history = self.result(level, "history")
        gain = history.lift if history else None
        return bool(gain and gain.low is not None and gain.low > 0)


def write_card(model: Model, evaluation: Evaluation, rule: AlertRule) -> str:
    """Write the card in Markdown."""
    levels = list(dict.fromkeys(result.level for result in evaluation.results))
    lines = [
        f"# {model.name}",
        "",
        f"Labels: {_ORIGIN[model.label_origin]}.",
        (
            f"Trained until {model.trained_until:%Y-%m-%d %H:%M} UTC by the recipe that the figures below judge; they come from a model "
            f"trained on {evaluation.trained_from:%Y-%m-%d} to {evaluation.cutoff:%Y-%m-%d %H:%M} and judged on later time, to "
            f"{evaluation.evaluated_until:%Y-%m-%d %H:%M}."
        ),
        "Square brackets are 95 % intervals: nodes resampled for ranking, exact Poisson on failures for observed/expected.",
        "",
        *_training_lines(model, evaluation),
    ]
    for level in levels:
        lines += _level_lines(evaluation, level)
    warned = [result for result in evaluation.results if result.warning]
    if warned:
        lines += _warning_lines(warned, rule)
    return "\n".join(lines) + "\n"


def _training_lines(model: Model, evaluation: Evaluation) -> list[str]:
    lines = []
    for scope, trained in model.scopes.items():
        modes = ", ".join(f"{mode} {count}" for mode, count in sorted(evaluation.failures_trained.get(scope, {}).items()))
        lines.append(
            f"- {scope}: {len(trained.hazard.features)} features; failures trained on before the cutoff: {modes or 'none'}; "
            f"calibrator {trained.calibrator.kind} from {trained.calibrator.failures} failures"
        )
    return [*lines, ""]


def _level_lines(evaluation: Evaluation, level: str) -> list[str]:
    unit = "GPU (GPU modes)" if level == "gpu" else "node (any failure)"
    lines = [f"## Per {unit}", ""]
    verdict = "lift over history alone" if evaluation.has_lift(level) else "no lift"
    lines += [f"Within {evaluation.main_horizon_h:g} h: **{verdict}** (difference of capture at 5 %).", ""]
    lines += [
        *_header(*_RANKING_COLUMNS),
    ]
    of_level = [result for result in evaluation.results if result.level == level]
    for index in range(len(of_level[0].horizons)):
        lines += [_row(result.contender, result.horizons[index]) for result in of_level]
    return [*lines, ""]


def _header(*names: str) -> tuple[str, str]:
    return "| " + " | ".join(names) + " |", "|" + "---|" * len(names)


def _row(contender: str, f: HorizonFigures) -> str:
    cells = [
        f"{f.horizon_h:g} h",
        contender,
        str(f.failures),
        show(f.capture_1),
        show(f.capture_5),
        show(f.average_precision),
        number(f.prevalence, 4),
        show(f.auroc),
        show(f.observed_over_expected, 2),
        number(f.brier_skill),
        number(f.bits_per_failure, 2),
        number(f.average_precision_removed_survive),
    ]
    return "| " + " | ".join(cells) + " |"


def _warning_lines(results: Sequence[Result], rule: AlertRule) -> list[str]:
    lines = [
        f"## Alerts at p({rule.score_horizon_h:g} h) >= {rule.threshold:g}",
        "",
        f"Judged as events over {rule.horizon_h:g} h with a lead of {rule.lead_h * 60:g} min; baselines at the model's time under alert.",
        "",
        *_header(*_WARNING_COLUMNS),
    ]
    return [*lines, *(_warning_row(r.contender, r.warning) for r in results if r.warning), ""]


def _warning_row(contender: str, w: WarningFigures) -> str:
    modes = ", ".join(f"{mode} {caught}/{of}" for mode, (caught, of) in w.recall_per_mode.items())
    cells = [
        contender,
        number(w.threshold, 4),
        f"{w.counts.caught} of {w.counts.failures}",
        str(w.counts.late_failures),
        str(w.counts.missed),
        number(w.recall, 2),
        number(w.precision_act, 2),
        f"{number(w.precision_low, 2)} to {number(w.precision_high, 2)}",
        f"{w.alerts_per_1000_node_days:.1f}",
        f"{number(w.lead_median_h, 1)} ({number(w.lead_p10_h, 1)})",
        modes,
    ]
    return "| " + " | ".join(cells) + " |"


def show(figure: Figure, digits: int = 3) -> str:
    """Print a figure with its interval; a dash where there is none."""
    if figure.value is None:
        return "–"
    if figure.low is None or figure.high is None:
        return f"{figure.value:.{digits}f}"
    return f"{figure.value:.{digits}f} [{figure.low:.{digits}f}, {figure.high:.{digits}f}]"


def number(value: float | None, digits: int = 3) -> str:
    """Print a number; a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"
