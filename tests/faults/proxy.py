"""A TCP proxy that can stop forwarding: a network between two hosts that fails in the ways networks do."""

from __future__ import annotations

import asyncio
import threading
from typing import Self

from tests.faults.broker import free_port


class Proxy:
    """Forwards to `target`; `passes_requests` and `passes_answers` say which way is open. A closed way swallows bytes, connections stay."""

    def __init__(self, target: str) -> None:
        self._target = target.rpartition(":")
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.passes_requests = self.passes_answers = True
        self.swallowed = {"requests": 0, "answers": 0}
        self._writers: set[asyncio.StreamWriter] = set()
        self._ready, self._leaving = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(30), "the proxy did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        self._thread.join(30)

    def heal(self) -> None:
        """Forward again; connections that have lost bytes are reset."""
        self.passes_requests = self.passes_answers = True
        self._loop.call_soon_threadsafe(self._reset)

    def _reset(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._connect, "127.0.0.1", self.port)
        self._ready.set()
        await asyncio.to_thread(self._leaving.wait)
        server.close()
        self._reset()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(self._target[0], int(self._target[2]))
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        await asyncio.gather(self._pass(reader, far_writer, "requests"), self._pass(far_reader, writer, "answers"))
        self._writers -= {writer, far_writer}

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str) -> None:
        try:
            while data := await reader.read(65_536):
                if self.passes_requests if way == "requests" else self.passes_answers:
                    writer.write(data)
                    await writer.drain()
                else:
                    self.swallowed[way] += len(data)
        except OSError:
            pass
        writer.transport.abort()
