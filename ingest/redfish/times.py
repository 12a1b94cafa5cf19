"""Find the event time of a metric value: its own timestamp, else its report's, else the time of receipt with the reason."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import NamedTuple

from ingest.clock import NS, ns_of

EARLIEST_NS = ns_of(datetime(2015, 1, 1, tzinfo=UTC))  # before it: a clock that was never set
MAX_AHEAD_NS = 86_400 * NS
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?\s*(?:([Zz])|([+-])(\d\d):?(\d\d))?",
)


class EventTime(NamedTuple):
    """When it was so, and `quality` if the BMC's own time had to be amended or replaced: its code, a colon and the raw text."""

    at_ns: int
    quality: str | None = None

    @property
    def is_of_receipt(self) -> bool:
        """Tell whether the BMC's own time is missing or cannot be used."""
        return self.quality is not None and not self.quality.startswith("zone_missing")


def find_time(stamps: tuple[object, ...], received_at_ns: int) -> EventTime:
    """Take the first stamp that is given; one that cannot be used yields the time of receipt."""
    for stamp in stamps:
        if stamp is not None:
            return _judge(stamp, received_at_ns)
    return EventTime(received_at_ns, "time_absent")


def _judge(stamp: object, received_at_ns: int) -> EventTime:
    at_ns, names_zone = read_time(stamp) if isinstance(stamp, str) else (None, True)
    if at_ns is None:
        return EventTime(received_at_ns, f"time_invalid:{stamp}")
    if at_ns < EARLIEST_NS:
        return EventTime(received_at_ns, f"clock_unset:{stamp}")
    if at_ns > received_at_ns + MAX_AHEAD_NS:
        return EventTime(received_at_ns, f"clock_skew:{stamp}")
    return EventTime(at_ns, None if names_zone else f"zone_missing:{stamp}")


@lru_cache(maxsize=4096)  # the values of one report share few stamps
def read_time(text: str) -> tuple[int | None, bool]:
    """Read a date and time into UTC nanoseconds (None if it is none) and tell whether it names its zone."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        return None, True
    *date, fraction, zulu, sign, hours, minutes = found.groups()
    try:
        at = datetime(*map(int, date), tzinfo=_zone(sign, hours, minutes))  # type: ignore[misc, arg-type]  # six ints
        return ns_of(at) + int((fraction or "0")[:9].ljust(9, "0")), bool(zulu or sign)
    except (ValueError, OverflowError):
        return None, True


def _zone(sign: str | None, hours: str | None, minutes: str | None) -> timezone:
    if sign is None:
        return UTC
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    return timezone(-offset if sign == "-" else offset)
