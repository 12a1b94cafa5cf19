"""Watch one BMC: learn what it offers, follow its stream, poll the rest, and start over when it is gone."""

from __future__ import annotations

import asyncio
import random
import traceback
from dataclasses import dataclass
from math import inf

import structlog

from ingest.clock import NS, Clock
from ingest.metrics import REDFISH_FAILURES
from ingest.redfish.backoff import Backoff
from ingest.redfish.intake import Intake
from ingest.redfish.liveness import LEAST_SILENCE_S
from ingest.redfish.logs import LogReader
from ingest.redfish.mode import LEAST_TRIAL_S, Mode, ReportMode, start_mode
from ingest.redfish.outbox import Outbox
from ingest.redfish.outcomes import Outcome, Refused
from ingest.redfish.polls import CHECK_S, LOGS, RESOURCES, SENSORS, Polls
from ingest.redfish.replay import REPLAY_S
from ingest.redfish.reports import Machine
from ingest.redfish.service import Report, Service, discover
from ingest.redfish.session import ANSWER_TIMEOUT_S, BmcSession
from ingest.redfish.state import StateLine, judge_reports
from ingest.redfish.stream import EVENT_S, FILTERS, PROBE_S, Stream
from ingest.redfish.target import RedfishTarget
from ingest.redfish.versions import is_newer
from ingest.schema import SourceState
from ingest.xid import Catalogue

BOOT_NS = 15 * 60 * NS  # a BMC that comes back may lack its services for a while
RELEARN_NS = 3600 * NS
_log = structlog.get_logger()


class _Changed(Exception):
    """The BMC offers something else than what is being read."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long to wait for BMCs: fleet seconds between polls at least, wall seconds for the rest."""

    poll_s: float = 10.0
    answer_s: float = ANSWER_TIMEOUT_S
    probe_s: float = PROBE_S
    event_s: float = EVENT_S
    silence_s: float = LEAST_SILENCE_S  # of a BMC that used to send comments
    first_delay_s: float = 1.0
    most_delay_s: float = 60.0
    login_s: float = 60.0
    trial_s: float = LEAST_TRIAL_S
    relearn_s: float = 600.0
    check_s: float = CHECK_S
    replay_s: float = REPLAY_S
    settled_s: float = 60.0  # a BMC that was served for so long is well


class BmcWatch:
    """One BMC from its first connection to its last; what it says is in `outbox`."""

    def __init__(
        self,
        node: str,
        target: RedfishTarget,
        *,
        clock: Clock,
        connecting: asyncio.Semaphore,
        rng: random.Random,
        patience: Patience,
        catalogue: Catalogue,
        filters: tuple[str, ...] = FILTERS,
    ) -> None:
        self.node = node
        self.outbox = Outbox()
        self.line = StateLine(node, self.outbox)
        self._clock = clock
        self._rng = rng
        self._patience = patience
        self._filters = filters
        self._bmc = BmcSession(target, connecting=connecting, answer_timeout_s=patience.answer_s, login_interval_s=patience.login_s)
        self._intake = Intake(node, clock=clock, outbox=self.outbox, catalogue=catalogue)
        self._logs = LogReader()
        self._service: Service | None = None
        self._firmware: str | None = None
        self._served_ns = 0
        self._served_s = inf  # wall time since when the BMC is being served
        self._has_failed = False  # by a fault of ours, and it has not settled since
        self._polls: Polls | None = None  # while the BMC is being served
        self._reviewed: tuple[object, SourceState | None] = ((), None)  # what was found, and what was said about it

    async def run(self) -> None:
        """Watch until cancelled."""
        backoff = Backoff(self._rng, first_s=self._patience.first_delay_s, most_s=self._patience.most_delay_s)
        while True:
            delay_s = await self._attempt(backoff)
            await asyncio.sleep(delay_s)

    async def close(self) -> None:
        """Give the session back, once `run` has ended or where it never began."""
        await self._bmc.close()

    async def _attempt(self, backoff: Backoff) -> float:
        try:
            service = await self._learn()
            self._served_s = asyncio.get_running_loop().time()
            await self._serve(service)
        except _Changed:
            _log.info("redfish_service_changed", node=self.node)
            return 0.0
        except Refused as refused:
            self._has_failed = False
            self.line.say(refused.state, refused.detail, self._clock.now_ns())
            return self._next_s(backoff, refused.retry_after_s or 0.0)
        except Exception:  # noqa: BLE001  # one BMC's trouble must not end the watch of it
            REDFISH_FAILURES.inc()
            # The text alone: a renderer that shows local variables would show credentials.
            _log.error("redfish_watch_failed", node=self.node, traceback=traceback.format_exc())
            self._has_failed = True
            self.line.say("error", "internal error, see the log", self._clock.now_ns())
        return self._next_s(backoff)

    def _next_s(self, backoff: Backoff, at_least_s: float = 0.0) -> float:
        """Draw the next delay; only a BMC that was served for a while starts with the first again: to be learnt is not yet to be well."""
        if self._is_settled():
            backoff.reset()
        self._served_s = inf
        return backoff.next_s(at_least_s)

    def _is_settled(self) -> bool:
        return asyncio.get_running_loop().time() - self._served_s >= self._patience.settled_s

    @property
    def is_heard(self) -> bool:
        """Tell whether it is known how the BMC is: every report was asked for once, or it was said why none can be."""
        return self._polls.has_been_round if self._polls else self.line.said is not None

    async def _learn(self) -> Service:
        """Learn what the BMC offers; one that offered reports before and has none now is still booting."""
        service = await discover(self._bmc)
        now_ns = self._clock.now_ns()
        before = self._service
        if before is not None and before.reports and not service.reports and now_ns - self._served_ns < BOOT_NS:
            raise Refused(Outcome.NOT_READY, None, "its reports are not there yet")
        return service

    async def _learn_again(self, service: Service) -> None:
        """Look now and then whether the BMC offers something else by now; raises _Changed if so."""
        while True:
            since_ns = self._clock.now_ns()
            if service.is_partial:
                await asyncio.sleep(self._patience.relearn_s / 10)
            else:
                await asyncio.sleep(self._patience.relearn_s)
                await self._clock.wait_until(since_ns + RELEARN_NS)
            try:
                found = await self._learn()
            except Refused:  # the polls will find out what is wrong
                continue
            if found != service and not found.is_partial:
                raise _Changed

    async def _serve(self, service: Service) -> None:
        self._service, self._served_ns = service, self._clock.now_ns()
        known = self._intake.machine.sensors if service.firmware == self._firmware else {}
        self._note_firmware(service.firmware)
        self._intake.machine = Machine(self.node, gpu_uuids=service.gpu_uuids, sensors=known)
        self._start_modes(service)
        polls = self._polls = Polls(
            self._bmc,
            self._intake,
            clock=self._clock,
            rng=self._rng,
            least_period_s=self._patience.poll_s,
            service=service,
            logs=self._logs,
            check_s=self._patience.check_s,
        )
        tasks = [asyncio.create_task(polls.run()), asyncio.create_task(self._learn_again(service))]
        if service.stream_path is not None:
            tasks.append(asyncio.create_task(self._stream(service.stream_path, polls).run()))
        try:
            await asyncio.gather(*tasks)
        finally:
            self._polls = None
            self._served_ns = self._clock.now_ns()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _note_firmware(self, firmware: str | None) -> None:
        before, self._firmware = self._firmware, firmware
        if before and firmware and firmware != before:
            step = "upgrade" if is_newer(firmware, before) else "downgrade"
            _log.info("redfish_firmware_changed", node=self.node, before=before, now=firmware, step=step)

    def modes(self) -> list[Mode]:
        """List how this BMC's reports come."""
        return [mode.mode for mode in self._intake.modes.values()]

    def review(self) -> None:
        """Say how the reports come; after a fault of ours only when it has not come back for a while."""
        self._has_failed = self._has_failed and not self._is_settled()
        is_flooded = self.outbox.is_flooded
        ways = [is_flooded, *((mode.mode, mode.trouble() or mode.reason, mode.is_quiet) for mode in self._intake.modes.values())]
        if self._polls is None or self._has_failed or (ways, self.line.said) == self._reviewed:
            return
        state, detail, expected, seen = judge_reports(self._intake.modes.values())
        if is_flooded:
            state, detail = "flooded", f"more comes than is taken, the BMC has to wait; {detail}"
            _log.warning("redfish_flooded", node=self.node, paused_s=round(self.outbox.paused_s, 1))
        self.line.say(state, detail, self._clock.now_ns(), expected=expected, seen=seen)
        self._reviewed = (ways, self.line.said)

    def _stream(self, path: str, polls: Polls) -> Stream:
        return Stream(
            self._bmc,
            path,
            intake=self._intake,
            polls=polls,
            outbox=self.outbox,
            line=self.line,
            clock=self._clock,
            rng=self._rng,
            on_change=self.review,
            filters=self._filters,
            probe_s=self._patience.probe_s,
            event_s=self._patience.event_s,
            least_silence_s=self._patience.silence_s,
            first_delay_s=self._patience.first_delay_s,
            least_trial_s=self._patience.trial_s,
            replay_s=self._patience.replay_s,
        )

    def _start_modes(self, service: Service) -> None:
        """Choose the modes anew, but keep what was learnt about reports that the stream does not deliver."""
        now_ns, wall_s = self._clock.now_ns(), asyncio.get_running_loop().time()
        before = self._intake.modes
        reports = [*service.reports, *_read_apart(service)]
        modes = [start_mode(report, service, now_ns, wall_s, self._patience.trial_s) for report in reports]
        self._intake.modes = {mode.report.name: _learnt(before.get(mode.report.name), mode) for mode in modes}


def _learnt(known: ReportMode | None, start: ReportMode) -> ReportMode:
    """Keep what was learnt about a report that the stream does not deliver: another trial would cost its values."""
    return known if known is not None and known.report == start.report and known.reason == "not delivered" else start


def _read_apart(service: Service) -> list[Report]:
    """Name what is read from resources as reports of its own."""
    paths = {SENSORS: service.sensor_collections, RESOURCES: service.resource_paths, LOGS: service.log_paths}
    return [Report(name=name, path="", kind="OnRequest") for name, read in paths.items() if read]
