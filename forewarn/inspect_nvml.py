"""Show what the collector makes of an emulated machine to whose GPUs something happens."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from emulators.nvml.steps import Steps, read_steps
from forewarn.extras import build_tools_named
from ingest.errors import ConfigError
from ingest.nvml.inspect import inspect
from ingest.schema import TABLE_OF_RECORD, Observed


def steps_as_records(file: Path) -> Iterator[dict[str, Any]]:
    """Give the records of the poll before the steps of a file and of those after them, each with its table and poll."""
    try:
        steps = read_steps(file)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(f"{file}: is not a file of steps ({error}): see docs/cli.md for an example") from error
    with tempfile.TemporaryDirectory() as directory:
        try:
            polls = asyncio.run(_polls(steps, Path(directory)))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ConfigError(f"{file}: has a step that cannot be taken ({error}): see docs/cli.md for an example") from error
    for number, records in enumerate(polls):
        for record in records:
            yield {"poll": number, "table": TABLE_OF_RECORD[type(record)], **msgspec.to_builtins(record)}


async def _polls(steps: Steps, directory: Path) -> list[list[Observed]]:
    with build_tools_named():
        machine = steps.machine(directory / "nvml.state")
    try:
        return [records async for records in inspect(machine.environment(), lambda: steps.take(machine))]
    finally:
        machine.close()
