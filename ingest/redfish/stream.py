"""The event stream of one BMC: opened again when it ends, given up when the BMC is seen to refuse it.

A stream that is silent may be healthy (bmcweb sends nothing between events) or dead without a word (half-open TCP). So silence is
answered by a probe; three probes that fail end the stream, as does the absence of comments where a BMC was seen to send them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import structlog

from ingest.clock import NS, Clock, datetime_of
from ingest.errors import RecordRejected
from ingest.metrics import REDFISH_BYTES, REDFISH_GAP_SECONDS, REDFISH_REJECTED, REDFISH_STREAM_ENDS
from ingest.redfish.backoff import Backoff, clamp_retry_s
from ingest.redfish.identity import ROOT
from ingest.redfish.intake import Intake
from ingest.redfish.liveness import LEAST_SILENCE_S, Liveness
from ingest.redfish.mode import LEAST_TRIAL_S, TRIAL_INTERVALS, can_stream
from ingest.redfish.outbox import Outbox
from ingest.redfish.outcomes import Outcome, Refused
from ingest.redfish.polls import Polls
from ingest.redfish.replay import REPLAY_S, Replay
from ingest.redfish.session import NETWORK_ERRORS, BmcSession
from ingest.redfish.sse import SseParser
from ingest.redfish.state import StateLine

PROBE_S = 60.0
EVENT_S = 120.0  # for one event to come: an HGX port report has 0.9 MB
EMPTY_ENDS = 3  # 200 and end of file without an event, in a row: bmcweb's way to refuse
IMMEDIATE_S = 30.0  # of wall time: a stream that ends sooner was not wanted
MOST_FAILURES = 3  # in a row, before reports are polled, or where nothing answers the whole BMC is looked at anew
LONG_PAUSE_S = 10.0
RETRY_STREAM_S = 6 * 3600.0  # after a refusal
# Dialects of the filter in the order in which they are tried; without one, a stream carries events as well.
FILTERS = ("", "$filter=EventFormatType eq 'MetricReport'", "$filter=EventFormatType eq MetricReport")
FILTERS_REPORTS_ONLY = (*FILTERS[1:], "")  # for a stream that need not carry events
_GIVE_UP_S = {
    Outcome.FORBIDDEN: RETRY_STREAM_S,
    Outcome.NOT_OFFERED: RETRY_STREAM_S,
    Outcome.MISSING: RETRY_STREAM_S,
    Outcome.NOT_LICENSED: 86_400.0,
}
_log = structlog.get_logger()


class _NextFilter(Exception):
    """The stream is to be opened with another filter."""


class Stream:
    """The stream of one BMC; `on_change` is told when it opened, ended or was given up."""

    def __init__(
        self,
        bmc: BmcSession,
        path: str,
        *,
        intake: Intake,
        polls: Polls,
        outbox: Outbox,
        line: StateLine,
        clock: Clock,
        rng: random.Random,
        on_change: Callable[[], None],
        filters: tuple[str, ...] = FILTERS,
        probe_s: float = PROBE_S,
        event_s: float = EVENT_S,
        least_silence_s: float = LEAST_SILENCE_S,
        first_delay_s: float = 1.0,
        least_trial_s: float = LEAST_TRIAL_S,
        replay_s: float = REPLAY_S,
    ) -> None:
        self._bmc = bmc
        self._path = path
        self._intake = intake
        self._polls = polls
        self._outbox = outbox
        self._line = line
        self._clock = clock
        self._rng = rng
        self._on_change = on_change
        self._filters = filters
        self._filter = self._filter_trials = 0
        self._opened_ns, self._opened_s = 0, 0.0
        self._replay: Replay | None = None
        self._least_trial_s = least_trial_s
        self._replay_s = replay_s
        self._has_streamed = False  # a report came over any stream
        self._probe_s = probe_s
        self._backoff = Backoff(rng, first_s=first_delay_s)
        self._last_id = ""
        self._retry_ms: int | None = None
        self._heard_ns: int | None = None  # fleet time of the last byte of any stream before this one
        self._has_delivered = False
        self._event_s = event_s
        self._least_silence_s = least_silence_s
        self._event_since_s = 0.0
        self._empty_ends = 0
        self._failures = 0

    async def run(self) -> None:
        """Keep the stream open until cancelled; raises Refused when the BMC has to be looked at anew."""
        while True:
            delay_s = await self._attempt()
            self._polls.stream_is(is_open=False)
            self._on_change()
            await asyncio.sleep(delay_s)

    async def _attempt(self) -> float:
        """Open the stream and follow it to its end; returns the delay before the next attempt."""
        self._has_delivered = False
        liveness = Liveness(asyncio.get_running_loop().time(), least_silence_s=self._least_silence_s)
        try:
            await self._follow(liveness)
            return self._after_end("eof", liveness)
        except _NextFilter:
            return 0.0
        except RecordRejected as rejection:
            REDFISH_REJECTED.labels(rejection.reason).inc()
            return self._after_end(rejection.reason, liveness)
        except Refused as refused:
            return self._after_refusal(refused)
        except NETWORK_ERRORS as error:
            return self._after_end(type(error).__name__, liveness)

    async def _follow(self, liveness: Liveness) -> None:
        parser = SseParser()
        async with self._bmc.stream(self._path, query=self._filters[self._filter], last_event_id=self._last_id) as content:
            self._opened_ns, self._opened_s = self._clock.now_ns(), asyncio.get_running_loop().time()
            self._replay = Replay(self._opened_s - self._outbox.paused_s, lull_s=self._replay_s)
            self._event_since_s = self._opened_s
            self._note_gap()
            self._polls.stream_is(is_open=not self._filters[self._filter])
            self._on_change()
            while True:
                if self._is_filter_wrong():
                    self._next_filter()
                    raise _NextFilter
                try:
                    async with asyncio.timeout(self._probe_s):
                        chunk = await content.readany()
                except TimeoutError:
                    await self._probe(liveness)
                    continue
                if not chunk:
                    return
                REDFISH_BYTES.inc(len(chunk))
                await self._take(chunk, parser, liveness)

    async def _take(self, chunk: bytes, parser: SseParser, liveness: Liveness) -> None:
        loop = asyncio.get_running_loop()
        paused_s = self._outbox.paused_s
        comments, blocks = parser.comments, parser.blocks
        for event in parser.feed(chunk):
            self._last_id = event.id
            payload = await self._intake.take_payload(event.data, self._replay)
            self._delivered()
            self._has_streamed = self._has_streamed or bool(payload.reports)
            for reference in payload.references:
                self._polls.fetch(reference, is_live=payload.is_live)
            if payload.has_gap:
                self._say_gap(self._heard_ns or self._clock.now_ns(), f"buffer of the BMC exceeded, last id {self._last_id!r}")
        self._last_id, self._retry_ms = parser.last_id, parser.retry_ms
        self._heard_ns = self._clock.now_ns()
        liveness.heard(loop.time(), comments=parser.comments - comments)
        self._judge_event(loop.time(), is_same=parser.is_in_event and parser.blocks == blocks)
        if self._outbox.paused_s - paused_s > LONG_PAUSE_S:  # the BMC has dropped what we did not read in time
            self._polls.catch_up()

    def _judge_event(self, now_s: float, *, is_same: bool) -> None:
        """Give a stream up on which bytes come and no event ends: events without blank lines between them are one without end."""
        if not is_same:
            self._event_since_s = now_s
        elif now_s - self._event_since_s > self._event_s:
            raise RecordRejected("event_unfinished", f"bytes for {self._event_s:g} s without a blank line")

    def _delivered(self) -> None:
        """Note an event: only now has the stream proved itself."""
        if self._has_delivered:
            return
        self._has_delivered = True
        self._empty_ends = self._failures = 0
        self._backoff.reset()

    async def _probe(self, liveness: Liveness) -> None:
        """Find out whether a silent stream is alive; raises TimeoutError when it is not."""
        now_s = asyncio.get_running_loop().time()
        if liveness.misses_comments(now_s):
            raise TimeoutError
        try:
            await self._bmc.get(f"{ROOT}/SessionService")
            liveness.probed(is_alive=True)
        except Refused:
            liveness.probed(is_alive=False)

    def _after_end(self, reason: str, liveness: Liveness) -> float:
        REDFISH_STREAM_ENDS.labels(reason).inc()
        _log.info("redfish_stream_ended", node=self._intake.machine.node, reason=reason, delivered=self._has_delivered)
        now_s = asyncio.get_running_loop().time()
        is_empty = not self._has_delivered and now_s - self._opened_s < IMMEDIATE_S
        self._empty_ends = self._empty_ends + 1 if is_empty else 0
        if self._empty_ends >= EMPTY_ENDS:
            return self._give_up("refused" if reason == "eof" else reason, RETRY_STREAM_S)
        at_least_s = max(clamp_retry_s(self._retry_ms), liveness.least_delay_s(now_s, self._rng))
        return self._backoff.next_s(at_least_s)

    def _after_refusal(self, refused: Refused) -> float:
        REDFISH_STREAM_ENDS.labels(str(refused.outcome)).inc()
        _log.info("redfish_stream_refused", node=self._intake.machine.node, state=refused.state, detail=refused.detail)
        if refused.outcome is Outcome.BAD_FILTER and self._filter_trials < len(self._filters):
            self._next_filter()
            return 0.0
        if refused.outcome in _GIVE_UP_S:
            return self._give_up(refused.state, _GIVE_UP_S[refused.outcome])
        self._failures += 1
        lasts = self._failures >= MOST_FAILURES
        if refused.outcome is Outcome.UNAUTHORIZED or (lasts and refused.outcome is Outcome.UNREACHABLE):
            raise refused
        if lasts or refused.outcome is Outcome.LIMIT:
            self._poll_instead(refused.state)
        return self._backoff.next_s(refused.retry_after_s or 0.0)

    def _give_up(self, reason: str, for_s: float) -> float:
        """Poll everything for hours before the stream is tried again."""
        self._empty_ends = 0
        self._poll_instead(reason)
        return for_s

    def _poll_instead(self, reason: str) -> None:
        for mode in self._intake.modes.values():
            mode.poll(f"stream {reason}", self._clock.now_ns())

    def _is_filter_wrong(self) -> bool:
        """Tell whether this dialect of the filter has had its time on an open stream: no report came that should have come."""
        if self._has_streamed or self._filter_trials >= len(self._filters):
            return False
        could = [mode.report.recurrence_s or 0.0 for mode in self._intake.modes.values() if can_stream(mode.report)]
        if not could:
            return False
        patience_s = max(TRIAL_INTERVALS * min(could), LEAST_TRIAL_S)
        has_passed = self._clock.now_ns() - self._opened_ns > patience_s * NS
        return has_passed and asyncio.get_running_loop().time() - self._opened_s > min(patience_s, self._least_trial_s)

    def _next_filter(self) -> None:
        """Go on to the next dialect; after the last, stay with the first, which carries events too."""
        self._filter_trials += 1
        self._filter = (self._filter + 1) % len(self._filters)

    def _note_gap(self) -> None:
        """Say what was missed between two streams, and read the reports once: telemetry is never replayed."""
        if self._heard_ns is not None:
            self._say_gap(self._heard_ns, f"stream reopened, last id {self._last_id!r}")
            self._polls.catch_up()

    def _say_gap(self, since_ns: int, detail: str) -> None:
        now_ns = self._clock.now_ns()
        REDFISH_GAP_SECONDS.inc(max(0.0, (now_ns - since_ns) / NS))
        self._line.say_gap(since_ns, now_ns, f"until {datetime_of(now_ns).isoformat()}: {detail}")
