"""On a full disk the decision layer says so and stays; with room again it says what it would have said, and delivers it once more."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests
import uvicorn
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from alerting.api import app
from alerting.delivery import Delivery, Endpoint, Patience
from alerting.ledger import Ledger
from alerting.loop import AlertLoop
from alerting.signature import sign
from ingest.clock import ManualClock, SystemClock
from tests.disks import small_disk

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OUTCOME = {"outcome_id": "o1", "cluster": "dc1", "node": "n1", "kind": "part_replaced", "at": "2026-11-28T09:12:00Z", "source": "ticket"}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a real file system of 1 MiB."""
    with small_disk(tmp_path / "disk", "1m") as disk:
        yield disk


@pytest.fixture
def ledger_directory(disk: Path) -> Path:
    """Keep the ledger on the small disk."""
    return disk


def fill(disk: Path) -> Path:
    """Leave no byte of room."""
    filler = disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(os.urandom(4096)) == 4096:
            pass
    assert os.statvfs(disk).f_bavail == 0
    return filler


def metric(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_a_failure_on_a_full_disk_is_answered_when_there_is_room(
    make_fleet: Any, make_loop: Callable[..., AlertLoop], ledger: Ledger, disk: Path, wait_for: Callable[..., None]
) -> None:
    """The loop goes on, counts and logs one line a pass without a stack, and says the recommendation once."""
    fleet = make_fleet(16)
    fleet.score({})
    loop = make_loop(fleet)
    loop.run_pass()
    filler = fill(disk)
    fleet.xid("gpu003", 79)
    before, stop = metric("forewarn_alert_passes_total", result="failed"), threading.Event()
    with capture_logs() as lines:
        thread = threading.Thread(target=loop.run, args=(stop, 0.02))
        thread.start()
        wait_for(lambda: metric("forewarn_alert_passes_total", result="failed") >= before + 3, "passes fail")
        filler.unlink()
        wait_for(lambda: "gpu003" in ledger.open_recommendations(), "the failure is answered")
        stop.set()
        thread.join()
    failed = [line for line in lines if line["event"] == "alert_pass_failed"]
    assert {(line["error"], line["exc_info"]) for line in failed} == {("OperationalError", False)}
    assert "full" in failed[0]["reason"]
    assert ledger.database.query("select count(*) from outbox") == [(1,)]


def test_a_delivery_that_cannot_be_noted_comes_again_and_stops_no_other(
    make_fleet: Any, make_loop: Callable[..., AlertLoop], *, ledger: Ledger, disk: Path, consumer: Any, clock: ManualClock, wait_for: Any
) -> None:
    """The sender outlives it, does not hammer the consumer meanwhile, and everything is delivered in the end."""
    fleet = make_fleet(16)
    fleet.score({})
    fleet.xid("gpu003", 79)
    fleet.xid("gpu004", 79)
    loop = make_loop(fleet)
    loop.run_pass()
    filler = fill(disk)
    patience = Patience(timeout_s=0.5, first_s=0.01, longest_s=0.02, idle_s=0.02, breaker_failures=4, breaker_s=0.5)
    delivery = Delivery(ledger.database, Endpoint(name="scheduler", url=consumer.url, secrets=(SECRET,)), clock=clock, patience=patience)
    before = metric("forewarn_webhook_failures_total", endpoint="scheduler", error="OperationalError")
    stop = threading.Event()
    thread = threading.Thread(target=delivery.run, args=(stop,))
    thread.start()
    wait_for(lambda: metric("forewarn_webhook_failures_total", endpoint="scheduler", error="OperationalError") >= before + 2, "notes fail")
    hammered = len(consumer.received)
    filler.unlink()
    wait_for(lambda: not delivery.outbox.counts().get("pending"), "everything is delivered")
    stop.set()
    thread.join()
    assert hammered <= 8
    assert {headers["webhook-id"] for headers, _ in consumer.received} == {id_ for (id_,) in ledger.database.query("select id from outbox")}


def test_an_answer_on_a_full_disk_is_to_be_sent_again(ledger: Ledger, disk: Path, clock: ManualClock, serving: Any) -> None:
    """The caller gets a server error, never a receipt, and the same call is stored once there is room."""
    port = serving(
        uvicorn.Server(uvicorn.Config(app(ledger, secrets={"ops": (SECRET,)}, cluster="dc1", clock=clock), log_level="critical"))
    )

    def tell() -> int:
        body = msgspec.json.encode({**OUTCOME, "detail": "x" * 30_000})
        headers = {"Content-Type": "application/json", **sign([SECRET], "m1", SystemClock().now_ns(), body)}
        return requests.post(f"http://127.0.0.1:{port}/v1/outcomes", data=body, headers=headers, timeout=10).status_code

    filler = fill(disk)
    assert [tell(), tell()] == [503, 503]
    filler.unlink()
    assert [tell(), tell()] == [202, 200]
