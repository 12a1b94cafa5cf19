"""Options that many commands share, and how results are printed."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from forewarn.config import load
from forewarn.settings import Config
from ingest.clock import Clock, SharedClock, SystemClock, datetime_of, ns_of, parse_time
from ingest.errors import ConfigError

_LATEST_NS = 7_258_118_400 * 10**9  # 2200; the lake counts nanoseconds in 64 bits
ConfigOption = Annotated[Path | None, typer.Option("--config", "-c", help="Configuration file (TOML).", envvar="FOREWARN_CONFIG")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
TimeOption = Annotated[str | None, typer.Option(help="Time in ISO 8601, UTC where it names no zone; default: now.")]


def configuration(path: Path | None) -> Config:
    """Read the configuration, or end with its mistakes."""
    return load(path)


def clock_of(config: Config) -> Clock:
    """Build the clock that rules fleet time: the system's, or the one that an emulated fleet keeps in a file."""
    file = config.fleet.clock_file
    if file is None:
        return SystemClock()
    try:
        return SharedClock(file)
    except (OSError, ValueError, struct.error) as error:
        raise ConfigError(
            f"fleet.clock_file: {file} is no fleet time: {error}: name the file that `forewarn emulate fleet` keeps"
        ) from error


def time_of(text: str, name: str) -> int:
    """Read a time given by a person into UTC nanoseconds."""
    try:
        at_ns = parse_time(text)
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"{name} = {text!r}: {error}: give a time like 2026-01-31T12:00:00Z") from error
    if not 0 <= at_ns < _LATEST_NS:
        raise ConfigError(f"{name} = {text!r}: is not between 1970 and 2200: give a time like 2026-01-31T12:00:00Z")
    return at_ns


def datetime_or_now(text: str | None, clock: Clock) -> datetime:
    """Read an optional time; without one it is the clock's now."""
    ns = clock.now_ns() if text is None else time_of(text, "time")
    return datetime_of(ns)


def show(result: Any, *, as_json: bool, render: Callable[[Any], str]) -> None:
    """Print a result: as one JSON document, or as text for people."""
    text = msgspec.json.format(msgspec.json.encode(_plain(result)), indent=2).decode() if as_json else render(result)
    typer.echo(text)


def rows_as_text(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Lay rows out in columns."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value != value:  # noqa: PLR0124  # NaN has no place in JSON
        return None
    return value


__all__ = [
    "ConfigOption",
    "JsonOption",
    "TimeOption",
    "clock_of",
    "configuration",
    "datetime_or_now",
    "ns_of",
    "rows_as_text",
    "show",
    "time_of",
]
