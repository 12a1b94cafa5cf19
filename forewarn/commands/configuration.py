"""`forewarn config check`."""

from __future__ import annotations

import os

import typer

from forewarn.commands.options import ConfigOption, JsonOption, show
from forewarn.config import check

config = typer.Typer(help="Work on the configuration.", no_args_is_help=True)


@config.callback()
def _group() -> None:
    """Work on the configuration."""


@config.command("check")
def check_command(path: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Find every mistake of a configuration at once, without contacting anything.

    Example: forewarn config check --config forewarn.toml
    """
    _, mistakes = check(path, os.environ)
    name = str(path) if path else "built-in defaults"
    show(
        {"file": name, "mistakes": mistakes}, as_json=as_json, render=lambda result: "\n".join(result["mistakes"]) or f"{name}: no mistakes"
    )
    raise typer.Exit(2 if mistakes else 0)
