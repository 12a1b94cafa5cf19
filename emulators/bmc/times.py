"""Times as a BMC writes them."""

from __future__ import annotations

from datetime import UTC, datetime

NS = 1_000_000_000


def stamp(at_ns: int) -> str:
    """Write UTC nanoseconds as a date and time with milliseconds and offset."""
    seconds, ns = divmod(at_ns, NS)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=ns // 1000).isoformat(timespec="milliseconds")


def duration(seconds: float) -> str:
    """Write seconds as an ISO 8601 duration."""
    return f"PT{seconds:g}S" if seconds < 1e6 else f"PT{round(seconds)}S"
