"""Operators' tickets arrive signed, on time, once, and again when they could not be sent."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from jsonschema import Draft202012Validator
from standardwebhooks.webhooks import Webhook

from emulators.layout import DAY_NS, WorldSpec
from emulators.operators import Operators
from emulators.world import World

SECRET = "whsec_c2VjcmV0IG9mIHRoZSBvcGVyYXRvcnMgb2YgdGVzdHM="
# The contract of POST /v1/outcomes.
OUTCOME = {
    "type": "object",
    "required": ["outcome_id", "cluster", "node", "kind", "at", "source"],
    "additionalProperties": False,
    "properties": {
        **{name: {"type": "string"} for name in ("outcome_id", "cluster", "node", "failure_mode", "component", "detail")},
        "kind": {"enum": ["failed_in_service", "diag_failed", "part_replaced", "reset_fixed", "reboot_fixed"]},
        "at": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"},
        "source": {"const": "ticket"},
        "confidence": {"enum": ["confirmed", "suspected"]},
    },
}


class Receiver:
    """An outcomes endpoint that checks what it gets."""

    def __init__(self) -> None:
        self.status = 200
        self.bodies: list[dict[str, str]] = []

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        Webhook(SECRET).verify(body, dict(request.headers))
        if self.status == 200:
            self.bodies.append(json.loads(body))
        return web.Response(status=self.status)


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_text(SECRET)
    return file


async def test_tickets_are_reported_when_due(secret_file: Path) -> None:
    """Tickets from the first call on arrive signed, valid, in order and once; earlier ones are history; a server error is tried again."""
    world = World(WorldSpec.show(nodes=8, days=20))
    nodes = [node.name for node in world.nodes[:4]]
    receiver = Receiver()
    app = web.Application()
    app.router.add_post("/v1/outcomes", receiver.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/outcomes"
    begin_ns, end_ns = world.spec.start_ns + 10 * DAY_NS, world.spec.start_ns + 12 * DAY_NS
    try:
        async with aiohttp.ClientSession() as session:
            operators = Operators(world, nodes, session, url=url, secret_file=secret_file, cluster="demo")
            await operators.report(begin_ns)
            assert receiver.bodies == []
            receiver.status = 503
            await operators.report(end_ns)
            receiver.status = 200
            await operators.report(end_ns)
            await operators.report(end_ns)
    finally:
        await runner.cleanup()
    due = [ticket for ticket in world.outcomes(begin_ns, end_ns + 1) if ticket.node in nodes]
    assert due
    assert [body["outcome_id"] for body in receiver.bodies] == [ticket.outcome_id for ticket in due]
    for body in receiver.bodies:
        Draft202012Validator(OUTCOME).validate(body)


async def test_nobody_reports_without_an_address() -> None:
    """Without a URL nothing is sent."""
    world = World(WorldSpec.show(nodes=2, days=5))
    async with aiohttp.ClientSession() as session:
        await Operators(world, ["gpu001"], session, url=None, secret_file=None, cluster="demo").report(world.spec.until_ns)
