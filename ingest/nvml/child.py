"""The supervisor's end of one NVML worker process: start it, ask it, notice that it died, kill it without waiting for it.

A process that hangs in the driver may be in uninterruptible sleep: it is killed, left behind and counted as a zombie until it is gone.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ingest.nvml.protocol import HEAD_BYTES, Answer, Ask, Happened, Hello, Listening, Stop, frame, to_supervisor
from ingest.nvml.starving import SchedulerWatch

PROGRESS_BYTES = 64
_EXIT_GRACE_S = 2.0
_PACKAGE_ROOT = str(Path(__file__).resolve().parent.parent)


class ChildDied(Exception):
    """The worker's end of the socket is closed."""


class Child:
    """One worker process."""

    def __init__(self, environment: Mapping[str, str], on_event: Callable[[Happened | Listening], None]) -> None:
        self._on_event = on_event
        self._hello: asyncio.Future[Hello] = asyncio.get_running_loop().create_future()
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._seats: Hello | None = None
        ours, theirs = socket.socketpair()
        page = os.memfd_create("nvml-progress")
        os.ftruncate(page, PROGRESS_BYTES)
        self._progress = mmap.mmap(page, PROGRESS_BYTES)
        path = os.pathsep.join(filter(None, (_PACKAGE_ROOT, environment.get("PYTHONPATH"))))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ingest.nvml.worker", str(theirs.fileno()), str(page)],
            env={**environment, "PYTHONPATH": path},
            pass_fds=(theirs.fileno(), page),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        theirs.close()
        os.close(page)
        self._watch = SchedulerWatch(self.process.pid)
        self._reading = asyncio.create_task(self._read(ours))

    async def _read(self, ours: socket.socket) -> None:
        reader, self._writer = await asyncio.open_connection(sock=ours)
        try:
            while True:
                head = await reader.readexactly(HEAD_BYTES)
                self._dispatch(to_supervisor.decode(await reader.readexactly(int.from_bytes(head, "big"))))
        except (asyncio.IncompleteReadError, ConnectionError, msgspec.DecodeError):
            pass
        finally:
            self._writer.close()
            self._fail(ChildDied())

    def _dispatch(self, message: Hello | Answer | Happened | Listening) -> None:
        if isinstance(message, Hello):
            self._seats = message
            if not self._hello.done():
                self._hello.set_result(message)
        elif isinstance(message, Answer):
            waiting = self._answers.pop(message.number, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
        else:
            self._on_event(message)

    def _fail(self, error: Exception) -> None:
        waiting: list[asyncio.Future[Any]] = [self._hello, *self._answers.values()]
        for future in waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()  # somebody may have stopped waiting
        self._answers.clear()

    async def hello(self, timeout_s: float) -> Hello:
        """Wait until NVML is usable; raises ChildDied or TimeoutError."""
        async with asyncio.timeout(timeout_s):
            return await asyncio.shield(self._hello)

    async def ask(self, ask: Ask, timeout_s: float) -> Answer:
        """Poll; raises ChildDied or TimeoutError."""
        if self._reading.done():
            raise ChildDied
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answers[ask.number] = answer
        self._watch = SchedulerWatch(self.process.pid)
        self._writer.write(frame(ask))
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        finally:
            self._answers.pop(ask.number, None)

    def is_starved(self) -> bool:
        """Tell whether the host has not let the worker run since it was asked, or since its start: no answer then accuses nobody."""
        return self._watch.was_starved()

    def being_read(self) -> list[str]:
        """Name the GPUs that were being read: after a crash or hang, the suspects."""
        seats = self._seats.seats if self._seats else ()
        return [seat.gpu_uuid for place, seat in enumerate(seats[:PROGRESS_BYTES]) if self._progress[place]]

    async def exit_code(self) -> int | None:
        """Tell the exit status; None while the process is not gone after a grace."""
        for _ in range(int(_EXIT_GRACE_S / 0.01)):
            if (code := self.process.poll()) is not None:
                return code
            await asyncio.sleep(0.01)
        return None

    def kill(self) -> None:
        """Kill the process and do not wait for it."""
        self.process.kill()
        self._reading.cancel()

    def is_gone(self) -> bool:
        """Tell whether the process has ended, and reap it."""
        return self.process.poll() is not None

    async def stop(self) -> None:
        """Let the worker end by itself, or kill it."""
        if not self._reading.done():
            self._writer.write(frame(Stop()))
        if await self.exit_code() is None:
            self.process.kill()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
