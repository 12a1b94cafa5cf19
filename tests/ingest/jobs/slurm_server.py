"""A slurmrestd that answers as it is told."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

SLURM = Path(__file__).parent / "slurm"
QUEUE = (SLURM / "squeue_22_05_8.json").read_bytes()


def offered(*paths: str) -> dict[str, Any]:
    """Write an OpenAPI document with these paths."""
    return {"openapi": "3.0.2", "paths": {path: {"get": {}} for path in paths}}


@dataclass
class Server:
    """A server that answers each path with what `answers` has for it, (status, body), and keeps what it was asked."""

    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    hangs: bool = False
    url: str = ""
    socket: str = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.raw_path)
        self.headers.append({name: value for name, value in request.headers.items() if name.startswith("X-SLURM")})
        if self.hangs:
            await asyncio.Event().wait()
        status, body = self.answers.get(request.path, (404, b"Unable find requested URL"))
        said = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return web.Response(status=status, body=said, headers={"Location": "/other"})
