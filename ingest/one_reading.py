"""Read every source one time, for somebody who looks: nothing is kept, and what cannot be read is named."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from ingest.schema import Observed
from ingest.source import Source

_log = structlog.get_logger()


async def read_once(sources: Sequence[Source], at_ns: int, *, deadline_s: float = 30.0) -> tuple[list[Observed], list[str]]:
    """Read every source one time and keep nothing; give the records, and the sources that could not be read, which are logged.

    A source that is still asking its nodes is drained until each has been heard, or the deadline (wall seconds, per source) has passed.
    """
    found: list[Observed] = []
    failed: list[str] = []
    for source in sources:
        try:
            await _hear(source, at_ns, found, deadline_s)
        except Exception as error:  # noqa: BLE001  # a bug in one source must not end the others
            failed.append(source.name)
            _log.warning("source_unreadable", source=source.name, error=f"{type(error).__name__}: {error}")
    return found, failed


async def _hear(source: Source, at_ns: int, found: list[Observed], deadline_s: float) -> None:
    try:
        async with asyncio.timeout(deadline_s):
            await source.open()
            await _drain(source, at_ns, found)
    except TimeoutError as error:
        mute = ", ".join(sorted(source.unheard)) or "the source"
        raise TimeoutError(f"no answer within {deadline_s:g} s of {mute}") from error
    finally:
        await source.close()


async def _drain(source: Source, at_ns: int, found: list[Observed]) -> None:
    is_waiting = True
    while is_waiting:
        is_waiting = bool(source.unheard)  # asked first: what was heard by then is in the read
        found += await source.read(at_ns)
        if is_waiting:
            await asyncio.sleep(min(source.interval_s, 0.5))
