"""Slurm asked through slurmrestd, over TCP with a token or over a unix socket whose peer it knows.

The server's OpenAPI document tells which versions of the API it offers; the newest of those that are read here is taken, logged and kept
until a read fails. None of them is a state of the source, never a try with another. Slurm's own errors stand in the answer's `errors`:
22.05 answers a wrong token with 500 and the number -1, 24.11 with 511 and 1007; accounting of either with 200 and 1007.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import structlog
from yarl import URL

from ingest.errors import SourceUnavailable
from ingest.jobs.answer import MAX_ANSWER_BYTES, complaint_of, decode, entries_of, too_large

VERSIONS = ("v0.0.42", "v0.0.41", "v0.0.40", "v0.0.39", "v0.0.38")  # newest first
_UNIX = "unix:"
_IDS_PER_QUESTION = 200  # keeps the address short
_JOBS_PATH = re.compile(r"/(slurm|slurmdb)/(v0\.0\.\d+)/jobs/?")
_REFUSED_STATUS = (401, 403, 511)
_REFUSED_NUMBER = (-1, 1007)
_TOKEN = re.compile(r"[!-~]+")
_log = structlog.get_logger()


class Paths(NamedTuple):
    """Where a server lists its jobs; None for accounting that it does not offer."""

    queue: str
    accounting: str | None


class SlurmRest:
    """slurmrestd at `address`: `http://host:6820`, or `unix:/path` of its socket.

    `token_file` holds a JWT of `user`, alone or as `scontrol token` prints it, and is read at each question, so that a token may be
    renewed at any time. Without it the server has to know who asks, as it does over its socket. `deadline_s` is the wall time that one
    question may take, `max_bytes` the longest answer that is read.
    """

    def __init__(
        self,
        address: str,
        *,
        user: str = "slurm",
        token_file: Path | None = None,
        has_accounting: bool = False,
        deadline_s: float = 20.0,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        self.has_accounting = has_accounting
        self._address = address
        self._user = user
        self._token_file = token_file
        self._deadline_s = deadline_s
        self._max_bytes = max_bytes
        self._paths: Paths | None = None

    async def queue(self) -> list[Any]:
        """List the jobs in the queue; raises SourceUnavailable."""
        return await self._ask()

    async def ended(self, job_ids: Collection[str]) -> list[Any]:
        """List what accounting knows of these jobs; raises SourceUnavailable."""
        ids = list(job_ids)
        parts = [ids[start : start + _IDS_PER_QUESTION] for start in range(0, len(ids), _IDS_PER_QUESTION)]
        return [entry for part in parts for entry in await self._ask(part)]

    async def _ask(self, ended: Collection[str] = ()) -> list[Any]:
        """Ask for the queue, or accounting for jobs that have ended."""
        try:
            async with self._session() as session:
                if self._paths is None:
                    self._paths = self._chosen(await self._get(session, "/openapi/v3"))
                path = (self._paths.accounting if ended else None) or self._paths.queue
                # 22.05 refuses a comma that is not escaped, and of a key that is given twice it takes one.
                query = f"?step={'%2C'.join(ended)}" if ended else ""
                return entries_of(await self._get(session, path + query), f"{self._address}{path}")
        except SourceUnavailable:
            self._paths = None
            raise
        except TimeoutError as error:
            raise SourceUnavailable("hung", f"{self._address}: no answer within {self._deadline_s:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise SourceUnavailable("unreachable", f"{self._address}: {error}") from error

    def _session(self) -> aiohttp.ClientSession:
        path = self._address.removeprefix(_UNIX)
        return aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(path) if path != self._address else None,
            timeout=aiohttp.ClientTimeout(total=self._deadline_s),
            headers={"Accept": "application/json"} | self._credentials(),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    def _credentials(self) -> dict[str, str]:
        if self._token_file is None:
            return {}
        try:
            token = self._token_file.read_text().strip().removeprefix("SLURM_JWT=")
        except (OSError, UnicodeDecodeError) as error:
            raise SourceUnavailable("no_token", f"{self._token_file}: cannot be read: {error}") from error
        if not _TOKEN.fullmatch(token):
            raise SourceUnavailable("no_token", f"{self._token_file}: holds no token: write there what `scontrol token` prints")
        return {"X-SLURM-USER-NAME": self._user, "X-SLURM-USER-TOKEN": token}

    def _chosen(self, document: bytes) -> Paths:
        """Choose the version and say so; raises SourceUnavailable where the server offers none that is read here."""
        offered = paths_offered(decode(document, self._address))
        queues, accounts = offered["slurm"], offered["slurmdb"]
        version = next((version for version in VERSIONS if version in queues and (version in accounts or not self.has_accounting)), None)
        if version is None:
            lacks = "jobs and accounting" if self.has_accounting else "jobs"
            has = f"jobs of {', '.join(sorted(queues)) or 'none'}, accounting of {', '.join(sorted(accounts)) or 'none'}"
            wanted = f"{lacks} are read in {VERSIONS[-1]} to {VERSIONS[0]}"
            raise SourceUnavailable("unknown_version", f"{self._address}: {wanted}, it offers {has}")
        _log.info("slurm_rest_version", address=self._address, version=version)
        return Paths(queues[version], accounts.get(version))

    async def _get(self, session: aiohttp.ClientSession, path: str) -> bytes:
        """Ask one question; raises SourceUnavailable unless the server answers it, shortly enough."""
        base = "http://slurmrestd" if self._address.startswith(_UNIX) else self._address.rstrip("/")
        body = bytearray()
        async with session.get(URL(base + path, encoded=True), allow_redirects=False) as answer:
            async for chunk in answer.content.iter_any():
                body += chunk
                if len(body) > self._max_bytes:
                    raise too_large(f"{self._address}{path}", self._max_bytes)
            if answer.status != 200:
                raise self._refusal(answer.status, bytes(body), path)
        return bytes(body)

    def _refusal(self, status: int, body: bytes, path: str) -> SourceUnavailable:
        try:
            number, text = complaint_of(decode(body, path))
        except SourceUnavailable:
            number, text = 0, body[:200].decode(errors="replace")
        said = f"{self._address}{path}: {status} {text}".strip()
        if status in _REFUSED_STATUS or number in _REFUSED_NUMBER:
            mend = f"renew the token of {self._user} in {self._token_file}" if self._token_file else "set collect.slurm_token_file"
            return SourceUnavailable("unauthorized", f"{said}: {mend}")
        return SourceUnavailable(f"error({number or status})", said)


def paths_offered(document: Any) -> dict[str, dict[str, str]]:
    """Find where an OpenAPI document lists jobs: for `slurm` and for `slurmdb`, its accounting, version = path."""
    offered: dict[str, dict[str, str]] = {"slurm": {}, "slurmdb": {}}
    paths = document.get("paths") if isinstance(document, dict) else None
    for path in paths if isinstance(paths, dict) else ():
        if found := _JOBS_PATH.fullmatch(path):
            offered[found[1]][found[2]] = path
    return offered
