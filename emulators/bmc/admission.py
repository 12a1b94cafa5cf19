"""Open an event stream, or refuse it in the vendor's manner, and write what the stream carries until one side has enough."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from aiohttp import web

from emulators.bmc.faults import HTML, Wire
from emulators.bmc.framing import BOM, comment, pieces
from emulators.bmc.protocol import HEADERS, Ask, Refusal
from emulators.bmc.streams import Reader
from emulators.bmc.wire import write_badly

if TYPE_CHECKING:
    from emulators.bmc.server import Bmc

_BOTH = frozenset({"Event", "MetricReport"})
_FILTER = re.compile(r"EventFormatType eq (')?(Event|MetricReport)(')?")


async def stream(bmc: Bmc, ask: Ask) -> web.StreamResponse:
    """Answer a GET of the stream's path; returns when the stream has ended."""
    admission = bmc.profile.admission
    _check(bmc, ask)
    wants = _wants(bmc, ask.request.query.get("$filter"))
    wire = bmc.faults.wire()
    if wire is not None and wire.kind == "html":
        return web.Response(body=HTML, content_type="text/html")
    if len(bmc.streams.readers) >= admission.most_streams:
        if admission.refusal == "close":
            return await _open(bmc, ask)
        raise Refusal("EventSubscriptionLimitExceeded", int(admission.refusal), headers={"Retry-After": "30"})
    reader = bmc.streams.open(wants, ask.request.headers.get("Last-Event-ID", ""))
    try:
        response = await _open(bmc, ask)
        await _write(bmc, reader, response, wire)
        return response
    finally:
        bmc.streams.close(reader.subscription.id)


def _check(bmc: Bmc, ask: Ask) -> None:
    """Check what a client accepts, its rights and the licence."""
    admission = bmc.profile.admission
    accept = ask.request.headers.get("Accept", "*/*")
    if "text/event-stream" not in accept:
        if admission.needs_event_stream:
            raise Refusal("ResourceMissingAtURI", 404, ask.path)
        if "*/*" not in accept:
            raise Refusal("HeaderInvalid", 406, "Accept")
    if ask.account is None or not ask.account.may(admission.privilege):
        raise Refusal("InsufficientPrivilege", 403)


def _wants(bmc: Bmc, wanted: str | None) -> frozenset[str]:
    """Read a filter in the dialect that this BMC speaks."""
    dialect = bmc.profile.admission.filter
    if wanted is None or dialect == "dropped":
        return _BOTH
    if dialect == "none":
        raise Refusal("QueryParameterUnsupported", 501, "$filter")
    if wanted.startswith("MetricReportDefinition eq "):
        return frozenset({"MetricReport"})
    found = _FILTER.fullmatch(wanted)
    is_quoted = found is not None and found[1] is not None and found[3] is not None
    if found is None or (dialect == "quoted" and not is_quoted) or (dialect == "unquoted" and is_quoted):
        raise Refusal("GeneralError", 400)
    return frozenset({found[2]})


async def _open(bmc: Bmc, ask: Ask) -> web.StreamResponse:
    """Send the head of a stream."""
    response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream;charset=utf-8"})
    if bmc.profile.framing.is_chunked:
        response.enable_chunked_encoding()
    else:
        response.force_close()  # the end of the body is the end of the connection
    await response.prepare(ask.request)
    return response


async def _write(bmc: Bmc, reader: Reader, response: web.StreamResponse, wire: Wire | None) -> None:
    framing = bmc.profile.framing
    if framing.has_bom:
        await response.write(BOM)
    written = 0
    async for raw in _frames(bmc, reader):
        if wire is not None and written >= wire.after:
            await write_badly(wire.kind, raw, response)
            if wire.kind not in ("drip", "joined"):
                return
            continue
        for piece in pieces(raw, framing):
            await response.write(piece)
        written += raw[:1] != b":"


async def _frames(bmc: Bmc, reader: Reader) -> AsyncIterator[bytes]:
    """Yield frames as they come, and comments between them where the vendor sends any."""
    framing, idle_close_s = bmc.profile.framing, bmc.profile.idle_close_s
    wait_s = framing.comment_s or idle_close_s
    silent_s = 0.0
    while True:
        try:
            async with asyncio.timeout(wait_s):
                raw = await reader.queue.get()
            silent_s = 0.0
        except TimeoutError:
            silent_s += wait_s or 0.0
            raw = comment(framing)
        if raw is None or (idle_close_s is not None and silent_s >= idle_close_s):
            return
        yield raw
