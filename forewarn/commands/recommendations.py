"""`forewarn alert`, `consume` and `recommendations`: from scores to what a scheduler is told."""

from __future__ import annotations

from typing import Annotated

import typer

from forewarn.commands.options import (
    ConfigOption,
    JsonOption,
    TimeOption,
    clock_of,
    configuration,
    datetime_or_now,
    ns_of,
    rows_as_text,
    show,
)
from forewarn.commands.running import stop_on_signals
from ingest.errors import ConfigError


def alert(
    path: ConfigOption = None,
    once: Annotated[bool, typer.Option("--once", help="One pass, then end.")] = False,
    at: TimeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Decide on scores and events, keep the ledger, deliver to the webhook and take its answers.

    Example: forewarn alert --once
    """
    from forewarn import compose  # noqa: PLC0415

    if at and not once:
        raise ConfigError("--at looks at one time: give --once with it")
    config = configuration(path)
    clock = clock_of(config)
    alerting = compose.alerting_of(config, compose.lake_of(config), clock)
    if not once:
        alerting.run(stop_on_signals())
        return
    said = alerting.loop.run_pass(ns_of(datetime_or_now(at, clock)))
    alerting.ledger.close()
    show({"said": len(said)}, as_json=as_json, render=lambda r: f"{r['said']} recommendations opened, updated or resolved")


def recommendations(
    path: ConfigOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Resolved ones too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the recommendations of the ledger.

    Example: forewarn recommendations --all --json
    """
    from forewarn.listing import recommendation_rows  # noqa: PLC0415

    rows = recommendation_rows(configuration(path), everything=everything)
    head = ("node", "action", "p", "opened", "resolved", "budget", "because")
    show(rows, as_json=as_json, render=lambda r: rows_as_text(head, [tuple(str(row[name]) for name in head) for row in r]))


consume = typer.Typer(help="Consumers of recommendations.", no_args_is_help=True)


@consume.callback()
def _group() -> None:
    """Consumers of recommendations."""


@consume.command("log")
def consume_log(path: ConfigOption = None) -> None:
    """Receive recommendations, verify and log them, and answer; the example of a consumer.

    Example: forewarn consume log --config forewarn.toml
    """
    from forewarn.consumer_log import server  # noqa: PLC0415
    from forewarn.named_files import state_dir_of  # noqa: PLC0415

    config = configuration(path)
    section = config.consume
    if section.secret_file is None or section.ack_secret_file is None:
        raise ConfigError("consume: secret_file and ack_secret_file are needed: name the files with the whsec_ secrets")
    state = state_dir_of(config) / "consumer.sqlite"
    api_url = f"http://{config.alert.host}:{config.alert.port}"
    server(section.host, section.port, section.secret_file, section.ack_secret_file, state, api_url=api_url, clock=clock_of(config)).run()
