"""The operators of an emulated fleet: they report what became of nodes to the product, late, over its signed outcomes call."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import structlog

from emulators.layout import NS
from emulators.tickets import Ticket
from emulators.world import World

log = structlog.get_logger()
_PER_ROUND = 20


class Operators:
    """Send the tickets of the live nodes to `url` as they are due; without a URL they stay silent."""

    def __init__(
        self,
        world: World,
        nodes: Sequence[str],
        session: aiohttp.ClientSession,
        *,
        url: str | None,
        secret_file: Path | None,
        cluster: str,
    ) -> None:
        names = frozenset(nodes)
        self._tickets = deque(ticket for ticket in world.tickets if ticket.node in names)
        self._session = session
        self._url = url
        self._key = _key(secret_file.read_text().strip()) if secret_file else b""
        self._cluster = cluster
        self._since_ns: int | None = None

    async def report(self, now_ns: int) -> None:
        """Send what is due; what cannot be sent now is tried again at the next call."""
        if self._url is None:
            return
        if self._since_ns is None:
            self._since_ns = now_ns
            while self._tickets and self._tickets[0].reported_ns < now_ns:
                self._tickets.popleft()  # reported before this process began: part of the history
        for _ in range(_PER_ROUND):
            if not self._tickets or self._tickets[0].reported_ns > now_ns:
                return
            if not await self._send(self._tickets[0]):
                return
            self._tickets.popleft()

    async def _send(self, ticket: Ticket) -> bool:
        assert self._url is not None, "BUG: nowhere to report to"
        body = json.dumps(outcome_body(ticket, self._cluster), separators=(",", ":")).encode()
        headers = {"Content-Type": "application/json", **sign(self._key, ticket.outcome_id, int(time.time()), body)}
        try:
            async with self._session.post(self._url, data=body, headers=headers) as answer:
                if answer.status >= 500:
                    return False
                if answer.status >= 400:
                    log.warning("outcome_refused", status=answer.status, outcome=ticket.outcome_id, answer=(await answer.text())[:200])
                return True
        except (aiohttp.ClientError, TimeoutError) as error:
            log.info("outcome_not_sent", error=type(error).__name__)
            return False


def outcome_body(ticket: Ticket, cluster: str) -> dict[str, Any]:
    """Write a ticket as the body of `POST /v1/outcomes`."""
    body: dict[str, Any] = {
        "outcome_id": ticket.outcome_id,
        "cluster": cluster,
        "node": ticket.node,
        "kind": ticket.kind,
        "at": datetime.fromtimestamp(ticket.at_ns / NS, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "source": "ticket",
        "confidence": ticket.confidence,
        "detail": ticket.detail,
    }
    if ticket.mode is not None:
        body["failure_mode"] = ticket.mode
    if ticket.gpu_uuid is not None:
        body["component"] = ticket.gpu_uuid
    return body


def sign(key: bytes, message_id: str, at_s: int, body: bytes) -> dict[str, str]:
    """Make the three headers of Standard Webhooks (HMAC-SHA256 over `id.timestamp.body`)."""
    digest = hmac.new(key, f"{message_id}.{at_s}.".encode() + body, hashlib.sha256).digest()
    return {"webhook-id": message_id, "webhook-timestamp": str(at_s), "webhook-signature": f"v1,{base64.b64encode(digest).decode()}"}


def _key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix("whsec_"))
