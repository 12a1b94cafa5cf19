"""The dcgm-exporters of many nodes in one process: one port, one path per node, quirks that can be set on each while it runs."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Mapping, Sequence

from aiohttp import web

from emulators.exporter_page import Labels, render
from emulators.exporter_quirks import Quirks, render_quirky
from emulators.state import GpuState

Page = Callable[[], Sequence[GpuState]]


class ExporterFarm:
    """The exporters of many nodes; `quirks` maps a node to what its exporter does differently."""

    def __init__(self, driver_version: str = "580.105.08") -> None:
        self.quirks: dict[str, Quirks] = {}
        self._driver_version = driver_version
        self._targets: dict[str, Page] = {}
        self._frozen: dict[str, bytes] = {}
        self._runner: web.AppRunner | None = None

    async def start(self, targets: Mapping[str, Page], host: str = "127.0.0.1", port: int = 0) -> dict[str, str]:
        """Serve the pages of `targets` (node -> its GPUs as of now); gives the URL of each node's page."""
        self._targets = dict(targets)
        app = web.Application()
        app.router.add_get("/{node}/metrics", self._metrics)
        app.router.add_get("/{node}/health", self._health)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        bound = self._runner.addresses[0][1]
        return {node: f"http://{host}:{bound}/{node}/metrics" for node in targets}

    async def stop(self) -> None:
        """Close the port."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        node = self._node_of(request)
        quirks = self.quirks.get(node)
        if quirks is None:
            return _answer(request, render(self._targets[node](), Labels(host=node, driver_version=self._driver_version)))
        await asyncio.sleep(quirks.delay_s)
        if quirks.status != 200:
            return web.Response(status=quirks.status, text="internal server error\n")
        if quirks.is_empty:
            return web.Response(headers={"X-Registry-Available": "false", "X-Reload-In-Progress": "true"})
        body = self._page(node, quirks)
        return _answer(request, body) if quirks.cut_at is None else await _cut(request, body, quirks.cut_at)

    def _page(self, node: str, quirks: Quirks) -> bytes:
        if not quirks.is_frozen:
            self._frozen.pop(node, None)
        elif node in self._frozen:
            return self._frozen[node]
        body = render_quirky(self._targets[node](), Labels(host=node, driver_version=self._driver_version), quirks)
        if quirks.is_frozen:
            self._frozen[node] = body
        return body

    async def _health(self, request: web.Request) -> web.Response:
        quirks = self.quirks.get(self._node_of(request), Quirks())
        headers = {"X-Registry-Available": str(not quirks.is_empty).lower(), "X-Reload-In-Progress": str(quirks.is_empty).lower()}
        return web.Response(text="KO" if quirks.status != 200 else "OK", headers=headers)

    def _node_of(self, request: web.Request) -> str:
        node = request.match_info["node"]
        if node not in self._targets:
            raise web.HTTPNotFound
        return node


def _answer(request: web.Request, body: bytes) -> web.Response:
    headers = {"Content-Type": "text/plain; charset=utf-8"}
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        packer = zlib.compressobj(level=1, wbits=31)
        body, headers["Content-Encoding"] = packer.compress(body) + packer.flush(), "gzip"
    return web.Response(body=body, headers=headers)


async def _cut(request: web.Request, body: bytes, at: int) -> web.StreamResponse:
    """Promise the whole body and close the connection in the middle of it."""
    answer = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body))})
    await answer.prepare(request)
    await answer.write(body[:at])
    if request.transport is not None:
        request.transport.close()
    return answer
