"""The way from a spool to a bus that is elsewhere: one thread that publishes in order and releases what was acknowledged."""

from __future__ import annotations

import threading
import time

import structlog

from ingest.bus import Publisher
from ingest.errors import BusUnavailable
from ingest.messages import decode
from ingest.metrics import PUBLISH_FAILURES, PUBLISH_REFUSED, PUBLISHED
from ingest.spool import Spool, Spooled

_BATCH = 500  # small enough that an event waits for less than a second behind it
_FIRST_BACKOFF_S, _LAST_BACKOFF_S = 0.5, 15.0
_log = structlog.get_logger()


class Pump:
    """Publishes whatever a spool holds, for as long as it runs; what is not acknowledged stays in the spool."""

    def __init__(self, spool: Spool, publisher: Publisher) -> None:
        self._spool = spool
        self._publisher = publisher
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pump", daemon=True)

    def start(self) -> None:
        """Begin with the oldest message that was not released."""
        self._spool.rewind()
        self._thread.start()

    def stop(self, flush_s: float) -> None:
        """Publish what is there for at most `flush_s` of wall time, then leave."""
        deadline = time.monotonic() + flush_s
        self._stopping.set()
        self._thread.join(max(0.0, deadline - time.monotonic()))
        self._publisher.close()

    def pass_on(self, timeout_s: float) -> int:
        """Publish one batch, waiting for at most `timeout_s` for something to publish, and say how many messages it had."""
        self._spool.wait(timeout_s)
        messages = self._spool.take(_BATCH)
        if not messages:
            return 0
        try:
            refusals = self._publisher.publish(messages)
        except BusUnavailable:
            self._spool.rewind()
            raise
        for refusal in refusals:
            self._refuse(*refusal)
        self._release(messages)
        return len(messages)

    def _refuse(self, message: Spooled, reason: str, is_final: bool) -> None:
        _log.error("message_refused", reason=reason, table=message.table, node=message.node, bytes=len(message.body), is_final=is_final)
        if is_final:
            PUBLISH_REFUSED.labels(reason).inc(message.rows)
        else:
            self._spool.put(message.table, message.node, decode(message.body).rows)

    def _release(self, messages: list[Spooled]) -> None:
        last = {message.lane: message for message in messages}
        for message in last.values():
            self._spool.release(message)
        for message in messages:
            PUBLISHED.labels(message.table).inc()

    def _run(self) -> None:
        backoff_s = _FIRST_BACKOFF_S
        while True:
            is_stopping = self._stopping.is_set()
            try:
                count = self.pass_on(0.0 if is_stopping else 0.5)
                backoff_s = _FIRST_BACKOFF_S
            except Exception as error:  # noqa: BLE001  # the pump outlives what befalls the bus
                PUBLISH_FAILURES.labels(type(error).__name__).inc()
                _log.warning("publish_failed", error=f"{type(error).__name__}: {error}", retry_s=backoff_s)
                self._stopping.wait(backoff_s)
                backoff_s = min(_LAST_BACKOFF_S, backoff_s * 2)
                count = 0
            if is_stopping and not count:
                return
