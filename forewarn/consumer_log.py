"""The example consumer: receives recommendations, logs them, and answers; it never touches a node.

Every consumer has to do these steps in this order:

1. verify the signature over the raw body, not older than five minutes: else 401;
2. a known `webhook-id`: 200, nothing is done;
3. a revision not above the known one: 200, ack `rejected` / `duplicate`;
4. `expires_at` has passed: ack `rejected` / `expired`;
5. act (here: log), and store id, revision and ack in one transaction; answer 2xx; post the ack until it is taken.

In shadow mode it acks `accepted` with `action_taken` "none". Only the webhook's public contract is used: nothing of forewarn is imported
but its clock, since an emulated fleet has a time of its own.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import requests
import structlog
import uvicorn
from standardwebhooks import Webhook, WebhookVerificationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from ulid import ULID

from ingest.clock import Clock, SystemClock, datetime_of, ns_of

_TABLES = """
create table if not exists seen (webhook_id text primary key, recommendation_id text, revision integer, data blob);
create table if not exists revisions (recommendation_id text primary key, revision integer);
create table if not exists acks (id text primary key, url text, body blob, is_posted integer default 0);
"""
log = structlog.get_logger()


class LogConsumer:
    """Keeps what it received in one SQLite file; `received` gives it back."""

    def __init__(self, state: Path, *, secrets: list[str], ack_secret: str, api_url: str | None, name: str, clock: Clock) -> None:
        self._webhooks = [Webhook(secret) for secret in secrets]
        self._ack_webhook = Webhook(ack_secret)
        self._api_url = api_url
        self._name = name
        self._clock = clock
        self._wall = SystemClock()
        self._lock = threading.Lock()
        self._database = sqlite3.connect(state, isolation_level=None, check_same_thread=False)
        self._database.execute("pragma journal_mode = wal")
        self._database.executescript(_TABLES)
        self._wake = threading.Event()

    def receive(self, headers: Mapping[str, str], body: bytes) -> int:
        """Take one delivery and give the HTTP status to answer with."""
        if not self._is_signed(headers, body):
            log.warning("delivery_refused", reason="signature")
            return 401
        event = msgspec.json.decode(body)
        with self._lock, self._database:
            self._database.execute("begin immediate")
            if self._is_known(headers["webhook-id"]):
                return 200
            self._store(headers["webhook-id"], event["data"])
        self._wake.set()
        return 202

    def received(self) -> list[dict[str, Any]]:
        """List every payload that was taken, in order."""
        with self._lock:
            rows = self._database.execute("select data from seen order by rowid").fetchall()
        return [msgspec.json.decode(data) for (data,) in rows]

    def post_acks(self, stop: threading.Event) -> None:
        """Post acks until told to stop; one that was not taken is posted again."""
        while not stop.is_set():
            self._wake.clear()
            failed = [ack_id for ack_id, url, body in self._pending() if not self._post(ack_id, url, body)]
            self._wake.wait(1.0 if failed else 10.0)

    def wake(self) -> None:
        """Let `post_acks` look at once."""
        self._wake.set()

    def _is_signed(self, headers: Mapping[str, str], body: bytes) -> bool:
        for webhook in self._webhooks:
            try:
                webhook.verify(body, dict(headers), json_parse=False)
            except (WebhookVerificationError, ValueError):
                continue
            return True
        return False

    def _is_known(self, webhook_id: str) -> bool:
        return self._database.execute("select 1 from seen where webhook_id = ?", (webhook_id,)).fetchone() is not None

    def _store(self, webhook_id: str, data: dict[str, Any]) -> None:
        """Judge, log and store one delivery; the caller holds the transaction."""
        recommendation_id, revision = data["recommendation_id"], data["revision"]
        row = self._database.execute("select revision from revisions where recommendation_id = ?", (recommendation_id,)).fetchone()
        state, reason_code = self._judge(data, row[0] if row else 0)
        if state != "rejected":
            self._database.execute("insert or replace into revisions values (?, ?)", (recommendation_id, revision))
        action = data["action"]["kind"]
        node = data["target"]["nodes"][0]["name"]
        log.info("recommendation", node=node, action=action, status=data["status"], mode=data["mode"], revision=revision, ack=state)
        self._database.execute("insert into seen values (?, ?, ?, ?)", (webhook_id, recommendation_id, revision, msgspec.json.encode(data)))
        if self._api_url and "ack" in data.get("links", {}):
            ack = self._ack(data, state, reason_code)
            url = self._api_url.rstrip("/") + data["links"]["ack"]
            row_values = (f"msg_{ULID()}", url, msgspec.json.encode(ack))
            self._database.execute("insert into acks (id, url, body) values (?, ?, ?)", row_values)

    def _judge(self, data: dict[str, Any], known_revision: int) -> tuple[str, str | None]:
        if data["revision"] <= known_revision:
            return "rejected", "duplicate"
        if ns_of(datetime.fromisoformat(data["expires_at"])) < self._clock.now_ns():
            return "rejected", "expired"
        if data["status"] == "resolved":
            return "released" if data["resolution"].get("release_target") else "completed", None
        return "accepted", None

    def _ack(self, data: dict[str, Any], state: str, reason_code: str | None) -> dict[str, Any]:
        ack = {
            "recommendation_id": data["recommendation_id"],
            "revision": data["revision"],
            "state": state,
            "at": datetime_of(self._clock.now_ns()),
            "actor": {"kind": "automation", "name": self._name},
            "action_taken": "none",
        }
        return ack if reason_code is None else {**ack, "reason_code": reason_code}

    def _pending(self) -> list[tuple[str, str, bytes]]:
        with self._lock:
            return self._database.execute("select id, url, body from acks where is_posted = 0 order by rowid").fetchall()

    def _post(self, ack_id: str, url: str, body: bytes) -> bool:
        wall_ns = self._wall.now_ns()
        signature = self._ack_webhook.sign(ack_id, datetime_of(wall_ns), body.decode())
        headers = {"webhook-id": ack_id, "webhook-timestamp": str(wall_ns // 1_000_000_000), "webhook-signature": signature}
        try:
            answer = requests.post(
                url, data=body, headers={"Content-Type": "application/json", **headers}, timeout=15, allow_redirects=False
            )
        except requests.RequestException as error:
            log.warning("ack_not_posted", error=type(error).__name__)
            return False
        if answer.status_code >= 500 or answer.status_code == 429:
            return False
        if not answer.ok:
            log.error("ack_refused", status=answer.status_code, answer=answer.text[:300])
        with self._lock:
            self._database.execute("update acks set is_posted = 1 where id = ?", (ack_id,))
        return True


def app(consumer: LogConsumer, path: str = "/webhook") -> Starlette:
    """Build the consumer's web application, with a thread that posts its acks."""

    async def receive(request: Request) -> Response:
        body = await request.body()
        return Response(status_code=await run_in_threadpool(consumer.receive, request.headers, body))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        stop = threading.Event()
        poster = threading.Thread(target=consumer.post_acks, args=(stop,), name="acks", daemon=True)
        poster.start()
        yield
        stop.set()
        consumer.wake()
        await run_in_threadpool(poster.join, 20)

    return Starlette(routes=[Route(path, receive, methods=["POST"])], lifespan=lifespan)


def server(
    host: str,
    port: int,
    secret_file: Path,
    ack_secret_file: Path,
    state_path: Path,
    *,
    api_url: str | None = None,
    name: str = "consume-log",
    clock: Clock | None = None,
) -> uvicorn.Server:
    """Build the server: `run()` blocks, and `should_exit = True` ends it from another thread."""
    consumer = LogConsumer(
        state_path,
        secrets=secret_file.read_text().split(),
        ack_secret=ack_secret_file.read_text().split()[0],
        api_url=api_url,
        name=name,
        clock=clock or SystemClock(),
    )
    return uvicorn.Server(uvicorn.Config(app(consumer), host=host, port=port, log_level="warning", lifespan="on"))


def serve(host: str, port: int, secret_file: Path, ack_secret_file: Path, state_path: Path, *, api_url: str | None = None) -> None:
    """Receive recommendations until interrupted."""
    server(host, port, secret_file, ack_secret_file, state_path, api_url=api_url).run()
