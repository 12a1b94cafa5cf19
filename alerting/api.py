"""The calls that consumers make: acknowledgements and outcomes (signed), open recommendations, health and metrics.

    POST /v1/recommendations/{id}/acks    ack.v1, signed with the consumer's secret; a known webhook-id answers 200 and changes nothing
    POST /v1/outcomes                     outcome.v1, signed; `outcome_id` makes it idempotent
    GET  /v1/recommendations?open=true    newest revision of everything that is open: reconcile by it after losing data
    GET  /v1/recommendations/{id}         newest revision of one
    GET  /healthz  /readyz  /metrics

401 no secret signed the body · 404 no such recommendation · 413 too long · 422 breaks the contract, with the list of problems ·
503 the ledger cannot take it now: send it again
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import structlog
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from alerting.answers import Receipt, take_ack, take_outcome
from alerting.contract import Contract, problems
from alerting.ledger import Ledger
from alerting.metrics import ACKS, CALLS_REFUSED, OUTCOMES_TOLD
from alerting.schema import Ack, OutcomeReport
from alerting.signature import signer
from ingest.clock import NS, Clock, SystemClock, ns_of

LONGEST_BODY = 65_536
FUTURE_NS = 300 * NS  # clocks differ by so much at most
log = structlog.get_logger()
_STATUS = {"stored": 202, "known": 200, "unknown": 404}


class Refused(Exception):  # an answer, not an error of ours
    """A call that gets an answer other than success."""

    def __init__(self, status: int, reason: str, details: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.details = list(details)


class Api:
    """The endpoints over one ledger; `secrets` gives each consumer's secrets, newest first."""

    def __init__(
        self, ledger: Ledger, *, secrets: Mapping[str, Sequence[str]], cluster: str, clock: Clock, wall: Clock | None = None
    ) -> None:
        self._ledger = ledger
        self._secrets = secrets
        self._cluster = cluster
        self._clock = clock
        self._wall = wall or SystemClock()

    async def post_ack(self, request: Request) -> Response:
        """Store a consumer's answer to a revision."""
        consumer, data = await self._signed(request, "ack")
        ack = msgspec.convert(data, Ack)
        if ack.recommendation_id != request.path_params["recommendation_id"]:
            raise Refused(422, "contract", ["$.recommendation_id: not the one of the path"])

        def take() -> Receipt:
            return take_ack(
                self._ledger.database,
                ack,
                consumer=consumer,
                webhook_id=request.headers["webhook-id"],
                received_ns=self._clock.now_ns(),
                wall_ns=self._wall.now_ns(),
            )

        receipt = await run_in_threadpool(take)
        if receipt == "stored":
            ACKS.labels(ack.state).inc()
        return _answer(receipt)

    async def post_outcome(self, request: Request) -> Response:
        """Store what became of a node."""
        consumer, data = await self._signed(request, "outcome")
        outcome = msgspec.convert(data, OutcomeReport)
        if outcome.cluster != self._cluster:
            raise Refused(422, "contract", [f"$.cluster: this is {self._cluster}"])
        if ns_of(outcome.at) > self._clock.now_ns() + FUTURE_NS:
            raise Refused(422, "contract", ["$.at: lies in the future"])

        def take() -> Receipt:
            return take_outcome(self._ledger.database, outcome, consumer=consumer, received_ns=self._clock.now_ns())

        receipt = await run_in_threadpool(take)
        if receipt == "stored":
            OUTCOMES_TOLD.labels(outcome.kind).inc()
        return _answer(receipt)

    async def get_recommendations(self, request: Request) -> Response:
        """List what is open; an open recommendation that is no longer listed is over."""
        if request.query_params.get("open", "true") != "true":
            raise Refused(422, "only open=true is offered")
        bodies = await run_in_threadpool(self._ledger.bodies)
        return Response(b'{"recommendations":[' + b",".join(bodies) + b"]}", media_type="application/json")

    async def get_recommendation(self, request: Request) -> Response:
        """Give one recommendation."""
        bodies = await run_in_threadpool(self._ledger.bodies, request.path_params["recommendation_id"])
        if not bodies:
            raise Refused(404, "unknown")
        return Response(bodies[0], media_type="application/json")

    async def healthz(self, _: Request) -> Response:
        """Say that the process answers."""
        return _json(200, {"status": "ok"})

    async def readyz(self, _: Request) -> Response:
        """Say whether the ledger answers."""
        await run_in_threadpool(self._ledger.marks)
        return _json(200, {"status": "ready"})

    async def metrics(self, _: Request) -> Response:
        """Print the process's metrics."""
        return Response(generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _signed(self, request: Request, contract: Contract) -> tuple[str, Any]:
        """Verify the raw body first, then parse and check it."""
        body = await _body(request)
        consumer = signer(self._secrets, request.headers, body)
        if consumer is None:
            raise Refused(401, "signature")
        try:
            data = msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            raise Refused(422, "json", [str(error)]) from error
        if found := await run_in_threadpool(problems, contract, data):
            raise Refused(422, "contract", found[:20])
        return consumer, data


def app(ledger: Ledger, *, secrets: Mapping[str, Sequence[str]], cluster: str, clock: Clock, wall: Clock | None = None) -> Starlette:
    """Build the application."""
    api = Api(ledger, secrets=secrets, cluster=cluster, clock=clock, wall=wall)
    one = "/v1/recommendations/{recommendation_id}"
    routes: list[tuple[str, Callable[..., Any], str]] = [
        (f"{one}/acks", api.post_ack, "POST"),
        ("/v1/outcomes", api.post_outcome, "POST"),
        ("/v1/recommendations", api.get_recommendations, "GET"),
        (one, api.get_recommendation, "GET"),
        ("/healthz", api.healthz, "GET"),
        ("/readyz", api.readyz, "GET"),
        ("/metrics", api.metrics, "GET"),
    ]
    return Starlette(
        routes=[Route(path, endpoint, methods=[method]) for path, endpoint, method in routes],
        exception_handlers={Refused: _refuse, sqlite3.OperationalError: _put_off},
    )


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST_BODY:
            raise Refused(413, "too_long")
    return bytes(body)


async def _refuse(_: Request, refused: Exception) -> Response:
    assert isinstance(refused, Refused)
    CALLS_REFUSED.labels(refused.reason).inc()
    return _json(refused.status, {"error": refused.reason, "details": refused.details})


async def _put_off(_: Request, error: Exception) -> Response:
    """Answer for a ledger that is locked or whose disk is full."""
    CALLS_REFUSED.labels("ledger").inc()
    log.error("call_put_off", error=str(error))
    return _json(503, {"error": "ledger", "details": [str(error)]})


def _answer(receipt: Receipt) -> Response:
    if receipt == "unknown":
        raise Refused(404, "unknown")
    return _json(_STATUS[receipt], {"status": receipt})


def _json(status: int, data: Mapping[str, Any]) -> Response:
    return Response(msgspec.json.encode(data), status_code=status, media_type="application/json")
