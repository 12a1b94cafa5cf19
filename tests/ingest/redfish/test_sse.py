"""The parser cuts any stream as the standard says, however its bytes arrive."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingest.errors import RecordRejected
from ingest.redfish.sse import ServerEvent, SseParser


def events_of(body: bytes, cuts: list[int] | None = None, **options: int) -> list[ServerEvent]:
    parser = SseParser(**options)
    places = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts or [])})
    return [event for start, end in pairwise(places) for event in parser.feed(body[start:end])]


def reference(body: bytes) -> list[ServerEvent]:
    """Parse a whole stream line by line, as the standard's text reads."""
    text = body.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events, data, kind, last_id, pending_id = [], [], "", "", ""
    for line in text.split(b"\n")[:-1]:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if line == b"":
            last_id = pending_id
            if data:
                events.append(ServerEvent(kind or "message", b"\n".join(data), last_id))
            data, kind = [], ""
        elif name == b"data":
            data.append(value)
        elif name == b"event":
            kind = value.decode(errors="replace")
        elif name == b"id" and b"\0" not in value:
            pending_id = value.decode(errors="replace")
    return events


lines = st.sampled_from(
    [b"data: a", b"data:b", b"data", b"data: data: c", b"data:  d", b"id: 7", b"id:", b"id: 8\0", b"event: x", b"retry: 5",
     b": hi", b":", b"junk", b"", b"", "data: é°\u2028\u0085".encode()]
)  # fmt: skip
bodies = st.lists(st.tuples(lines, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=30).map(
    lambda rows: b"".join(a + b for a, b in rows)
)


@given(bodies, st.lists(st.integers(0, 400), max_size=12), st.booleans())
@example(b"data: x\r\n\r\ndata: y\r\r\n", list(range(30)), False)
@example(b"id: 1\ndata: a\ndata:b\n\n", [1, 2, 3], True)
def test_cuts_do_not_matter(body: bytes, cuts: list[int], has_bom: bool) -> None:
    """A stream cut anywhere gives the events of the standard's own algorithm."""
    stream = b"\xef\xbb\xbf" + body if has_bom else body
    assert events_of(stream, cuts) == reference(stream)


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=10))
def test_noise_is_parsed_without_an_error(body: bytes, cuts: list[int]) -> None:
    """Any bytes give the same events whole and cut, and no exception."""
    assert events_of(body, cuts) == events_of(body)


def test_comments_are_signs_of_life() -> None:
    """Comments are counted, dispatch nothing, and do not fill the buffer although no blank line follows."""
    parser = SseParser(max_event_bytes=100)
    assert [event for _ in range(1000) for event in parser.feed(b": stream keep-alive\n")] == []
    assert parser.comments == 1000
    assert list(parser.feed(b"id: 3\ndata: {}\n\n")) == [ServerEvent("message", b"{}", "3")]


def test_id_and_retry_of_a_block_without_data_are_kept() -> None:
    """A block without data dispatches nothing and still sets the last id and the retry time; a malformed retry sets nothing."""
    parser = SseParser()
    assert list(parser.feed(b"id: 42\nretry: 15000\n\nretry: 1e3\n\n")) == []
    assert (parser.last_id, parser.retry_ms) == ("42", 15000)


def test_id_of_an_unfinished_event_is_not_taken() -> None:
    """The id of an event that never ends is not the last id."""
    parser = SseParser()
    assert len(list(parser.feed(b"id: 4\ndata: a\n\nid: 5\ndata: b\n"))) == 1
    assert parser.last_id == "4"


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_endless_event_is_cut_off(size: int) -> None:
    """An event beyond the bound ends the stream, after the events before it were given."""
    parser = SseParser(max_event_bytes=1000)
    body = b"data: good\n\ndata: " + b"x" * 5000
    given_events: list[ServerEvent] = []

    def follow() -> None:
        for start in range(0, len(body), size):
            given_events.extend(parser.feed(body[start : start + size]))

    with pytest.raises(RecordRejected, match="event_too_large"):
        follow()
    assert given_events == [ServerEvent("message", b"good", "")]


def test_large_line_is_read() -> None:
    """One line of 0.9 MB is one event."""
    payload = b"[" + b"1," * 450_000 + b"1]"
    body = b"id: 1\ndata: " + payload + b"\n\n"
    chunks = [body[start : start + 65_536] for start in range(0, len(body), 65_536)]
    parser = SseParser()
    assert [event.data for chunk in chunks for event in parser.feed(chunk)] == [payload]


@pytest.mark.parametrize(
    ("retry", "retry_ms"),
    [(b"9" * 5000, None), (b"9" * 400, None), (b"9" * 10, None), (b"9" * 9, 999_999_999), (b"0" * 5000, 0), (b"0" * 5000 + b"7", 7)],
    ids=["5000 digits", "400 digits", "10 digits", "9 digits", "zeros", "zeros and 7"],
)
def test_retry_of_many_digits(retry: bytes, retry_ms: int | None) -> None:
    """A retry time that is too long for any use is ignored, and the event beside it is read."""
    parser = SseParser()
    assert [event.data for event in parser.feed(b"retry: " + retry + b"\ndata: a\n\n")] == [b"a"]
    assert parser.retry_ms == retry_ms


def said(body: bytes, cuts: list[int]) -> tuple[int, int | None, str]:
    """Tell what a parser knows beside events once it has had all."""
    parser = SseParser(max_event_bytes=60)
    places = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
    try:
        for start, end in pairwise(places):
            for _ in parser.feed(body[start:end]):
                pass
    except RecordRejected:
        return -1, None, ""
    return parser.comments, parser.retry_ms, parser.last_id


@given(bodies, st.lists(st.integers(0, 400), max_size=12), st.booleans())
@example(b":\n", [2], True)
@example(b":\n", [1, 2, 3, 4], True)
@example(b": " + b"x" * 100 + b"\n", [50], False)
def test_cuts_do_not_matter_to_what_is_said_beside_events(body: bytes, cuts: list[int], has_bom: bool) -> None:
    """Comments, retry time, last id and the verdict on size are the same however a stream is cut."""
    stream = b"\xef\xbb\xbf" + body if has_bom else body
    assert said(stream, cuts) == said(stream, [])
