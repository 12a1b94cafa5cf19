"""Slurm asked by its own commands: `squeue --json` tells the queue, `sacct --json`, where accounting exists, how jobs ended that left it.

Ask for all states and users, and for more than the day so far: `squeue --states=all --json` and
`sacct --allusers --starttime=now-2days --json`. A command may be a wrapper with children of its own: it runs in a session of its own, and
one that is given up ends with its whole process group.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from ingest.errors import SourceUnavailable
from ingest.jobs.answer import MAX_ANSWER_BYTES, entries_of, too_large

_MAX_COMPLAINT_BYTES = 65_536
_DEATH_S = 2.0  # wall time for a killed command to be gone
_STDOUT = 1


class SlurmCommands:
    """The commands to run; without `sacct` there is no accounting.

    `deadline_s` is the wall time that each may take, `max_bytes` the longest answer that is read.
    """

    def __init__(
        self,
        squeue: Sequence[str] = ("squeue", "--states=all", "--json"),
        sacct: Sequence[str] = (),
        *,
        deadline_s: float = 20.0,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        self.has_accounting = bool(sacct)
        self._squeue = squeue
        self._sacct = sacct
        self._deadline_s = deadline_s
        self._max_bytes = max_bytes

    async def queue(self) -> list[Any]:
        """List the jobs in the queue; raises SourceUnavailable."""
        return await self._ask(self._squeue)

    async def ended(self, job_ids: Collection[str]) -> list[Any]:
        """List what accounting knows, these jobs among others; raises SourceUnavailable."""
        return await self._ask(self._sacct) if job_ids else []

    async def _ask(self, command: Sequence[str]) -> list[Any]:
        """Run one command of Slurm and read its JSON."""
        output = _Output(self._max_bytes)
        try:
            transport, _ = await asyncio.get_running_loop().subprocess_exec(
                lambda: output, *command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
            )
        except OSError as error:
            raise SourceUnavailable("unreachable", f"{command[0]}: {error.strerror}") from error
        try:
            is_whole = await asyncio.wait_for(output.is_whole, self._deadline_s)
        except TimeoutError as error:
            raise SourceUnavailable("hung", f"{command[0]}: no answer within {self._deadline_s} s") from error
        finally:
            await _end(transport, output)
        if not is_whole:
            raise too_large(command[0], self._max_bytes)
        if returncode := transport.get_returncode():
            raise SourceUnavailable(f"error({returncode})", output.complaint.decode(errors="replace").strip()[:200])
        return entries_of(output.answer, command[0])


class _Output(asyncio.SubprocessProtocol):
    """What a command prints: `is_whole` is True at its end, and False as soon as it is longer than is read."""

    def __init__(self, max_bytes: int) -> None:
        self.answer = bytearray()
        self.complaint = bytearray()
        self.is_whole: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.exited = asyncio.Event()
        self.is_over = False
        self._max_bytes = max_bytes

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep what fits."""
        if fd != _STDOUT:
            self.complaint += data[: _MAX_COMPLAINT_BYTES - len(self.complaint)]
        elif len(self.answer) + len(data) <= self._max_bytes:
            self.answer += data
        else:
            self._settle(is_whole=False)

    def process_exited(self) -> None:
        """Note that the command itself has ended; its children may still write."""
        self.exited.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Note that the command has ended and nobody writes any more."""
        self.is_over = True
        self._settle(is_whole=True)

    def _settle(self, *, is_whole: bool) -> None:
        if not self.is_whole.done():
            self.is_whole.set_result(is_whole)


async def _end(transport: asyncio.SubprocessTransport, output: _Output) -> None:
    """Kill a command that has not ended, with its children, and let go of its pipes, whoever holds their other ends."""
    if not output.is_over:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(transport.get_pid(), signal.SIGKILL)
        with suppress(TimeoutError):
            await asyncio.wait_for(output.exited.wait(), _DEATH_S)
    transport.close()
