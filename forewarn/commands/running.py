"""`forewarn demo`, `up` and `status`: the whole chain at once."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from forewarn.commands.options import ConfigOption, JsonOption, TimeOption, clock_of, configuration, datetime_or_now, show


def demo(
    seed: Annotated[int, typer.Option(help="Seed of the emulated fleet, its faults and the training.")] = 7,
    directory: Annotated[Path, typer.Option(help="Folder for the lake, the model and the logs; made anew.")] = Path("var/demo"),
    keep: Annotated[bool, typer.Option("--keep", help="Leave the live part running.")] = False,
    bus: Annotated[str, typer.Option(help="direct, or kafka to go through brokers.")] = "direct",
    bootstrap: Annotated[str, typer.Option(help="Brokers for --bus kafka.")] = "127.0.0.1:9092",
    as_json: JsonOption = False,
) -> None:
    """Run the main job on an emulated fleet: history, training, judgement, live run, account.

    Needs no GPU, no broker and no root.

    Example: forewarn demo --seed 11
    """
    from forewarn.demo import DemoOptions, run_demo  # noqa: PLC0415
    from forewarn.logs import configure_logs  # noqa: PLC0415
    from forewarn.screen import Screen, summary  # noqa: PLC0415

    configure_logs("warning")  # the screen tells the rest
    options = DemoOptions(directory=directory, seed=seed, keep=keep, bus=_bus(bus, bootstrap))
    result = run_demo(options, Screen(is_quiet=as_json))
    if as_json:
        show(summary(result), as_json=True, render=str)


def up(path: ConfigOption = None) -> None:
    """Run every stage in one process on this machine: collect, write, analyse, alert, deliver, answer.

    SIGHUP reads the configuration of the sources again; SIGTERM ends every stage in order.

    Example: forewarn up --config forewarn.toml
    """
    stop, hangup = stop_on_signals(), reload_on_signal()  # first: what follows takes seconds to load
    config = configuration(path)

    from forewarn.up import run_up  # noqa: PLC0415

    run_up(config, clock_of(config), stop, hangup=hangup, reread=lambda: configuration(path))


def status(path: ConfigOption = None, at: TimeOption = None, as_json: JsonOption = False) -> None:
    """Show the fleet: riskiest nodes, open recommendations, telemetry that is not ok.

    A table of the lake that cannot be read is named, the rest is shown, and the command ends with 2.

    Example: forewarn status --config forewarn.toml
    """
    from forewarn.status import render  # noqa: PLC0415
    from forewarn.status import status as gather  # noqa: PLC0415

    config = configuration(path)
    result = gather(config, datetime_or_now(at, clock_of(config)))
    show(result, as_json=as_json, render=render)
    raise typer.Exit(2 if result["unreadable"] else 0)


def stop_on_signals() -> threading.Event:
    """Give an event that SIGTERM and SIGINT set; a second signal ends the process at once."""
    stop = threading.Event()

    def leave(number: int, _frame: Any) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    return stop


def reload_on_signal() -> threading.Event:
    """Give an event that SIGHUP sets."""
    hangup = threading.Event()
    signal.signal(signal.SIGHUP, lambda *_: hangup.set())
    return hangup


def _bus(kind: str, bootstrap: str) -> dict[str, Any]:
    if kind not in ("direct", "kafka"):
        raise typer.BadParameter("direct or kafka", param_hint="--bus")
    return {"kind": kind, "bootstrap": bootstrap} if kind == "kafka" else {"kind": kind}
