"""Slurm asked by its own commands: `squeue --json` tells the queue, `sacct --json`, where accounting exists, how jobs ended that left it.

Ask for all states and users, and for more than the day so far: `squeue --states=all --json` and
`sacct --allusers --starttime=now-2days --json`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

from ingest.errors import SourceUnavailable
from ingest.jobs.answer import entries_of


class SlurmCommands:
    """The commands to run; without `sacct` there is no accounting. `deadline_s` is the wall time that each may take."""

    def __init__(
        self, squeue: Sequence[str] = ("squeue", "--states=all", "--json"), sacct: Sequence[str] = (), *, deadline_s: float = 20.0
    ) -> None:
        self.has_accounting = bool(sacct)
        self._squeue = squeue
        self._sacct = sacct
        self._deadline_s = deadline_s

    async def queue(self) -> list[Any]:
        """List the jobs in the queue; raises SourceUnavailable."""
        return await self._ask(self._squeue)

    async def ended(self, job_ids: Collection[str]) -> list[Any]:
        """List what accounting knows, these jobs among others; raises SourceUnavailable."""
        return await self._ask(self._sacct) if job_ids else []

    async def _ask(self, command: Sequence[str]) -> list[Any]:
        """Run one command of Slurm and read its JSON."""
        try:
            process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        except OSError as error:
            raise SourceUnavailable("unreachable", f"{command[0]}: {error.strerror}") from error
        try:
            output, complaint = await asyncio.wait_for(process.communicate(), self._deadline_s)
        except TimeoutError as error:
            raise SourceUnavailable("hung", f"{command[0]}: no answer within {self._deadline_s} s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise SourceUnavailable(f"error({process.returncode})", complaint.decode(errors="replace").strip()[:200])
        return entries_of(output, command[0])
