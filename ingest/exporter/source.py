"""Scrape the dcgm-exporter pages of many nodes in one process: each target has its own deadline and none delays the others.

A read starts one scrape per target and waits for those that answered last time; whatever comes later is given out by the next read. A
target whose scrape is still under way is not asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import aiohttp
import structlog

from ingest.clock import NS, Clock, SystemClock
from ingest.exporter.gpu import SOURCE
from ingest.exporter.node import ExporterNode
from ingest.metrics import EXPORTER_FAILURES, EXPORTER_LATE
from ingest.schema import Observed
from ingest.source import Pace
from ingest.xid import Catalogue

_REFRESH_S = 30.0  # dcgm-exporter --collect-interval
_MAX_BODY = 4 * 2**20  # 16 GPUs with every field, MIG and pods have 1 MB
_LONG_BODY = 2**18  # 130 kB are a node of eight GPUs
_log = structlog.get_logger(__name__)


class _Target:
    """One page to scrape, and whether it is worth waiting for."""

    def __init__(self, node: ExporterNode, url: str) -> None:
        self.node = node
        self.url = url
        self.scrape: asyncio.Task[None] | None = None
        self.has_answered = True
        self.was_heard = False  # once, good or bad
        self.has_failed = False
        self.asked_for_ns: int | None = None
        self.is_oversized = False
        self.ready: list[Observed] = []


class ExporterSource:
    """The exporter pages of the nodes in `targets` (node -> URL). `deadline_s` and `patience_s` are wall time.

    `refresh_s` is how often an exporter renews its values: 30 s unless told otherwise. Scraped more rarely than that, a page that is the
    same twice may still be chance, and only a third time makes it stale.
    """

    name = SOURCE
    pace = Pace.FLEET

    def __init__(
        self,
        targets: Mapping[str, str],
        *,
        interval_s: float = 30.0,
        deadline_s: float = 10.0,
        patience_s: float = 1.0,
        clock: Clock | None = None,
        expected: Mapping[str, Collection[str]] = MappingProxyType({}),
        catalogue: Catalogue | Path | None = None,
        refresh_s: float | None = None,
        max_connections: int = 100,
    ) -> None:
        self.interval_s = interval_s
        self._deadline_s = deadline_s
        self._patience_s = patience_s
        self._clock = clock or SystemClock()
        self._max_connections = max_connections
        self._session: aiohttp.ClientSession | None = None
        self._owners: dict[str, tuple[str, int]] = {}
        refresh_s = refresh_s or (_REFRESH_S if interval_s <= _REFRESH_S else 1.5 * interval_s)
        self._targets = [
            _Target(ExporterNode(node, expected=expected.get(node, ()), catalogue=catalogue, refresh_s=refresh_s), url)
            for node, url in targets.items()
        ]

    @property
    def unheard(self) -> list[str]:
        """Nodes whose first page is still awaited."""
        return [target.node.node for target in self._targets if not target.was_heard]

    async def open(self) -> None:
        """Make the session; nothing is asked yet."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._max_connections, ttl_dns_cache=300),
            timeout=aiohttp.ClientTimeout(total=self._deadline_s),
            headers={"Accept-Encoding": "gzip", "Accept": "text/plain;version=0.0.4"},
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def read(self, at_ns: int) -> list[Observed]:
        """Scrape every target, once as of `at_ns`; give what has come in time and what had come late before."""
        awaited = []
        for target in self._targets:
            if target.asked_for_ns != at_ns and (target.scrape is None or target.scrape.done()):
                target.asked_for_ns = at_ns
                is_trusted = target.has_answered
                target.scrape = asyncio.create_task(self._scrape(target))
                awaited += [target.scrape] * is_trusted
        if awaited:
            await asyncio.wait(awaited, timeout=self._patience_s)
        records: list[Observed] = []
        for target in self._targets:
            EXPORTER_LATE.inc(target.scrape is not None and not target.scrape.done())
            records += target.ready
            target.ready = []
        return records

    async def close(self) -> None:
        """Stop scrapes under way and the session."""
        running = [target.scrape for target in self._targets if target.scrape and not target.scrape.done()]
        for scrape in running:
            scrape.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def _scrape(self, target: _Target) -> None:
        target.has_answered = False
        try:
            status, body, is_cut = await self._ask(target.url)
            at_ns = self._clock.now_ns()
            self._note_size(target, len(body))
            # A long page takes seconds when its series are new: other sources go on meanwhile.
            run = asyncio.to_thread if len(body) > _LONG_BODY else _at_once
            records = await run(target.node.scraped, body, status, at_ns, is_cut=is_cut)
            target.has_answered, target.has_failed = True, False
            target.ready += self._refuse_foreign(target.node, records, at_ns)
        except TimeoutError:
            target.ready += target.node.failed("timeout", f"no page within {self._deadline_s:g} s", self._clock.now_ns())
        except (aiohttp.ClientError, OSError) as error:
            target.ready += target.node.failed("unreachable", f"{type(error).__name__}: {error}", self._clock.now_ns())
        except Exception:  # noqa: BLE001  # the one broad except of this loop: one target's bug must not silence the others
            EXPORTER_FAILURES.inc()
            if not target.has_failed:
                _log.exception("exporter_scrape_failed", node=target.node.node)
            target.has_failed = True
            target.ready += target.node.failed("error", "internal error, see the log", self._clock.now_ns())
        finally:
            target.was_heard = True

    async def _ask(self, url: str) -> tuple[int, bytes, bool]:
        """Get a page: status, body, and whether the body ended before it should."""
        assert self._session is not None, "BUG: read before open"
        body = bytearray()
        async with self._session.get(url, allow_redirects=False) as answer:
            try:
                async for chunk in answer.content.iter_any():
                    body += chunk
                    if len(body) > _MAX_BODY:
                        return answer.status, bytes(body), True
            except aiohttp.ClientPayloadError:
                return answer.status, bytes(body), True
            return answer.status, bytes(body), False

    def _note_size(self, target: _Target, size: int) -> None:
        is_oversized = size > _MAX_BODY
        if is_oversized and not target.is_oversized:
            _log.warning("exporter_page_too_large", node=target.node.node, read_bytes=size, limit_bytes=_MAX_BODY)
        target.is_oversized = is_oversized

    def _refuse_foreign(self, node: ExporterNode, records: list[Observed], at_ns: int) -> list[Observed]:
        # Two targets that show the same GPU are one exporter twice: the second says nothing (dcgm-exporter#572).
        fresh_ns = at_ns - int(2 * self.interval_s * NS)
        for uuid in node.gpu_uuids:
            owner, seen_at_ns = self._owners.get(uuid, (node.node, at_ns))
            if owner != node.node and seen_at_ns >= fresh_ns:
                _log.warning("exporter_identity_collision", node=node.node, owner=owner, gpu_uuid=uuid)
                return node.failed("collision", f"{uuid} is a GPU of {owner}", at_ns)
            self._owners[uuid] = (node.node, at_ns)
        return records


async def _at_once(work: Callable[..., list[Observed]], *arguments: Any, **options: Any) -> list[Observed]:
    return work(*arguments, **options)
