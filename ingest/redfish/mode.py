"""Decide per report whether it is streamed or polled, by what the BMC is seen to do and not by what it advertises.

trial ── a report over the stream ──> stream ── silent, and a GET finds newer values ──> poll ── a report over the stream ──> stream
  └── none within two intervals, or the stream is refused or not offered ──> poll

The stream stays open for events while reports are polled, so that a BMC which begins to deliver them is noticed. A report without a GET
side (`LogToMetricReportsCollection` missing) has no `poll`: it is `unavailable` instead. So is one whose GET is refused for good; it is
asked for again, daily for want of a licence and hourly otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf

from ingest.clock import NS
from ingest.redfish.service import Report, Service

LEAST_TRIAL_S, MOST_TRIAL_S = 30.0, 600.0
TRIAL_INTERVALS, SILENT_INTERVALS = 2.0, 3.0
MOST_REFUSALS = 2
UNAVAILABLE_AFTER_S = 15 * 60.0  # a 404 may be a BMC that is booting
ASK_AGAIN_S = {"not_licensed": 86_400.0}
ASK_AGAIN_DEFAULT_S = 3600.0


class Mode(StrEnum):
    """How a report comes."""

    TRIAL = "trial"
    STREAM = "stream"
    POLL = "poll"
    UNAVAILABLE = "unavailable"


@dataclass
class ReportMode:
    """Mode of one report with the reason and the time of its last change.

    Times are pairs of fleet and wall time: a report is silent only when both clocks say so, since a scaled clock runs ahead of sockets.
    """

    report: Report
    mode: Mode
    reason: str
    since_ns: int
    heard_ns: int
    heard_wall_s: float
    refused_since_ns: int | None = None
    refusals: int = 0  # in a row
    refusal: str = ""
    least_wall_s: float = LEAST_TRIAL_S
    is_quiet: bool = False  # a GET showed that the BMC itself has nothing newer

    def heard(self, now_ns: int, wall_s: float) -> None:
        """Note a report over the stream."""
        self.heard_ns, self.heard_wall_s = now_ns, wall_s
        self.is_quiet = False
        self.refused_since_ns, self.refusals = None, 0
        if self.mode is not Mode.STREAM:
            self._change(Mode.STREAM, "delivered", now_ns)

    def is_silent(self, now_ns: int, wall_s: float) -> bool:
        """Tell whether a report that should come by itself is overdue."""
        if self.mode not in (Mode.TRIAL, Mode.STREAM):
            return False
        recurrence_s = self.report.recurrence_s or 0.0
        intervals, most_s = (TRIAL_INTERVALS, MOST_TRIAL_S) if self.mode is Mode.TRIAL else (SILENT_INTERVALS, inf)
        patience_s = min(max(recurrence_s * intervals, LEAST_TRIAL_S), most_s)
        return now_ns - self.heard_ns > patience_s * NS and wall_s - self.heard_wall_s > min(patience_s, self.least_wall_s)

    def checked(self, *, has_news: bool, now_ns: int, wall_s: float) -> None:
        """Judge a silent stream by a GET: news there mean that the stream does not deliver, none that the BMC is quiet."""
        if self.mode is Mode.TRIAL or has_news:
            self.poll("not delivered", now_ns)
        else:
            self.is_quiet = True
            self.heard_ns, self.heard_wall_s = now_ns, wall_s

    def poll(self, reason: str, now_ns: int) -> None:
        """Give the stream up for this report."""
        if self.mode in (Mode.TRIAL, Mode.STREAM):
            self._change(Mode.POLL if self.report.is_logged else Mode.UNAVAILABLE, reason, now_ns)

    def refused(self, state: str, *, is_final: bool, now_ns: int) -> None:
        """Note that a GET was refused; for good at once if `is_final`, else when it lasts."""
        if self.refused_since_ns is None:
            self.refused_since_ns = now_ns
        self.refusals += 1
        self.refusal = state
        if is_final or now_ns - self.refused_since_ns >= UNAVAILABLE_AFTER_S * NS:
            self._change(Mode.UNAVAILABLE, state, now_ns)

    def answered(self, now_ns: int) -> None:
        """Note that a GET gave the report."""
        self.refused_since_ns, self.refusals = None, 0
        if self.mode is Mode.UNAVAILABLE:
            self._change(Mode.POLL, "available", now_ns)

    def trouble(self) -> str | None:
        """Tell why the report does not come; one refusal alone is not yet trouble."""
        if self.mode is Mode.UNAVAILABLE:
            return self.reason
        return self.refusal if self.refusals >= MOST_REFUSALS else None

    def ask_again_s(self) -> float:
        """Tell how long an unavailable report is left alone."""
        return ASK_AGAIN_S.get(self.reason, ASK_AGAIN_DEFAULT_S)

    def _change(self, mode: Mode, reason: str, now_ns: int) -> None:
        if (mode, reason) != (self.mode, self.reason):
            self.mode, self.reason, self.since_ns = mode, reason, now_ns


def can_stream(report: Report) -> bool:
    """Tell whether a definition promises that the report comes by itself."""
    return report.kind != "OnRequest" and report.recurrence_s is not None


def start_mode(report: Report, service: Service, now_ns: int, wall_s: float, least_wall_s: float = LEAST_TRIAL_S) -> ReportMode:
    """Choose the mode in which a report starts; it is not found silent before `least_wall_s` of the wall's time."""
    mode, reason = _start(report, service)
    return ReportMode(report, mode, reason, now_ns, now_ns, wall_s, least_wall_s=least_wall_s)


def _start(report: Report, service: Service) -> tuple[Mode, str]:
    if service.stream_path is None or not service.streams_reports:
        return (Mode.POLL, "no stream") if report.is_logged else (Mode.UNAVAILABLE, "no stream")
    if not report.is_logged:
        return Mode.TRIAL, "not kept for GET"
    if not can_stream(report):
        return Mode.POLL, "on request"
    return Mode.TRIAL, "offered"
