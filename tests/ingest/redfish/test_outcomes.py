"""Every answer of a BMC has one meaning, and its delays are bounded."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulators.bmc.faults import HTML, NO_LICENCE, NO_SESSION_LEFT, NOT_ENABLED, NOT_READY
from emulators.bmc.messages import Body, error
from ingest.redfish.backoff import Backoff, clamp_retry_s
from ingest.redfish.liveness import Liveness
from ingest.redfish.outcomes import Asked, Outcome, judge, refusal

LIMIT = error("EventSubscriptionLimitExceeded")
JSON = "application/json; charset=utf-8"
STREAM = "text/event-stream;charset=utf-8"


def raw(body: Body) -> bytes:
    import json  # noqa: PLC0415

    return json.dumps(body).encode()


@pytest.mark.parametrize(
    ("asked", "status", "media_type", "body", "outcome"),
    [
        (Asked.RESOURCE, 200, JSON, {}, Outcome.OK),
        (Asked.STREAM, 200, STREAM, {}, Outcome.OK),
        (Asked.STREAM, 200, "text/html", {}, Outcome.WRONG_TYPE),
        (Asked.STREAM, 200, JSON, {}, Outcome.WRONG_TYPE),
        (Asked.RESOURCE, 200, "text/html", {}, Outcome.WRONG_TYPE),
        (Asked.FILTERED_STREAM, 400, JSON, {}, Outcome.BAD_FILTER),
        (Asked.FILTERED_STREAM, 501, JSON, {}, Outcome.BAD_FILTER),
        (Asked.STREAM, 501, JSON, {}, Outcome.NOT_OFFERED),
        (Asked.RESOURCE, 400, JSON, NOT_READY, Outcome.NOT_READY),
        (Asked.FILTERED_STREAM, 400, JSON, NOT_READY, Outcome.NOT_READY),
        (Asked.RESOURCE, 400, JSON, {}, Outcome.TRANSIENT),
        (Asked.RESOURCE, 401, JSON, {}, Outcome.UNAUTHORIZED),
        (Asked.STREAM, 403, JSON, LIMIT, Outcome.LIMIT),
        (Asked.STREAM, 403, JSON, {}, Outcome.FORBIDDEN),
        (Asked.RESOURCE, 403, JSON, NO_LICENCE, Outcome.NOT_LICENSED),
        (Asked.RESOURCE, 404, JSON, NOT_ENABLED, Outcome.MISSING),
        (Asked.STREAM, 406, JSON, {}, Outcome.NOT_OFFERED),
        (Asked.STREAM, 503, JSON, LIMIT, Outcome.LIMIT),
        (Asked.RESOURCE, 503, JSON, NO_SESSION_LEFT, Outcome.LIMIT),
        (Asked.RESOURCE, 429, JSON, {}, Outcome.LIMIT),
        (Asked.RESOURCE, 302, "text/html", {}, Outcome.TRANSIENT),
        (Asked.RESOURCE, 500, JSON, {}, Outcome.TRANSIENT),
    ],
)
def test_meaning_of_an_answer(asked: Asked, status: int, media_type: str, body: Body, outcome: Outcome) -> None:
    """Status, media type and message together tell what an answer means."""
    assert judge(asked, status, media_type, raw(body)) is outcome


def test_refusal_tells_state_message_and_delay() -> None:
    """A refusal carries the code of the first message and a clamped `Retry-After`; pages of proxies are not quoted."""
    refused = refusal(Outcome.LIMIT, 503, raw(LIMIT), {"Retry-After": "30"})
    assert (refused.state, refused.detail, refused.retry_after_s) == ("limit", "Base.1.19.EventSubscriptionLimitExceeded", 30.0)
    assert refusal(Outcome.LIMIT, 503, b"", {"Retry-After": "86400"}).retry_after_s == 600.0
    assert refusal(Outcome.LIMIT, 503, b"", {"Retry-After": "soon"}).retry_after_s is None
    page = refusal(Outcome.TRANSIENT, 502, HTML, {})
    assert (page.state, page.detail) == ("error(502)", "")


@given(st.binary(max_size=80))
def test_any_body_of_an_error_is_read(body: bytes) -> None:
    """No body of an error raises."""
    assert refusal(Outcome.TRANSIENT, 500, body, {}).outcome is Outcome.TRANSIENT


def test_backoff_doubles_its_bound_and_starts_over() -> None:
    """Delays lie below a bound that doubles up to its most; what the peer asked for is a lower bound; a reset starts over."""
    backoff = Backoff(random.Random(1), first_s=1.0, most_s=8.0)
    delays = [backoff.next_s() for _ in range(6)]
    assert all(0 <= delay <= bound for delay, bound in zip(delays, [1, 2, 4, 8, 8, 8], strict=True))
    assert backoff.next_s(at_least_s=30.0) == 30.0
    backoff.reset()
    assert backoff.next_s() <= 1.0


@pytest.mark.parametrize(("retry_ms", "delay_s"), [(None, 0.0), (15_000, 15.0), (0, 1.0), (10**9, 300.0)])
def test_retry_field_is_clamped(retry_ms: int | None, delay_s: float) -> None:
    """A stream's `retry` counts within a second and five minutes."""
    assert clamp_retry_s(retry_ms) == delay_s


def test_three_failed_probes_end_a_stream() -> None:
    """Two probes may fail; bytes in between start the count again."""
    liveness = Liveness(0.0)
    liveness.probed(is_alive=False)
    liveness.probed(is_alive=False)
    liveness.heard(1.0, comments=0)
    liveness.probed(is_alive=False)
    liveness.probed(is_alive=False)
    with pytest.raises(TimeoutError):
        liveness.probed(is_alive=False)


def test_comments_that_stop_end_a_stream_of_a_bmc_that_sends_them() -> None:
    """Silence of three comment periods, half a minute at least, is death where comments were seen, and nothing elsewhere."""
    liveness = Liveness(0.0)
    assert not liveness.misses_comments(1000.0)
    for at_s in (0.0, 15.0, 30.0):
        liveness.heard(at_s, comments=1)
    assert not liveness.misses_comments(75.0)
    assert liveness.misses_comments(76.0)


def test_stream_closed_for_idleness_is_left_alone_for_a_while() -> None:
    """After an hour without data a stream is opened again after 20 to 30 seconds, else at once."""
    liveness = Liveness(0.0)
    assert liveness.least_delay_s(60.0, random.Random(1)) == 0.0
    assert 20.0 <= liveness.least_delay_s(3600.0, random.Random(1)) <= 30.0


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":{"a":' + b"[" * 30_000,
        b"[" * 30_000,
        b'{"error":[]}',
        b'{"error":{"code":7}}',
        b'{"error":{"@Message.ExtendedInfo":[7]}}',
    ],
    ids=["nested object", "nested list", "list", "number", "number as message"],
)
def test_error_of_any_shape_is_a_refusal(body: bytes) -> None:
    """An error body that is nested without end, or of another shape than Redfish's, is an answer without a message."""
    refused = refusal(Outcome.TRANSIENT, 400, body, {})
    assert (refused.state, refused.detail) == ("error(400)", "")


def test_error_is_read_after_a_byte_order_mark_and_cut() -> None:
    """A byte order mark hides no message, and a message without end is cut."""
    assert refusal(Outcome.TRANSIENT, 400, b'\xef\xbb\xbf{"error":{"code":"A.B"}}', {}).detail == "A.B"
    assert refusal(Outcome.TRANSIENT, 400, b'{"error":{"code":"%s"}}' % (b"x" * 5000), {}).detail == "x" * 200


@pytest.mark.parametrize("text", ["\u00b2", "\u0669", "1\u00b2", "", " ", "-1", "1.5"])
def test_retry_after_that_is_no_number_is_none(text: str) -> None:
    """What is not all ASCII digits is no number of seconds."""
    assert refusal(Outcome.LIMIT, 503, b"", {"Retry-After": text}).retry_after_s is None


def test_delays_of_many_digits_are_the_longest() -> None:
    """Numbers beyond every float are clamped like other long ones."""
    assert refusal(Outcome.LIMIT, 503, b"", {"Retry-After": "9" * 5000}).retry_after_s == 600.0
    assert clamp_retry_s(10**400) == 300.0
