"""Cut a stream of bytes into server-sent events, without doing any I/O.

Rules of the WHATWG event-stream format (HTML Living Standard 9.2.6), in the order in which they act:

1. A byte order mark at the very start is dropped. Lines end with CR, LF or CRLF and with nothing else (not U+2028, not U+0085).
2. A blank line ends a block. A block with `data` is an event; one without dispatches nothing, but its `id` becomes the last id.
3. A line starting with a colon is a comment: it dispatches nothing and is a sign of life.
4. One space after the colon is optional; `data` lines are joined with LF; a line without colon is a field with an empty value.
5. An `id` that contains NUL is ignored; `retry` counts only if it is all ASCII digits, and here if it is below 10^9.
6. What is unfinished when the stream ends is dropped, its id with it.

The payload stays bytes: UTF-8 is decoded once per finished event, never per chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ingest.errors import RecordRejected

MAX_EVENT_BYTES = 8 * 1024 * 1024  # an HGX port report has 0.9 MB; bmcweb caps its own buffer at 10 MiB
MOST_RETRY_DIGITS = 9  # of milliseconds: 11 days
_BOM = b"\xef\xbb\xbf"


class ServerEvent(NamedTuple):
    """One event as dispatched; `id` is the last id that the stream named, perhaps in an earlier block."""

    type: str
    data: bytes
    id: str


class SseParser:
    """Parser of one stream; `last_id`, `retry_ms` and `comments` tell what the stream has said so far."""

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.last_id = ""
        self.retry_ms: int | None = None
        self.comments = 0
        self.blocks = 0  # finished ones, with or without an event in them
        self._max_event_bytes = max_event_bytes
        self._buffer = bytearray()  # the unfinished block, line ends already LF
        self._searched = 0  # bytes of it known to hold no blank line
        self._is_start = True
        self._is_after_cr = False

    @property
    def is_in_event(self) -> bool:
        """Tell whether an event has begun and not ended."""
        return bool(self._buffer)

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """Take the next bytes and yield the events they finish; raises RecordRejected `event_too_large` beyond the bound.

        After that the parser is of no more use: the stream has to be dropped.
        """
        self._buffer += self._after_bom(self._with_lf(chunk))
        while (block := self._next_block()) is not None:
            self.blocks += 1
            event = self._dispatch(block)
            if event is not None:
                yield event

    def _with_lf(self, chunk: bytes) -> bytes:
        text = chunk[1:] if self._is_after_cr and chunk[:1] == b"\n" else chunk
        if chunk:
            self._is_after_cr = chunk[-1:] == b"\r"
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return text

    def _after_bom(self, text: bytes) -> bytes:
        if not self._is_start:
            return text
        text = bytes(self._buffer) + text
        self._buffer.clear()
        self._searched = 0
        if len(text) < len(_BOM) and _BOM.startswith(text):
            self._buffer += text  # cannot be told yet; holds no line end
            return b""
        self._is_start = False
        return text.removeprefix(_BOM)

    def _next_block(self) -> bytes | None:
        """Cut the next finished block off the buffer, its lines each with their LF; None when it is unfinished."""
        buffer = self._buffer
        self._drop_leading_comments()
        if buffer[:1] == b"\n":
            del buffer[:1]
            self._searched = 0
            return b""
        end = buffer.find(b"\n\n", max(0, self._searched - 1))
        size = len(buffer) if end < 0 else end + 1
        if size > self._max_event_bytes:
            raise RecordRejected("event_too_large", f"more than {self._max_event_bytes} bytes without a blank line")
        if end < 0:
            self._searched = len(buffer)
            return None
        block = bytes(buffer[: end + 1])
        del buffer[: end + 2]
        self._searched = 0
        return block

    def _drop_leading_comments(self) -> None:
        """Forget finished comment lines at once: a keep-alive without blank lines must not fill the buffer."""
        buffer = self._buffer
        while buffer[:1] == b":" and 0 <= (end := buffer.find(b"\n", self._searched)) < self._max_event_bytes:
            del buffer[: end + 1]
            self._searched = 0
            self.comments += 1

    def _dispatch(self, block: bytes) -> ServerEvent | None:
        at = 0 if block.startswith(b"data:") else block.find(b"\ndata:") + 1
        joined = _join_data(block[at:]) if block.startswith(b"data:", at) else None
        fields = self._read_fields(block if joined is None else block[:at])
        if joined is not None:
            fields.data.append(joined)
        if not fields.data:
            return None
        return ServerEvent(fields.type or "message", b"\n".join(fields.data), self.last_id)

    def _read_fields(self, block: bytes) -> _Fields:
        fields = _Fields([])
        for line in block.split(b"\n")[:-1]:
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                fields.data.append(value)
            elif name == b"event":
                fields = fields._replace(type=value.decode(errors="replace"))
            elif name == b"id" and b"\0" not in value:
                self.last_id = value.decode(errors="replace")
            elif name == b"retry" and value.isdigit() and len(digits := value.lstrip(b"0")) <= MOST_RETRY_DIGITS:
                self.retry_ms = int(digits or b"0")
            elif not name:
                self.comments += 1
        return fields


class _Fields(NamedTuple):
    data: list[bytes]
    type: str = ""


def _join_data(block: bytes) -> bytes | None:
    """Join a block of nothing but `data` lines by built-ins over all of it; None when its lines are of several kinds."""
    prefix = b"data: " if block.startswith(b"data: ") else b"data:"
    lines = block[len(prefix) : -1].split(b"\n" + prefix)
    if block.count(b"\n") != len(lines) or (prefix == b"data:" and b"\ndata: " in block):
        return None
    return b"\n".join(lines)
