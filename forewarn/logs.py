"""Logs on standard error, one line an event: for people on a terminal, JSON elsewhere; standard output is for results alone."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import structlog


def configure_logs(least: str = "info") -> None:
    """Send the log lines of this process from level `least` on to standard error."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
    ]
    rendered: list[Any] = [structlog.dev.ConsoleRenderer()] if sys.stderr.isatty() else [structlog.processors.format_exc_info, _as_json]
    structlog.configure(
        processors=[*shared, *rendered],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )


def _as_json(_logger: Any, _method: str, event: dict[str, Any]) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()
