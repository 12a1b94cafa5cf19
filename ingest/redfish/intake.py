"""Take what a BMC says in, whichever way it came: decode it, drop what was said before, count the rest, queue it."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import structlog

from ingest.clock import NS, Clock
from ingest.errors import RecordRejected
from ingest.metrics import REDFISH_FORGOTTEN, REDFISH_PAYLOADS, REDFISH_REJECTED, REDFISH_ROWS, REDFISH_SKEW
from ingest.redfish.events import decode_event, event_key
from ingest.redfish.history import History
from ingest.redfish.mode import ReportMode
from ingest.redfish.outbox import Outbox
from ingest.redfish.payloads import Body, Payload, read_json, sort_payload
from ingest.redfish.replay import Replay
from ingest.redfish.reports import Decoded, Machine, decode_report
from ingest.redfish.sensors import SensorFacts
from ingest.schema import Event
from ingest.xid import Catalogue

EVENT_BYTES = 1024
MOST_STRANGERS = 1000  # who come later are asked later
_SKEW_WEIGHT = 0.1
_COUNTED_BUT_KEPT = ("nonconforming", "unmapped")
_Read = TypeVar("_Read")
_log = structlog.get_logger()


class Intake:
    """The way of one BMC's payloads into its outbox; `modes` hears which reports came over the stream."""

    def __init__(self, node: str, *, clock: Clock, outbox: Outbox, catalogue: Catalogue) -> None:
        self.machine = Machine(node)
        self.modes: dict[str, ReportMode] = {}
        self._clock = clock
        self._catalogue = catalogue
        self._outbox = outbox
        self._history = History()
        self._skew_s: float | None = None
        self._has_failed = False
        self.strangers: set[str] = set()  # paths of sensors whose resource has to tell what they measure

    async def take_payload(self, data: bytes, replay: Replay | None = None) -> Payload:
        """Take one payload of the stream; what is not JSON is counted and the stream goes on."""
        payload = self._understand(lambda: sort_payload(read_json(data)))
        if payload is None:
            return Payload()
        count_rejections(payload.counts)
        if replay is not None and (payload.records or payload.references):
            payload.is_live = replay.is_over_at(asyncio.get_running_loop().time() - self._outbox.paused_s)
        for body in payload.reports:
            decoded = await self.take_report(body, len(data))
            if decoded is not None and (mode := self.modes.get(decoded.report)):
                mode.heard(self._clock.now_ns(), asyncio.get_running_loop().time())
        for record in payload.records:
            await self.take_event(record, is_live=payload.is_live)
        return payload

    async def take_report(self, body: Body, size: int) -> Decoded | None:
        """Take a report; `readings` of the result are those that are new."""
        now_ns = self._clock.now_ns()
        REDFISH_PAYLOADS.labels("report").inc()
        decoded = self._understand(lambda: decode_report(body, machine=self.machine, received_at_ns=now_ns))
        if decoded is None:
            return None
        count_rejections(decoded.counts)
        if decoded.failure is not None:
            self._say_failure(decoded.failure)
        self._note_skew(decoded, now_ns)
        mode = self.modes.get(decoded.report)
        news = self._history.take(decoded.report, decoded.readings, has_gaps=mode is not None and mode.report.has_gaps)
        self._note_strangers(decoded)
        REDFISH_ROWS.labels("fresh").inc(len(news.fresh))
        REDFISH_ROWS.labels("known").inc(len(decoded.readings) - len(news.fresh))
        REDFISH_ROWS.labels("gone").inc(len(news.gone))
        REDFISH_FORGOTTEN.inc(news.forgotten)
        told = news.fresh + news.gone
        await self._outbox.put(told, size)
        return Decoded(decoded.report, told, decoded.counts)

    async def take_event(self, record: Body, *, is_live: bool = False) -> None:
        """Take an event record unless it was taken before; `is_live` claims that it has just happened."""
        REDFISH_PAYLOADS.labels("event").inc()
        found = self._understand(lambda: self._decode_event(record, is_live))
        if found:
            await self._outbox.put(found, EVENT_BYTES, joins=True)
        elif found is not None:
            REDFISH_ROWS.labels("known").inc()

    def _decode_event(self, record: Body, is_live: bool) -> list[Event]:
        if not self._history.is_new_event(event_key(record)):
            return []
        at_ns = self._clock.now_ns()
        return [decode_event(record, machine=self.machine, received_at_ns=at_ns, catalogue=self._catalogue, is_live=is_live)]

    def learn_sensor(self, path: str, facts: SensorFacts) -> None:
        """Remember what a sensor says about itself."""
        self.strangers.discard(path)
        self.machine = replace(self.machine, sensors={**self.machine.sensors, path: facts})

    def _understand(self, read: Callable[[], _Read]) -> _Read | None:
        """Read what came; what cannot be read, foreseen or not, is counted and costs nothing else."""
        try:
            return read()
        except RecordRejected as rejection:
            count_rejections(Counter({rejection.reason: 1}))
        except Exception:  # noqa: BLE001  # a record that no rule foresaw must not end the watch of its BMC, again and again
            count_rejections(Counter({"internal_error": 1}))
            self._say_failure(traceback.format_exc())
        return None

    def _say_failure(self, trace: str) -> None:
        """Log the first failure of ours; the metric counts the others."""
        if not self._has_failed:
            self._has_failed = True
            _log.error("redfish_reading_failed", node=self.machine.node, traceback=trace)

    def _note_strangers(self, decoded: Decoded) -> None:
        for reading in decoded.readings:
            is_stranger = reading.quantity == "raw" and "/Sensors/" in reading.sensor and reading.sensor not in self.machine.sensors
            if is_stranger and len(self.strangers) < MOST_STRANGERS:
                self.strangers.add(reading.sensor.partition("#")[0])

    def _note_skew(self, decoded: Decoded, now_ns: int) -> None:
        """Follow how far the BMC's clock is behind; the data are not corrected by it."""
        newest_ns = max((reading.observed_at_ns for reading in decoded.readings if reading.time_quality is None), default=None)
        if newest_ns is None:
            return
        skew_s = (now_ns - newest_ns) / NS
        self._skew_s = skew_s if self._skew_s is None else self._skew_s + _SKEW_WEIGHT * (skew_s - self._skew_s)
        REDFISH_SKEW.labels(self.machine.node).set(self._skew_s)


def count_rejections(counts: Counter[str]) -> None:
    """Count what did not become a row, by reason, and what did although it was odd."""
    for reason, count in counts.items():
        if count:
            (REDFISH_ROWS if reason in _COUNTED_BUT_KEPT else REDFISH_REJECTED).labels(reason).inc(count)
