"""The calls of consumers: signed, checked, stored once; everything else is refused with its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import requests
import uvicorn

from alerting.answers import dismissed_since, standings
from alerting.api import app
from alerting.ledger import Audit, Ledger, OutboxEvent, PassRecord, Said
from alerting.lifecycle import OpenRecommendation
from alerting.schema import Action
from alerting.signature import sign
from ingest.clock import NS, ManualClock, SystemClock

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
ID = "rec_01K5Z8Q4D2N3W7R9T1V6X8Y0AC"
ACK = {
    "recommendation_id": ID,
    "revision": 1,
    "state": "in_progress",
    "at": "2026-11-29T11:24:48Z",
    "actor": {"kind": "scheduler", "name": "slurm/dc1"},
    "jobs_affected": [{"id": "48213", "nodes": 64, "time_limit_s": None, "requeue": True}],
}
OUTCOME = {"outcome_id": "out_1", "cluster": "dc1", "node": "n1", "kind": "part_replaced", "at": "2026-11-28T09:12:00Z", "source": "ticket"}
Call = Callable[..., Any]


@pytest.fixture
def url(ledger: Ledger, clock: ManualClock, serving: Any) -> str:
    memory = OpenRecommendation(
        recommendation_id=ID,
        node="n1",
        revision=1,
        origin="score",
        action=Action.DRAIN_NOW,
        urgency="high",
        p_fail=0.4,
        opened_at_ns=1,
        updated_at_ns=1,
        expires_at_ns=2,
    )
    event = OutboxEvent(id="msg_1", key="k", body=b"{}", expires_ns=2)
    audit = Audit(options={}, budget={}, facts={})
    said = Said(change="opened", why="score", memory=memory, body=b'{"recommendation_id":"x"}', audit=audit, event=event)
    ledger.write(PassRecord(at_ns=1, said=[said]), 1)
    api = app(ledger, secrets={"slurm": (SECRET,)}, cluster="dc1", clock=clock)
    return f"http://127.0.0.1:{serving(uvicorn.Server(uvicorn.Config(api, log_level='warning')))}"


@pytest.fixture
def post(url: str) -> Call:
    def post(path: str, data: Any, *, webhook_id: str = "msg_a", secret: str = SECRET, wall_ns: int | None = None) -> Any:
        body = data if isinstance(data, bytes) else msgspec.json.encode(data)
        headers = sign([secret], webhook_id, wall_ns or SystemClock().now_ns(), body)
        return requests.post(url + path, data=body, headers={"Content-Type": "application/json", **headers}, timeout=10)

    return post


def acks(ledger: Ledger) -> list[tuple[Any, ...]]:
    return ledger.database.query("select recommendation_id, revision, state, consumer from acks")


def test_ack_is_stored_once(post: Call, ledger: Ledger) -> None:
    """An ack is stored under its consumer's name, and the same call again changes nothing."""
    answers = [post(f"/v1/recommendations/{ID}/acks", ACK) for _ in range(2)]
    assert [(answer.status_code, answer.json()["status"]) for answer in answers] == [(202, "stored"), (200, "known")]
    assert acks(ledger) == [(ID, 1, "in_progress", "slurm")]


def test_outcome_is_stored_once(post: Call, ledger: Ledger) -> None:
    """An outcome is stored once, whatever the id of the call."""
    answers = [post("/v1/outcomes", OUTCOME, webhook_id=webhook_id) for webhook_id in ("a", "b")]
    assert [answer.status_code for answer in answers] == [202, 200]
    assert ledger.database.query("select outcome_id, node, kind, consumer from outcomes") == [("out_1", "n1", "part_replaced", "slurm")]


@pytest.mark.parametrize("more", [{"secret": OTHER}, {"wall_ns": 1_000_000_000}])
def test_unsigned_calls_are_refused(post: Call, ledger: Ledger, more: dict[str, Any]) -> None:
    """A foreign secret or an old timestamp answers 401 and stores nothing."""
    assert post(f"/v1/recommendations/{ID}/acks", ACK, **more).status_code == 401
    assert acks(ledger) == []


def forged(change: str) -> tuple[bytes, dict[str, str]]:
    """Make an ack as somebody would who has seen a signed one and has no secret."""
    body = msgspec.json.encode(ACK)
    headers = sign([SECRET], "msg_a", SystemClock().now_ns(), body)
    match change:
        case "body":
            body = msgspec.json.encode({**ACK, "state": "completed"})
        case "id":
            headers["webhook-id"] = "msg_b"
        case "timestamp":
            headers["webhook-timestamp"] = str(int(headers["webhook-timestamp"]) + 1)
        case "no_signature" | "no_id" | "no_timestamp":
            del headers[f"webhook-{change.removeprefix('no_')}"]
        case "empty":
            headers["webhook-signature"] = ""
        case "other_version":
            headers["webhook-signature"] = headers["webhook-signature"].replace("v1,", "v9,")
        case "not_base64":
            headers["webhook-signature"] = "v1,***"
        case "words":
            headers["webhook-timestamp"] = "now"
        case "binary":
            body = b"\xff\xfe"
    return body, headers


FORGERIES = ["body", "id", "timestamp", "no_signature", "no_id", "no_timestamp", "empty", "other_version", "not_base64", "words", "binary"]


@pytest.mark.parametrize("change", FORGERIES)
@pytest.mark.parametrize("path", [f"/v1/recommendations/{ID}/acks", "/v1/outcomes"])
def test_what_was_signed_cannot_be_changed(url: str, ledger: Ledger, path: str, change: str) -> None:
    """Another body, id or time under a signature, or no whole signature, answers 401, stores nothing, and leaves the true call good."""
    body, headers = forged(change)
    answer = requests.post(url + path, data=body, headers={"Content-Type": "application/json", **headers}, timeout=10)
    assert (answer.status_code, answer.json()["error"]) == (401, "signature")
    assert (acks(ledger), ledger.database.query("select * from outcomes"), ledger.database.query("select * from calls")) == ([], [], [])


@pytest.mark.parametrize("off_s", [-301, 302])
def test_a_call_out_of_its_time_is_refused(post: Call, ledger: Ledger, off_s: int) -> None:
    """A signed call counts within five minutes of its timestamp, both ways; a recording is worth nothing later."""
    at_ns = SystemClock().now_ns()
    assert post(f"/v1/recommendations/{ID}/acks", ACK, wall_ns=at_ns + off_s * NS).status_code == 401
    assert acks(ledger) == []
    assert post(f"/v1/recommendations/{ID}/acks", ACK, wall_ns=at_ns + (240 if off_s > 0 else -240) * NS).status_code == 202


def test_an_id_counts_once_whatever_it_brings(post: Call, ledger: Ledger) -> None:
    """A second ack under a used id, signed as it is, changes nothing; the next id does."""
    assert post(f"/v1/recommendations/{ID}/acks", ACK).json()["status"] == "stored"
    assert post(f"/v1/recommendations/{ID}/acks", {**ACK, "state": "completed"}).json()["status"] == "known"
    assert post(f"/v1/recommendations/{ID}/acks", {**ACK, "state": "completed"}, webhook_id="msg_b").json()["status"] == "stored"
    assert [state for _, _, state, _ in acks(ledger)] == ["in_progress", "completed"]


def test_an_answer_that_comes_late_is_kept_and_moves_nothing(post: Call, ledger: Ledger) -> None:
    """An ack to what is resolved is stored for the record; it neither dismisses nor opens anything."""
    opened = ledger.open_recommendations()["n1"]
    event = OutboxEvent(id="msg_2", key="k", body=b"{}", expires_ns=2)
    audit = Audit(options={}, budget={}, facts={})
    over = Said(change="resolved", why="risk_cleared", memory=replace(opened, revision=2), body=b"{}", audit=audit, event=event)
    ledger.write(PassRecord(at_ns=5, said=[replace(over, resolution="risk_cleared")]), 5)
    assert ledger.open_recommendations() == {}

    operator = {"actor": {"kind": "operator", "name": "eve"}, "state": "rejected", "reason_code": "not_permitted"}
    assert post(f"/v1/recommendations/{ID}/acks", {**ACK, **operator}).status_code == 202

    assert acks(ledger) == [(ID, 1, "rejected", "slurm")]
    assert (ledger.open_recommendations(), standings(ledger.database), dismissed_since(ledger.database, 0)) == ({}, {}, {})


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({**ACK, "state": "rejected"}, "$.reason_code: required for state rejected"),
        ({**ACK, "at": "yesterday"}, "$.at: 'yesterday' is not a 'date-time'"),
        ({**ACK, "recommendation_id": "rec_other"}, "$.recommendation_id: not the one of the path"),
        (b"{", "Input data was truncated"),
        (b"[]", "$: [] is not of type 'object'"),
    ],
)
def test_broken_acks_are_refused(post: Call, ledger: Ledger, data: Any, problem: str) -> None:
    """An ack that breaks the contract answers 422 with the problem."""
    answer = post(f"/v1/recommendations/{ID}/acks", data)
    assert (answer.status_code, answer.json()["details"]) == (422, [problem])
    assert acks(ledger) == []


def test_acks_to_nothing(post: Call) -> None:
    """An ack to a recommendation or revision that was never said answers 404."""
    unknown = "rec_01K5Z8Q4D2N3W7R9T1V6X8Y0AD"
    assert post(f"/v1/recommendations/{unknown}/acks", {**ACK, "recommendation_id": unknown}).status_code == 404
    assert post(f"/v1/recommendations/{ID}/acks", {**ACK, "revision": 2}).status_code == 404


def test_foreign_cluster_is_refused(post: Call) -> None:
    """An outcome of another cluster answers 422."""
    assert post("/v1/outcomes", {**OUTCOME, "cluster": "dc2"}).json()["details"] == ["$.cluster: this is dc1"]


def test_the_future_is_refused(post: Call) -> None:
    """An outcome of tomorrow answers 422: a node cannot have failed yet."""
    assert post("/v1/outcomes", {**OUTCOME, "at": "2026-12-30T00:00:00Z"}).json()["details"] == ["$.at: lies in the future"]


def test_long_bodies_are_refused(post: Call) -> None:
    """A body above 64 KiB answers 413."""
    assert post("/v1/outcomes", {**OUTCOME, "detail": "x" * 70_000}).status_code == 413


def get(url: str) -> requests.Response:
    return requests.get(url, timeout=10)


def test_reconciling(url: str) -> None:
    """Whatever is open can be read again, all of it or one."""
    assert get(f"{url}/v1/recommendations?open=true").json() == {"recommendations": [{"recommendation_id": "x"}]}
    assert get(f"{url}/v1/recommendations/{ID}").json() == {"recommendation_id": "x"}
    assert get(f"{url}/v1/recommendations/rec_none").status_code == 404
    assert get(f"{url}/v1/recommendations?open=false").status_code == 422


def test_health_and_metrics(url: str) -> None:
    """Health, readiness and metrics answer."""
    assert [get(url + path).status_code for path in ("/healthz", "/readyz")] == [200, 200]
    assert "forewarn_acks_total" in get(f"{url}/metrics").text
