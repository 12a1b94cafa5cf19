"""The polls of one BMC: one request at a time, each report at a period of its own, the next cycle being the only retry."""

from __future__ import annotations

import asyncio
import random
import re
from dataclasses import dataclass, replace

import structlog

from ingest.clock import NS, Clock
from ingest.metrics import REDFISH_REFUSED, REDFISH_REJECTED
from ingest.redfish.browse import Getter
from ingest.redfish.identity import ROOT
from ingest.redfish.intake import Intake
from ingest.redfish.logs import LogReader
from ingest.redfish.mode import Mode, ReportMode
from ingest.redfish.outcomes import Outcome, Refused
from ingest.redfish.payloads import Body
from ingest.redfish.reports import Decoded
from ingest.redfish.resources import SensorReader, read_facts, read_resources
from ingest.redfish.service import Report, Service

SENSORS, RESOURCES, LOGS = "Sensors", "Resources", "Logs"  # read apart from reports, each like a report
_APART_PERIODS_S = {SENSORS: 60.0, RESOURCES: 300.0, LOGS: 60.0}
DEFAULT_PERIOD_S = 60.0
REFERENCE_DELAYS_S = (0.0, 2.0, 10.0)
MOST_REFERENCES = 2000  # that wait to be fetched
CHECK_S = 5.0  # wall seconds between looks at streamed reports that may have fallen silent
MOST_FAILURES = 3  # in a row, while a stream delivers
_PERIODS = tuple(
    (re.compile(pattern), period_s)
    for pattern, period_s in (
        (r"PortGPM|GPM", 10.0),
        (r"Port", 60.0),
        (r"Reset|Health|Retimer", 30.0),
        (r"PlatformEnvironment|PlatformMetrics|Processor|Memory|NVSwitch", 10.0),
    )
)
_FINAL = (Outcome.NOT_LICENSED, Outcome.FORBIDDEN, Outcome.NOT_OFFERED)
_MOST_SLOWDOWNS = 16.0
_log = structlog.get_logger()


def period_of(report: Report) -> float:
    """Propose the seconds between two reads of a report, by its kind; never faster than it is made."""
    if report.name in _APART_PERIODS_S:
        return _APART_PERIODS_S[report.name]
    named = next((period_s for pattern, period_s in _PERIODS if pattern.search(report.name)), DEFAULT_PERIOD_S)
    return max(named, report.recurrence_s or 0.0)


@dataclass(frozen=True)
class _Reference:
    path: str
    attempt: int
    due_s: float
    is_live: bool


class Polls:
    """Reads of one BMC."""

    def __init__(
        self,
        bmc: Getter,
        intake: Intake,
        *,
        clock: Clock,
        rng: random.Random,
        least_period_s: float,
        service: Service,
        logs: LogReader,
        check_s: float = CHECK_S,
    ) -> None:
        self._bmc = bmc
        self._intake = intake
        self._clock = clock
        self._rng = rng
        self._least_period_s = least_period_s
        self._service = service
        self._check_s = check_s
        self._sensors = SensorReader(service.sensor_collections, can_expand=service.can_expand)
        self._logs = logs
        self.has_been_round = False  # every report was asked for once
        self._has_stream = False
        self._untold_since_ns = clock.now_ns()  # events from then on have to come from the logs
        self._took_s = 0.0
        self._due_ns: dict[str, int] = {}
        self._slowdown: dict[str, float] = {}
        self._references: list[_Reference] = []
        self._failures = 0
        self._wake = asyncio.Event()

    def stream_is(self, *, is_open: bool) -> None:
        """Note whether an open stream tells events, so that logs need not be read."""
        if self._has_stream and not is_open:
            self._untold_since_ns = self._clock.now_ns()
        self._has_stream = is_open

    def catch_up(self) -> None:
        """Read every streamed report once, soon: streams do not replay telemetry."""
        for name, mode in self._intake.modes.items():
            if mode.mode is Mode.STREAM and mode.report.is_logged:
                self._due_ns[name] = 0
        self._wake.set()

    def fetch(self, path: str, *, is_live: bool) -> None:
        """Fetch an event record that came as a mere reference, and again a little later if it is not there yet."""
        if len(self._references) >= MOST_REFERENCES:
            REDFISH_REJECTED.labels("too_many_references").inc()
            return
        self._references.append(_Reference(path, 0, asyncio.get_running_loop().time() + REFERENCE_DELAYS_S[0], is_live))
        self._wake.set()

    async def run(self) -> None:
        """Poll until cancelled; raises Refused when the BMC cannot be reached or lets nobody in."""
        while True:
            for mode in list(self._intake.modes.values()):
                await self._attend(mode)
            self.has_been_round = True
            await self._resolve_references()
            await self._ask_stranger()
            await self._rest()

    async def _attend(self, mode: ReportMode) -> None:
        loop = asyncio.get_running_loop()
        now_ns = self._clock.now_ns()
        if mode.is_silent(now_ns, loop.time()):
            decoded = await self._read(mode) if mode.report.is_logged else None
            mode.checked(has_news=bool(decoded and decoded.readings), now_ns=self._clock.now_ns(), wall_s=loop.time())
        elif self._is_due(mode, now_ns):
            await self._read(mode)

    def _is_due(self, mode: ReportMode, now_ns: int) -> bool:
        due_ns = self._due_ns.get(mode.report.name)
        if due_ns is None and (mode.mode is Mode.POLL or self._is_first_asked(mode)):
            self._due_ns[mode.report.name] = due_ns = now_ns  # a report that is polled from now on
        return due_ns is not None and now_ns >= due_ns

    def _is_first_asked(self, mode: ReportMode) -> bool:
        """Tell whether a report that is to come by itself has to be fetched: its first values need not wait for the stream's turn."""
        return not self.has_been_round and mode.mode is Mode.TRIAL and mode.report.is_logged

    async def _read(self, mode: ReportMode) -> Decoded | None:
        """Read one report and set when it is due again."""
        self._took_s = 0.0
        try:
            decoded = await self._take(mode.report)
            self._failures = 0
            mode.answered(self._clock.now_ns())
        except Refused as refused:
            REDFISH_REFUSED.labels(str(refused.outcome)).inc()
            if self._is_fatal(refused):
                raise
            mode.refused(refused.state, is_final=refused.outcome in _FINAL, now_ns=self._clock.now_ns())
            return None
        else:
            return decoded
        finally:
            self._plan(mode)

    def _is_fatal(self, refused: Refused) -> bool:
        """Tell whether to give up; one slow answer must not cost a stream that delivers."""
        if refused.outcome is Outcome.UNAUTHORIZED:
            return True
        self._failures += refused.outcome is Outcome.UNREACHABLE
        streams = any(mode.mode is Mode.STREAM for mode in self._intake.modes.values())
        return self._failures >= (MOST_FAILURES if streams else 1)

    async def _take(self, report: Report) -> Decoded | None:
        if report.name == LOGS:
            await self._take_logs()
            return None
        started_s = asyncio.get_running_loop().time()
        body = await self._body(report)
        self._took_s = asyncio.get_running_loop().time() - started_s
        return await self._intake.take_report(body, _size(body))

    async def _take_logs(self) -> None:
        if not self._has_stream:
            for record in await self._logs.read(self._bmc, self._service.log_paths, since_ns=self._untold_since_ns):
                await self._intake.take_event(record)

    async def _body(self, report: Report) -> Body:
        if report.name == SENSORS:
            body, facts = await self._sensors.read(self._bmc)
            for path, told in facts.items():
                self._intake.learn_sensor(path, told)
            return body
        if report.name == RESOURCES:
            return await read_resources(self._bmc, self._service.resource_paths)
        return await self._bmc.get(report.path)

    async def _ask_stranger(self) -> None:
        """Ask one sensor that no table knows what it measures."""
        if self._intake.strangers:
            path = min(self._intake.strangers)
            self._intake.learn_sensor(path, await read_facts(self._bmc, ROOT + path))

    def _plan(self, mode: ReportMode) -> None:
        """Set when a report is due again."""
        name = mode.report.name
        if mode.mode in (Mode.STREAM, Mode.TRIAL):
            self._due_ns.pop(name, None)
            return
        period_s = mode.ask_again_s() if mode.mode is Mode.UNAVAILABLE else self._period_s(mode.report)
        first = name not in self._due_ns or self._due_ns[name] == 0
        phase = self._rng.uniform(0.5, 1.0) if first else 1.0  # spreads the BMCs of a fleet
        self._due_ns[name] = self._clock.now_ns() + int(period_s * phase * NS)

    def _period_s(self, report: Report) -> float:
        """Choose a period: a report whose GET takes more than a third of it is read half as often until it is quick again."""
        slowdown = self._slowdown.get(report.name, 1.0)
        least_s = max(period_of(report), self._least_period_s)
        if self._took_s > least_s * slowdown / 3 and slowdown < _MOST_SLOWDOWNS:
            slowdown *= 2
            _log.warning("redfish_poll_slowed", node=self._intake.machine.node, report=report.name, took_s=self._took_s, slowdown=slowdown)
        elif self._took_s < least_s * slowdown / 12 and slowdown > 1:
            slowdown /= 2
        self._slowdown[report.name] = slowdown
        return least_s * slowdown

    async def _resolve_references(self) -> None:
        loop = asyncio.get_running_loop()
        due = [reference for reference in self._references if reference.due_s <= loop.time()]
        self._references = [reference for reference in self._references if reference.due_s > loop.time()]
        for reference in due:
            try:
                await self._intake.take_event(await self._bmc.get(reference.path), is_live=reference.is_live)
            except Refused as refused:
                if self._is_fatal(refused):
                    raise
                await self._retry_reference(reference)

    async def _retry_reference(self, reference: _Reference) -> None:
        attempt = reference.attempt + 1
        if attempt < len(REFERENCE_DELAYS_S):
            due_s = asyncio.get_running_loop().time() + REFERENCE_DELAYS_S[attempt]
            self._references.append(replace(reference, attempt=attempt, due_s=due_s))
        else:
            await self._intake.take_event({"MessageId": "unresolved", "OriginOfCondition": reference.path})

    async def _rest(self) -> None:
        """Wait for the next report that is due, at most until the next check of silent ones."""
        self._wake.clear()
        soonest_ns = min(self._due_ns.values(), default=None)
        waiting: list[asyncio.Task[object]] = [asyncio.create_task(self._wake.wait())]
        if soonest_ns is not None:
            waiting.append(asyncio.create_task(self._clock.wait_until(soonest_ns)))
        try:
            await asyncio.wait(waiting, timeout=self._check_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()


def _size(body: Body) -> int:
    values = body.get("MetricValues")
    return 256 * len(values) if isinstance(values, list) else 0
