"""Deliveries over a real socket: signed, in order, retried, expired, given up as the answers say."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from alerting.delivery import Breaker, Delivery, Endpoint, Patience
from alerting.ledger import Ledger, OutboxEvent
from alerting.signature import sign, signer
from ingest.clock import NS, ManualClock, SystemClock

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OLD_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
FAR = 10**19 // 2
Put = Callable[..., None]
Deliveries = Callable[..., Delivery]


@pytest.fixture
def put(ledger: Ledger) -> Put:
    """Put an event into the outbox of the endpoint `scheduler`."""
    sql = "insert into outbox (id, endpoint, key, body, created_wall_ns, expires_ns, next_wall_ns) values (?, 'scheduler', ?, ?, ?, ?, 0)"

    def insert(event: OutboxEvent, age_days: float) -> None:
        written_ns = SystemClock().now_ns() - int(age_days * 86_400 * NS)
        with ledger.database.transaction() as connection:
            connection.execute(sql, (event.id, event.key, event.body, written_ns, event.expires_ns))

    def put(event_id: str, key: str = "k", expires_ns: int = FAR, age_days: float = 0.0) -> None:
        insert(OutboxEvent(id=event_id, key=key, body=f'{{"id":"{event_id}"}}'.encode(), expires_ns=expires_ns), age_days)

    return put


@pytest.fixture
def deliveries(ledger: Ledger, consumer: Any, clock: ManualClock) -> Iterator[Deliveries]:
    made: list[Delivery] = []

    def make(url: str = consumer.url, secrets: tuple[str, ...] = (SECRET,), wall: Any = None, **patience: Any) -> Delivery:
        fast = Patience(**{"timeout_s": 0.5, "first_s": 0.01, "longest_s": 0.02, "idle_s": 0.02, **patience})
        endpoint = Endpoint(name="scheduler", url=url, secrets=secrets)
        made.append(Delivery(ledger.database, endpoint, clock=clock, patience=fast, wall=wall, jitter=random.Random(7)))
        return made[-1]

    yield make
    for delivery in made:
        delivery.close()


def drain(delivery: Delivery, timeout_s: float = 20.0) -> None:
    """Deliver until nothing is pending."""
    stop, idle = threading.Event(), threading.Event()
    thread = threading.Thread(target=delivery.run, args=(stop,))
    thread.start()
    deadline = SystemClock().now_ns() + int(timeout_s * NS)
    while delivery.outbox.counts().get("pending") and SystemClock().now_ns() < deadline:
        idle.wait(0.02)
    stop.set()
    thread.join()
    assert not delivery.outbox.counts().get("pending"), "still pending"


def ids(consumer: Any) -> list[str]:
    return [headers["webhook-id"] for headers, _ in consumer.received]


def last(ledger: Ledger) -> list[tuple[str, str, int, str]]:
    return ledger.database.query("select id, state, attempts, last from outbox order by seq")


def test_signed_for_anybodys_library(put: Put, deliveries: Deliveries, consumer: Any) -> None:
    """The reference library verifies what arrives: the exact bytes, id and type, and refuses a changed body."""
    put("msg_1")
    assert deliveries().deliver_due() == 1
    ((headers, body),) = consumer.received
    assert Webhook(SECRET).verify(body, headers) == {"id": "msg_1"}
    assert (headers["Content-Type"], headers["webhook-id"]) == ("application/cloudevents+json", "msg_1")
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(body + b" ", headers)


@pytest.mark.parametrize("known", [SECRET, OLD_SECRET])
def test_rotation(put: Put, deliveries: Deliveries, consumer: Any, known: str) -> None:
    """While secrets rotate, a consumer that knows either one verifies."""
    put("msg_1")
    deliveries(secrets=(SECRET, OLD_SECRET)).deliver_due()
    ((headers, body),) = consumer.received
    assert Webhook(known).verify(body, headers)


def test_order_within_a_key_only(put: Put, deliveries: Deliveries, consumer: Any) -> None:
    """An event waits for the older one of its key; other keys overtake it."""
    consumer.script = [503]
    put("a1", "a")
    put("a2", "a")
    put("b1", "b")
    delivery = deliveries(workers=1)
    drain(delivery)
    sent = ids(consumer)
    assert [one for one in sent if one.startswith("a")] == ["a1", "a1", "a2"]
    assert set(sent) == {"a1", "a2", "b1"}


def test_a_hanging_target_blocks_no_other(put: Put, deliveries: Deliveries, consumer: Any) -> None:
    """While one key's delivery hangs, another key's arrives."""
    consumer.script = ["hang"]
    put("slow", "a")
    delivery = deliveries(timeout_s=15.0)
    stop = threading.Event()
    thread = threading.Thread(target=delivery.run, args=(stop,))
    thread.start()
    deadline = SystemClock().now_ns() + 10 * NS
    while not consumer.received and SystemClock().now_ns() < deadline:
        stop.wait(0.01)
    put("fast", "b")
    while delivery.outbox.counts().get("done") != 1 and SystemClock().now_ns() < deadline:
        stop.wait(0.01)
    assert ids(consumer) == ["slow", "fast"]
    consumer.release.set()
    stop.set()
    thread.join()


def test_retries_until_stored(put: Put, deliveries: Deliveries, consumer: Any, ledger: Ledger) -> None:
    """A 503, a 500, a redirect, a hang and an answer lost after commit are tried again with the same id and a fresh signature."""
    consumer.script = [503, 500, 302, "hang", "lost"]
    put("msg_1")
    drain(deliveries(breaker_failures=100))
    assert ids(consumer) == ["msg_1"] * 6
    assert last(ledger) == [("msg_1", "done", 6, "202")]


def test_what_was_stored_long_ago_is_forgotten(put: Put, deliveries: Deliveries, consumer: Any, ledger: Ledger) -> None:
    """An event of a month ago leaves the outbox with the next one that is stored; one that was given up stays for a person to read."""
    consumer.script = [400]
    for number, age_days in enumerate((32, 31, 29)):
        put(f"msg_{number}", age_days=age_days)
        drain(deliveries())
    assert [(id_, state) for id_, state, _, _ in last(ledger)] == [("msg_0", "dead"), ("msg_2", "done")]


@pytest.mark.parametrize("code", [400, 401, 403, 404, 413, 415, 422])
def test_permanent_answers(put: Put, deliveries: Deliveries, consumer: Any, ledger: Ledger, code: int) -> None:
    """An answer that will not change buries the event at once, and the next of its key goes on."""
    consumer.script = [code]
    put("msg_1")
    put("msg_2")
    drain(deliveries())
    assert last(ledger) == [("msg_1", "dead", 1, str(code)), ("msg_2", "done", 1, "202")]


def test_gone_disables_the_endpoint(put: Put, deliveries: Deliveries, consumer: Any, ledger: Ledger) -> None:
    """410 disables the endpoint, over restarts, until somebody enables it; new events are not queued for it meanwhile."""
    consumer.script = [410]
    put("msg_1", "a")
    put("msg_2", "b")
    delivery = deliveries(workers=1)
    delivery.deliver_due()
    assert [state for _, state, _, _ in last(ledger)] == ["dead", "dead"]
    put("msg_3", "c")
    assert deliveries().deliver_due() == 0
    delivery.outbox.enable()
    assert deliveries().deliver_due() == 1


def test_retry_after_is_honoured(put: Put, deliveries: Deliveries, consumer: Any, ledger: Ledger) -> None:
    """429 with Retry-After waits at least so long."""
    wall = ManualClock(SystemClock().now_ns())
    consumer.script, consumer.headers = [429], {"Retry-After": "7"}
    put("msg_1")
    delivery = deliveries(wall=wall)
    assert delivery.deliver_due() == 1
    wall.advance(6.9)
    assert delivery.deliver_due() == 0
    wall.advance(0.2)
    assert delivery.deliver_due() == 1


def test_expired_events_are_not_sent(put: Put, deliveries: Deliveries, consumer: Any, clock: ManualClock, ledger: Ledger) -> None:
    """An event whose fleet time is over is buried without an attempt, also between two attempts."""
    put("msg_1", "a", expires_ns=clock.now_ns())
    put("msg_2", "b", expires_ns=clock.now_ns() + 60 * NS)
    consumer.script = [503]
    delivery = deliveries()
    delivery.deliver_due()
    clock.advance(60)
    delivery.deliver_due()
    assert [(one, state, why) for one, state, _, why in last(ledger)] == [("msg_1", "dead", "expired"), ("msg_2", "dead", "expired")]
    assert ids(consumer) == ["msg_2"]


def test_refused_connection_is_retried(put: Put, deliveries: Deliveries, ledger: Ledger) -> None:
    """Nobody listens: pending, with the reason."""
    put("msg_1")
    deliveries(url="http://127.0.0.1:9/webhook").deliver_due()
    assert last(ledger) == [("msg_1", "pending", 1, "connectionerror")]


def test_back_off_is_full_jitter(put: Put, deliveries: Deliveries, consumer: Any, ledger: Ledger) -> None:
    """The wait after the n-th attempt lies between 0 and min(60 s, 1 s x 2^n)."""
    wall = ManualClock(SystemClock().now_ns())
    consumer.script = [500] * 12
    put("msg_1")
    delivery = deliveries(wall=wall, first_s=1.0, longest_s=60.0, breaker_failures=1000)
    waits = []
    for _ in range(12):
        assert delivery.deliver_due() == 1
        ((next_ns,),) = ledger.database.query("select next_wall_ns from outbox")
        waits.append((next_ns - wall.now_ns()) / NS)
        wall.advance(60)
    assert all(0 <= wait <= min(60, 2**attempt) for attempt, wait in enumerate(waits))
    assert max(waits) > 20


def test_breaker() -> None:
    """Five failures in a row stop attempts for 30 s, then one probe at a time; a success closes it."""
    breaker = Breaker(5, 30.0)
    for _ in range(5):
        assert breaker.allows(0) > 1
        breaker.note(False, 0)
    assert (breaker.allows(29 * NS), breaker.allows(30 * NS)) == (0, 1)
    breaker.note(False, 30 * NS)
    assert (breaker.allows(31 * NS), breaker.allows(60 * NS)) == (0, 1)
    breaker.note(True, 60 * NS)
    assert breaker.allows(60 * NS) > 1


def test_breaker_spares_a_failing_endpoint(put: Put, deliveries: Deliveries, consumer: Any) -> None:
    """A consumer that fails is left alone, however many events wait."""
    wall = ManualClock(SystemClock().now_ns())
    consumer.script = [500] * 100
    for number in range(20):
        put(f"msg_{number}", f"k{number}")
    delivery = deliveries(wall=wall, workers=1, first_s=0.0)
    for _ in range(20):
        delivery.deliver_due()
    assert len(consumer.received) == 5
    wall.advance(30)
    for _ in range(5):
        delivery.deliver_due()
    assert len(consumer.received) == 6


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"webhook-id": "m", "webhook-timestamp": "x", "webhook-signature": "v1,aaaa"},
        {"webhook-id": "m", "webhook-timestamp": "1", "webhook-signature": "v1,aaaa"},
        {"webhook-id": "m", "webhook-timestamp": str(SystemClock().now_ns() // NS), "webhook-signature": "nonsense"},
    ],
)
def test_forged_signatures(headers: dict[str, str]) -> None:
    """Missing, malformed, old and wrong signatures are nobody's."""
    assert signer({"ops": [SECRET]}, headers, b"{}") is None


def test_the_secret_names_the_consumer() -> None:
    """Each consumer has a secret of its own, which tells who calls."""
    headers = sign([OLD_SECRET], "m", SystemClock().now_ns(), b"{}")
    assert signer({"ops": [SECRET], "slurm": [OLD_SECRET]}, headers, b"{}") == "slurm"
    assert signer({"ops": [SECRET]}, headers, b"{}") is None
