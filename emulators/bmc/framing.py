"""Write payloads as server-sent events in a vendor's manner."""

from __future__ import annotations

import json
from collections.abc import Iterator

from emulators.bmc.messages import Body
from emulators.bmc.profile import Framing

BOM = b"\xef\xbb\xbf"


def frame(body: Body, number: int, framing: Framing) -> bytes:
    """Write one payload as one event."""
    space = " " if framing.has_space else ""
    lines = []
    if framing.names_event:
        kind = str(body.get("@odata.type", "")).removeprefix("#").partition(".")[0]
        lines.append(f"event:{space}{kind}")
    if framing.retry_ms is not None:
        lines.append(f"retry:{space}{framing.retry_ms}")
    if framing.ids != "absent":
        lines.append(f"id:{space}{_id(number, framing)}")
    text = json.dumps(body, indent=framing.indent, ensure_ascii=framing.is_ascii)
    lines += [f"data:{space}{line}" for line in text.split("\n")]
    lines += [""] if framing.has_blank_lines else []
    end = framing.line_end.decode()
    return (end.join(lines) + end).encode()


def comment(framing: Framing) -> bytes:
    """Write a keep-alive comment."""
    return b": stream keep-alive" + framing.line_end * 2


def pieces(raw: bytes, framing: Framing) -> Iterator[bytes]:
    """Cut a write into the pieces in which it goes out."""
    size = framing.split_bytes or len(raw)
    return (raw[start : start + size] for start in range(0, len(raw), size))


def _id(number: int, framing: Framing) -> int:
    if framing.ids == "constant":
        return 0
    return number // 2 if framing.ids == "repeating" else number
