"""What the tests of jobs share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.ingest.jobs.slurm_server import QUEUE, Server, offered


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """Run a server of 22.05 over TCP and a socket."""
    server = Server({"/openapi/v3": (200, offered("/slurm/v0.0.38/jobs/")), "/slurm/v0.0.38/jobs/": (200, QUEUE)})
    app = web.Application()
    app.router.add_get("/{path:.*}", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    await web.UnixSite(runner, str(tmp_path / "rest.socket")).start()
    server.url, server.socket = f"http://127.0.0.1:{runner.addresses[0][1]}", f"unix:{tmp_path / 'rest.socket'}"
    yield server
    await runner.cleanup()
