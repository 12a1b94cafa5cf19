"""How a report comes is decided by what the BMC is seen to do."""

from __future__ import annotations

import pytest

from ingest.clock import NS
from ingest.redfish.mode import Mode, ReportMode, start_mode
from ingest.redfish.service import Report, Service, read_definition
from ingest.redfish.state import judge_reports

STREAMING = Service(stream_path="/redfish/v1/EventService/SSE", streams_reports=True)
PERIODIC = Report(name="R", path="/r", kind="Periodic", recurrence_s=60.0)


@pytest.mark.parametrize(
    ("report", "service", "mode", "reason"),
    [
        (PERIODIC, STREAMING, Mode.TRIAL, "offered"),
        (PERIODIC, Service(), Mode.POLL, "no stream"),
        (PERIODIC, Service(stream_path="/sse", streams_reports=False), Mode.POLL, "no stream"),
        (Report(name="R", path="/r", kind="OnRequest"), STREAMING, Mode.POLL, "on request"),
        (Report(name="R", path="/r", kind="Periodic"), STREAMING, Mode.POLL, "on request"),
        (Report(name="R", path="/r", kind="Periodic", is_logged=False), STREAMING, Mode.TRIAL, "not kept for GET"),
        (Report(name="R", path="/r", kind="Periodic", is_logged=False), Service(), Mode.UNAVAILABLE, "no stream"),
    ],
)
def test_start(report: Report, service: Service, mode: Mode, reason: str) -> None:
    """A report starts on trial only where its definition and the event service both promise a stream."""
    started = start_mode(report, service, 0, 0.0)
    assert (started.mode, started.reason) == (mode, reason)


def started() -> ReportMode:
    return start_mode(PERIODIC, STREAMING, 0, 0.0)


def test_trial_that_delivers_becomes_a_stream() -> None:
    """The first report over the stream ends the trial."""
    mode = started()
    mode.heard(10 * NS, 10.0)
    assert (mode.mode, mode.reason, mode.since_ns) == (Mode.STREAM, "delivered", 10 * NS)


def test_trial_of_two_intervals_without_a_report_ends_in_polls() -> None:
    """After two intervals without a report over the stream the report is polled."""
    mode = started()
    assert not mode.is_silent(120 * NS, 120.0)
    assert mode.is_silent(121 * NS, 121.0)
    mode.checked(has_news=True, now_ns=121 * NS, wall_s=121.0)
    assert (mode.mode, mode.reason) == (Mode.POLL, "not delivered")


def test_scaled_clock_does_not_end_a_trial_before_the_wall_has_had_its_time() -> None:
    """Both clocks must say that a report is overdue."""
    mode = started()
    assert not mode.is_silent(3600 * NS, 2.4)
    assert mode.is_silent(3600 * NS, 31.0)


def test_silent_stream_is_judged_by_a_get() -> None:
    """After three silent intervals, news by GET mean polling; no news mean a quiet BMC whose stream stays."""
    mode = started()
    mode.heard(0, 0.0)
    assert not mode.is_silent(180 * NS, 180.0)
    assert mode.is_silent(181 * NS, 181.0)
    mode.checked(has_news=False, now_ns=181 * NS, wall_s=181.0)
    assert (mode.mode, mode.is_quiet) == (Mode.STREAM, True)
    assert not mode.is_silent(300 * NS, 300.0)
    mode.heard(301 * NS, 301.0)
    assert not mode.is_quiet
    mode.checked(has_news=True, now_ns=600 * NS, wall_s=600.0)
    assert mode.mode is Mode.POLL


def test_polled_report_that_begins_to_stream_is_streamed() -> None:
    """A report over the stream ends its polling at any time."""
    mode = started()
    mode.poll("stream refused", 0)
    mode.heard(5 * NS, 5.0)
    assert mode.mode is Mode.STREAM


def test_report_without_a_get_side_is_unavailable_without_its_stream() -> None:
    """What is not kept for GET cannot be polled."""
    mode = start_mode(Report(name="R", path="/r", kind="Periodic", recurrence_s=60.0, is_logged=False), STREAMING, 0, 0.0)
    mode.poll("stream refused", NS)
    assert (mode.mode, mode.reason) == (Mode.UNAVAILABLE, "stream refused")


def test_report_that_is_missing_may_be_booting() -> None:
    """A 404 counts for a quarter of an hour as a BMC that is booting; a missing licence counts at once; both are asked again."""
    mode = started()
    mode.poll("stream refused", 0)
    mode.refused("missing", is_final=False, now_ns=0)
    mode.refused("missing", is_final=False, now_ns=899 * NS)
    assert mode.mode is Mode.POLL
    mode.refused("missing", is_final=False, now_ns=900 * NS)
    assert (mode.mode, mode.ask_again_s()) == (Mode.UNAVAILABLE, 3600.0)
    mode.answered(1000 * NS)
    assert mode.mode is Mode.POLL
    mode.refused("not_licensed", is_final=True, now_ns=1001 * NS)
    assert (mode.mode, mode.ask_again_s()) == (Mode.UNAVAILABLE, 86_400.0)


def test_state_of_a_bmc_sums_its_reports_up() -> None:
    """All reports that come are ok, some are partial, none is the reason of all; all quiet is stale; no report at all is empty."""
    good, bad = started(), started()
    assert judge_reports([good, bad])[0] == "ok"
    bad.refused("not_licensed", is_final=True, now_ns=0)
    assert judge_reports([good, bad]) == ("partial", "1 x trial (offered), 1 x unavailable (not_licensed)", 2, 1)
    assert judge_reports([bad])[0] == "not_licensed"
    good.is_quiet = True
    assert judge_reports([good])[0] == "stale"
    assert judge_reports([]) == ("empty", "", 0, 0)


def test_definition_is_read() -> None:
    """Kind, interval, enabling and actions of a definition are taken; what cannot be read leaves a report to poll."""
    body = {
        "Id": "PowerMetrics",
        "MetricReportDefinitionType": "Periodic",
        "Schedule": {"RecurrenceInterval": "PT1M"},
        "ReportActions": ["RedfishEvent"],
        "SuppressRepeatedMetricValue": True,
        "MetricReport": {"@odata.id": "/redfish/v1/TelemetryService/MetricReports/PowerMetrics"},
    }
    path = "/redfish/v1/TelemetryService/MetricReports/PowerMetrics"
    assert read_definition("/d", body) == Report(
        name="PowerMetrics", path=path, kind="Periodic", recurrence_s=60.0, is_logged=False, has_gaps=True
    )
    assert read_definition("/redfish/v1/x/PowerMetrics", {}) == Report(name="PowerMetrics", path=path)
