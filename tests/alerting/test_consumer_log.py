"""The example consumer keeps the protection order of the webhook, and with the product closes the loop over real sockets."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from alerting.api import app
from alerting.delivery import Delivery, Endpoint, Patience
from alerting.ledger import Ledger
from alerting.loop import AlertLoop
from alerting.outbox import Outbox
from alerting.signature import sign
from forewarn.consumer_log import LogConsumer, server
from ingest.clock import NS, ManualClock, SystemClock, datetime_of

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ACK_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
ROOT = Path(__file__).parents[2]
SENDER = """
import sys, threading
from alerting.database import Database
from alerting.delivery import Delivery, Endpoint
from ingest.clock import ManualClock
path, url, secret, now_ns = sys.argv[1:]
Delivery(Database(path), Endpoint(name="scheduler", url=url, secrets=(secret,)), clock=ManualClock(int(now_ns))).run(threading.Event())
"""


@pytest.fixture
def log_consumer(tmp_path: Path, clock: ManualClock) -> LogConsumer:
    return LogConsumer(tmp_path / "consumer.sqlite", secrets=[SECRET], ack_secret=ACK_SECRET, api_url="http://api", name="t", clock=clock)


def delivery(clock: ManualClock, revision: int = 1, webhook_id: str = "msg_1", **more: Any) -> tuple[dict[str, str], bytes]:
    example = json.loads(Path(__file__).with_name("example.opened.json").read_text())
    expires = datetime_of(clock.now_ns() + 3600 * NS).isoformat()
    example["data"] |= {"revision": revision, "mode": "shadow", "expires_at": expires, **more}
    body = json.dumps(example).encode()
    return sign([SECRET], webhook_id, SystemClock().now_ns(), body), body


def pending_acks(consumer: LogConsumer) -> list[tuple[int, str, str | None]]:
    acks = [json.loads(body) for _, _, body in consumer._pending()]
    return [(ack["revision"], ack["state"], ack.get("reason_code")) for ack in acks]


def test_protection_order(log_consumer: LogConsumer, clock: ManualClock) -> None:
    """A forged body is refused; a known id does nothing; an old revision and an expired one are rejected with their reason."""
    headers, body = delivery(clock)
    assert log_consumer.receive(headers, body + b" ") == 401
    assert log_consumer.receive(headers, body) == 202
    assert log_consumer.receive(headers, body) == 200
    assert log_consumer.receive(*delivery(clock, 1, "msg_2")) == 202
    assert log_consumer.receive(*delivery(clock, 2, "msg_3", expires_at=datetime_of(clock.now_ns() - NS).isoformat())) == 202
    assert log_consumer.receive(*delivery(clock, 3, "msg_4")) == 202
    assert pending_acks(log_consumer) == [
        (1, "accepted", None),
        (1, "rejected", "duplicate"),
        (2, "rejected", "expired"),
        (3, "accepted", None),
    ]


def test_resolution_is_answered(log_consumer: LogConsumer, clock: ManualClock) -> None:
    """A resolution that gives the node back is acked as released."""
    resolution = {"reason": "risk_cleared", "at": "2026-11-29T12:00:00Z", "release_target": True}
    log_consumer.receive(*delivery(clock, 2, status="resolved", resolution=resolution))
    assert pending_acks(log_consumer) == [(2, "released", None)]


def test_the_loop_is_closed(tmp_path: Path, *, make_fleet: Any, ledger: Ledger, clock: ManualClock, serving: Any, wait_for: Any) -> None:
    """Score, decision, signed delivery, ack and reconciliation over real sockets, in shadow mode."""
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "ack").write_text(ACK_SECRET)
    api = app(ledger, secrets={"log": (ACK_SECRET,)}, cluster="dc1", clock=clock)
    api_port = serving(uvicorn.Server(uvicorn.Config(api, log_level="warning")))
    api_url = f"http://127.0.0.1:{api_port}"
    made = server("127.0.0.1", 0, tmp_path / "secret", tmp_path / "ack", tmp_path / "c.sqlite", api_url=api_url, clock=clock)
    url = f"http://127.0.0.1:{serving(made)}/webhook"

    fleet = make_fleet(16)
    fleet.score({"gpu003": 0.4})
    loop = AlertLoop(fleet.lake, ledger, cluster="dc1", clock=clock)
    assert len(loop.run_pass()) == 1
    stop = threading.Event()
    sender = Delivery(ledger.database, Endpoint(name="scheduler", url=url, secrets=(SECRET,)), clock=clock, patience=Patience(idle_s=0.02))
    thread = threading.Thread(target=sender.run, args=(stop,))
    thread.start()
    sql = "select state, actor_kind, consumer from acks"
    wait_for(lambda: ledger.database.query(sql), "the ack")
    stop.set()
    thread.join()
    loop.picture.close()
    assert ledger.database.query(sql) == [("accepted", "automation", "log")]
    assert Outbox(ledger.database, "scheduler").counts() == {"done": 1}


def test_killed_in_the_middle_of_a_send(
    tmp_path: Path, *, make_fleet: Any, ledger: Ledger, clock: ManualClock, log_consumer: LogConsumer, wait_for: Any
) -> None:
    """The sender is killed (SIGKILL) after the consumer has stored and before it answers: sent again under the same id, one effect."""
    taken, release, statuses = threading.Event(), threading.Event(), []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            statuses.append((self.headers["webhook-id"], log_consumer.receive(self.headers, body)))
            if not taken.is_set():
                taken.set()
                release.wait(30)
                return
            self.send_response(statuses[-1][1])
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    serving = threading.Thread(target=http.serve_forever, args=(0.05,))
    serving.start()
    url = f"http://127.0.0.1:{http.server_port}"
    fleet = make_fleet(16)
    fleet.score({"gpu003": 0.4})
    loop = AlertLoop(fleet.lake, ledger, cluster="dc1", clock=clock)
    (said,) = loop.run_pass()
    loop.picture.close()

    arguments = [sys.executable, "-c", SENDER, str(tmp_path / "ledger.sqlite"), url, SECRET, str(clock.now_ns())]
    first = subprocess.Popen(arguments, cwd=ROOT)
    assert taken.wait(30)
    first.kill()
    first.wait()
    assert Outbox(ledger.database, "scheduler").counts() == {"pending": 1}
    second = subprocess.Popen(arguments, cwd=ROOT)
    wait_for(lambda: Outbox(ledger.database, "scheduler").counts() == {"done": 1}, "the second sender's delivery", 30)
    second.kill()
    second.wait()
    release.set()
    http.shutdown()
    serving.join()
    http.server_close()
    assert statuses == [(said.event.id, 202), (said.event.id, 200)]
    assert [data["recommendation_id"] for data in log_consumer.received()] == [said.memory.recommendation_id]
