"""`forewarn config check`."""

from __future__ import annotations

import os
from typing import Any

import typer

from forewarn.commands.options import ConfigOption, JsonOption, show
from forewarn.config import check

config = typer.Typer(help="Work on the configuration.", no_args_is_help=True)


@config.callback()
def _group() -> None:
    """Work on the configuration."""


@config.command("check")
def check_command(path: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Find every mistake of a configuration at once, without contacting anything; a warning stops nothing.

    Example: forewarn config check --config forewarn.toml
    """
    found = check(path, os.environ)
    name = str(path) if path else "built-in defaults"

    def render(result: dict[str, Any]) -> str:
        return "\n".join([*(result["mistakes"] or [f"{name}: no mistakes"]), *(f"warning: {line}" for line in result["warnings"])])

    show({"file": name, "mistakes": found.mistakes, "warnings": found.warnings}, as_json=as_json, render=render)
    raise typer.Exit(2 if found.mistakes else 0)
