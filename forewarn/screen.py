"""What the demo shows: each long step (a bar with the time left; without a terminal two lines), the judgement and the account."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from forewarn.training import judgement_rows, judgement_text

if TYPE_CHECKING:
    from emulators.faults import Failure
    from emulators.world import World
    from forewarn.account import Verdict
    from forewarn.demo import DemoResult
    from models.train import TrainReport

REAL_RATE = 3.79  # unexpected interruptions per 1,000 node-days: Llama 3 report, 419 in 110,592 node-days


class Screen:
    """A console, or nothing at all where the result is printed as JSON."""

    def __init__(self, *, is_quiet: bool = False) -> None:
        self._console = Console(quiet=is_quiet, highlight=False)

    @contextmanager
    def step(self, name: str) -> Iterator[Callable[[float], None]]:
        """Show a bar while a step lasts, without a terminal a line when it begins and ends; call what it gives with the share done."""
        if not self._console.is_terminal:
            started_s = time.monotonic()
            self._console.print(f"  {name} ...", soft_wrap=True)
            yield lambda _share: None
            self._console.print(f"  {name}: {time.monotonic() - started_s:.0f} s", soft_wrap=True)
            return
        columns = (TextColumn("  {task.description:<46}"), BarColumn(14), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
        with Progress(*columns, console=self._console) as progress:
            task = progress.add_task(name, total=1.0)
            yield lambda share: progress.update(task, completed=share)
            progress.update(task, completed=1.0)

    def opening(self, world: World, failures: Sequence[Failure], now_ns: int) -> None:
        """Say what fleet is emulated, and that it fails far more often than a real one."""
        node_days = len(world.nodes) * (now_ns - world.spec.start_ns) / 86_400e9
        rate = 1000 * len(failures) / node_days
        self._console.print(
            f"An emulated fleet of {len(world.nodes)} nodes with {world.spec.gpus_per_node} GPUs each (seed {world.spec.seed})."
        )
        self._console.print(
            f"It fails {rate / REAL_RATE:.0f} times as often as a real one ({rate:.0f} failures per 1,000 node-days against {REAL_RATE}),"
        )
        self._console.print(f"so that {len(failures)} failures exist to learn from.")

    def judgement(self, report: TrainReport) -> None:
        """Print the model against its baselines on later time."""
        self._console.print(f"\n{judgement_text(report.evaluation)}\n", soft_wrap=True)

    def account(self, result: DemoResult, directory: Path, *, keeps_running: bool) -> None:
        """Print which failures were announced, which were not and why, and what it would have cost and saved."""
        account = result.account
        days, failed = f"{result.fleet_hours / 24:.1f}", len(account.verdicts)
        self._console.print(f"\nThe live run: {days} days of fleet time, {failed} failures, {account.announced} of them announced.")
        self._console.print(_verdict_table(account.verdicts))
        self._console.print(
            f"false alarms: {len(account.false_alarms)}   drains whose 24 h are not over: {len(account.unresolved)}\n"
            f"node-hours: drains {account.drained_h:.0f}, lost to failures {account.lost_h:.0f}, "
            f"of which {account.avoidable_h:.0f} had been announced\n"
            f"(shadow mode: nothing was drained; a drain is charged 2 node-hours, a failure in service 24)"
        )
        self._console.print("\nWall time: " + ", ".join(f"{name} {seconds:.0f} s" for name, seconds in result.wall_s.items()))
        self._console.print(_what_next(directory, keeps_running=keeps_running), soft_wrap=True)


def summary(result: DemoResult) -> dict[str, Any]:
    """Give everything that the demo found as plain values."""
    account = result.account
    return {
        "seed": result.seed,
        "failures_in_history": result.failures_in_history,
        "failures_held_out": result.failures_held_out,
        "judgement": judgement_rows(result.training.evaluation),
        "fleet_hours": result.fleet_hours,
        "failures": [{**asdict(verdict.failure), "lead_h": verdict.lead_h, "why_not": verdict.why_not} for verdict in account.verdicts],
        "announced": account.announced,
        "false_alarms": len(account.false_alarms),
        "unresolved": len(account.unresolved),
        "drained_h": account.drained_h,
        "lost_h": account.lost_h,
        "avoidable_h": account.avoidable_h,
        "wall_s": result.wall_s,
    }


def _verdict_table(verdicts: Sequence[Verdict]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("node", "failure", "precursor", "announced"):
        table.add_column(column)
    for verdict in verdicts:
        failure = verdict.failure
        sign = "visible" if failure.is_visible else "none"
        told = f"{verdict.lead_h:.1f} h before" if verdict.lead_h is not None else f"no: {verdict.why_not}"
        table.add_row(failure.node, failure.mode, sign, told)
    return table


def _what_next(directory: Path, *, keeps_running: bool) -> str:
    configuration = directory / "demo.toml"
    forewarn = "forewarn" if shutil.which("forewarn") else sys.argv[0]
    lines = ["", "What to try next:"]
    if keeps_running:
        lines += [
            f"  {forewarn} status --config {configuration}           the fleet now; it runs on until you end it (pkill -f {directory.name})"
        ]
    lines += [
        f"  {forewarn} recommendations --config {configuration}  every recommendation with its reasons",
        f"  {forewarn} models list --config {configuration}      the model's versions; their cards are below {directory}/state/models",
        f"  {forewarn} demo --seed 11                              another fleet",
        "  docs/tutorials/real-failures.md                      the same commands on years of real failures",
    ]
    return "\n".join(lines)
