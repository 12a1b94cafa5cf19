"""Deliver events at least once: signed, in order per key, retried with full jitter until they expire, never redirected.

Two clocks: an event expires by fleet time; back-off, time-outs and signature timestamps go by wall time.

    2xx                                 done: stored by the consumer, which says nothing about the action
    410                                 the endpoint is gone: disabled, everything for it is dead
    400 401 403 404 413 415 422         permanent: dead at once
    429 503                             retried, not before Retry-After
    else, time-out, connection error    retried with back-off
    5 failures in a row                 the breaker opens for 30 s, then one probe
"""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import requests
import structlog

from alerting.database import Database
from alerting.events import CONTENT_TYPE
from alerting.metrics import DEAD, DELIVERIES, EXPIRED, FAILURES, OLDEST
from alerting.outbox import Outbox, Parcel
from alerting.signature import sign
from ingest.clock import NS, Clock, SystemClock, ns_of

GONE = 410
PERMANENT = frozenset({400, 401, 403, 404, 413, 415, 422})
log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A consumer: where events go and which secrets sign them, newest first."""

    name: str
    url: str
    secrets: Sequence[str]
    certificate: str | None = None  # client certificate and key, PEM, for mutual TLS
    authority: str | bool = True  # certificate authority file


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How deliveries wait."""

    timeout_s: float = 15.0
    first_s: float = 1.0
    longest_s: float = 60.0
    breaker_failures: int = 5
    breaker_s: float = 30.0
    idle_s: float = 0.5
    workers: int = 4  # attempts at once, each of another key


class Breaker:
    """Stop attempts after failures in a row; after a pause let one probe through."""

    def __init__(self, failures: int, pause_s: float) -> None:
        self._failures = failures
        self._pause_ns = int(pause_s * NS)
        self._in_a_row = 0
        self._opens_at_ns = 0

    def allows(self, wall_ns: int) -> int:
        """Tell how many attempts may start now: 0 while open, 1 for the probe, else many."""
        if self._in_a_row < self._failures:
            return 1_000
        return int(wall_ns >= self._opens_at_ns)

    def note(self, is_ok: bool, wall_ns: int) -> None:
        """Note the result of an attempt."""
        self._in_a_row = 0 if is_ok else self._in_a_row + 1
        self._opens_at_ns = wall_ns + self._pause_ns


@dataclass(frozen=True)
class Answer:
    """What came of one attempt: a status code, or the name of what went wrong."""

    code: int | None
    error: str = ""
    retry_after_s: float = 0.0

    @property
    def label(self) -> str:
        """Name for metrics and the outbox."""
        return str(self.code) if self.code is not None else self.error


class Delivery:
    """The sender of one endpoint's outbox; `run` in a thread of its own, or `deliver_due` once."""

    def __init__(
        self,
        database: Database,
        endpoint: Endpoint,
        *,
        clock: Clock,
        patience: Patience | None = None,
        wall: Clock | None = None,
        jitter: random.Random | None = None,
    ) -> None:
        self.outbox = Outbox(database, endpoint.name)
        self._endpoint = endpoint
        self._clock = clock
        self._wall = wall or SystemClock()
        self._patience = patience or Patience()
        self._jitter = jitter or random.Random()  # noqa: S311  # back-off, not secrecy
        self._breaker = Breaker(self._patience.breaker_failures, self._patience.breaker_s)
        self._workers = ThreadPoolExecutor(self._patience.workers, thread_name_prefix=f"webhook-{endpoint.name}")
        self._lock = threading.Lock()  # guards the breaker and what is under way
        self._under_way: set[int] = set()
        self._landed = threading.Event()

    def run(self, stop: threading.Event) -> None:
        """Deliver until told to stop; what is pending then is picked up by the next run."""
        attempts: list[Future[None]] = []
        while not stop.is_set():
            self._landed.clear()
            try:
                attempts = self._look_after(attempts)
                attempts += self._start_due()
            except Exception as error:  # noqa: BLE001  # what befalls one look must not end the delivery
                self._tell_failure(error)
            self._landed.wait(self._patience.idle_s)
        self.close()

    def close(self) -> None:
        """Wait for attempts under way."""
        self._workers.shutdown()

    def deliver_due(self) -> int:
        """Attempt every event that is due, one per key, and wait for the answers; give how many were attempted."""
        started = self._start_due()
        for attempt in started:
            attempt.result()
        return len(started)

    def _start_due(self) -> list[Future[None]]:
        self._bury_expired()
        self._measure()
        wall_ns = self._wall.now_ns()
        with self._lock:
            flying = set(self._under_way)
            allowed = min(self._breaker.allows(wall_ns), self._patience.workers) - len(flying)
        if allowed <= 0 or self.outbox.is_disabled:
            return []
        parcels = [parcel for parcel in self.outbox.due(wall_ns, allowed + len(flying)) if parcel.seq not in flying][:allowed]
        with self._lock:
            self._under_way.update(parcel.seq for parcel in parcels)
        return [self._workers.submit(self._attempt, parcel) for parcel in parcels]

    def _bury_expired(self) -> None:
        for parcel in self.outbox.expired(self._clock.now_ns()):
            if parcel.seq not in self._under_way:
                self._give_up(parcel, "expired")
                EXPIRED.labels(self._endpoint.name).inc()

    def _look_after(self, attempts: list[Future[None]]) -> list[Future[None]]:
        """Tell what went wrong in attempts that have ended, once, and keep those under way."""
        for attempt in attempts:
            if attempt.done() and (error := attempt.exception()):
                self._tell_failure(error)
        return [attempt for attempt in attempts if not attempt.done()]

    def _tell_failure(self, error: BaseException) -> None:
        FAILURES.labels(self._endpoint.name, type(error).__name__).inc()
        log.error("webhook_delivery_failed", endpoint=self._endpoint.name, error=str(error), exc_info=error)

    def _attempt(self, parcel: Parcel) -> None:
        try:
            self._settle(parcel, self._send(parcel))
        except BaseException:  # the event comes again: not at once, where what it met cannot be written down
            with self._lock:
                self._breaker.note(False, self._wall.now_ns())
            raise
        finally:
            with self._lock:
                self._under_way.discard(parcel.seq)
            self._landed.set()

    def _send(self, parcel: Parcel) -> Answer:
        headers = sign(self._endpoint.secrets, parcel.id, self._wall.now_ns(), parcel.body)
        try:
            response = requests.post(
                self._endpoint.url,
                data=parcel.body,
                headers={"Content-Type": CONTENT_TYPE, **headers},
                timeout=self._patience.timeout_s,
                allow_redirects=False,
                cert=self._endpoint.certificate,
                verify=self._endpoint.authority,
            )
        except requests.Timeout:
            return Answer(None, "timeout")
        except requests.RequestException as error:
            return Answer(None, type(error).__name__.lower())
        return Answer(response.status_code, retry_after_s=self._retry_after_s(response))

    def _retry_after_s(self, response: requests.Response) -> float:
        text = response.headers.get("Retry-After", "").strip()
        if text.isdigit():
            return float(text)
        try:
            return max(0.0, (ns_of(parsedate_to_datetime(text)) - self._wall.now_ns()) / NS) if text else 0.0
        except ValueError:
            return 0.0

    def _settle(self, parcel: Parcel, answer: Answer) -> None:
        DELIVERIES.labels(self._endpoint.name, answer.label).inc()
        is_ok = answer.code is not None and 200 <= answer.code < 300
        is_permanent = answer.code in PERMANENT or answer.code == GONE
        if is_ok:
            self.outbox.done(parcel, answer.label, self._wall.now_ns())
        elif answer.code == GONE:
            buried = self.outbox.disable("gone (410)", self._wall.now_ns())
            DEAD.labels(self._endpoint.name, "gone").inc(buried)
            log.error("webhook_endpoint_gone", endpoint=self._endpoint.name, dead=buried)
        elif is_permanent:
            self._give_up(parcel, answer.label)
        else:
            self.outbox.retry(parcel, answer.label, self._wall.now_ns() + int(self._wait_s(parcel, answer) * NS))
        with self._lock:
            self._breaker.note(is_ok or is_permanent, self._wall.now_ns())

    def _wait_s(self, parcel: Parcel, answer: Answer) -> float:
        patience = self._patience
        longest = min(patience.longest_s, patience.first_s * 2 ** min(parcel.attempts, 30))
        return max(answer.retry_after_s, self._jitter.uniform(0.0, longest))

    def _give_up(self, parcel: Parcel, why: str) -> None:
        self.outbox.dead(parcel, why)
        DEAD.labels(self._endpoint.name, why).inc()
        log.error("webhook_event_dead", endpoint=self._endpoint.name, event_id=parcel.id, key=parcel.key, reason=why)

    def _measure(self) -> None:
        oldest = self.outbox.oldest_wall_ns()
        OLDEST.labels(self._endpoint.name).set((self._wall.now_ns() - oldest) / NS if oldest else 0.0)
