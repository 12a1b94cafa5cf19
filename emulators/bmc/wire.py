"""Write an event in the ways in which networks and services fail."""

from __future__ import annotations

import asyncio
import itertools

from aiohttp import web

DRIP_S = 0.001
BLOCK = b"x" * 65_536
BIG_LINE_VALUES = 6000


async def write_badly(kind: str, raw: bytes, response: web.StreamResponse) -> None:
    """Write one event in the manner `kind` (see `faults.Wire`)."""
    if kind == "drip":
        for number in range(len(raw)):
            await response.write(raw[number : number + 1])
            await asyncio.sleep(DRIP_S)
    elif kind == "stall":
        await asyncio.Event().wait()
    elif kind == "endless":
        await response.write(b"data: ")
        for _ in itertools.count():
            await response.write(BLOCK)
    elif kind == "joined":
        await response.write(raw.rstrip(b"\r\n") + b"\n")
    elif kind == "big_line":
        await response.write(big_line())
        await asyncio.Event().wait()
    else:
        await _break_off(kind, raw, response)


async def _break_off(kind: str, raw: bytes, response: web.StreamResponse) -> None:
    """End inside an event, in order (`eof`) or not (`reset`)."""
    await response.write(raw[: len(raw) // 2])
    transport = response._req.transport if response._req is not None else None  # noqa: SLF001  # aiohttp has no public way to reset
    if kind == "reset" and transport is not None:
        transport.abort()


def big_line() -> bytes:
    """Build one event of one line of about 0.9 MB: a report of 6,000 values."""
    row = (
        '{{"MetricProperty":"/redfish/v1/Systems/System/Processors/GPU_{}/Ports/NVLink_{}#/CurrentSpeedGbps","MetricValue":"{}.0",'
        '"Timestamp":"2026-01-02T03:04:05.678+00:00"}}'
    )
    rows = ",".join(row.format(number % 8, number, number) for number in range(BIG_LINE_VALUES))
    body = f'{{"@odata.type":"#MetricReport.v1_4_2.MetricReport","Id":"Big","Name":"Big","MetricValues":[{rows}]}}'
    return f"id: 1\ndata: {body}\n\n".encode()
