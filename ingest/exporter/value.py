"""What the text of a value means: a number, or the quality code of a value that is none.

DCGM marks missing values by numbers (dcgmlib/dcgm_structs.h): int32 from 0x7ffffff0, int64 from 0x7ffffffffffffff0, fp64 from 2^47,
each base + 0 blank, + 1 not found, + 2 not supported, + 3 not permitted, and strings in `<<<>>>`. They are compared before any
conversion to float. Integer sentinels all read as blank: one pass through a double anywhere on the way makes them one number.
"""

from __future__ import annotations

import math
from contextlib import suppress

from ingest.errors import RecordRejected

Number = int | float
Value = Number | str  # a str is a quality code

_CODES = ("blank", "blank", "not_supported", "no_permission")
_INT32_BLANK = 0x7FFFFFF0
_INT64_BLANK = 0x7FFFFFFFFFFFFFF0
_FP64_BLANK = 140737488355328
_UNDERSCORE, _POINT = b"_."  # as numbers: looked for four times as fast as bytes
_MOST_DIGITS = 20  # those of an uint64; Python refuses thousands
_INT64_ULP = 1024  # doubles just below 2^63 lie this far apart
_STRINGS = {
    b"<<<NULL>>>": "blank",
    b"<<<NOT_FOUND>>>": "blank",
    b"<<<NOT_SUPPORTED>>>": "not_supported",
    b"<<<NOT_PERM>>>": "no_permission",
}
SATURATED = (2**31 - 1, 2**32 - 1)  # a counter that stands here has run full or was read through a narrower type


def read_value(text: bytes) -> Value:
    """Read the text of a value; raises RecordRejected with reason `empty_value` or `non_numeric`."""
    if text.isdigit() and len(text) <= _MOST_DIGITS:
        number: Number = int(text)
    elif text in _STRINGS:
        return _STRINGS[text]
    else:
        number = _number(text)
    if -_INT32_BLANK < number < _INT32_BLANK:
        return number
    if not math.isfinite(number):
        return "blank"
    return _sentinel(number) or number


def _number(text: bytes) -> Number:
    if not text:
        raise RecordRejected("empty_value")
    if _UNDERSCORE in text or not text.isascii():
        raise RecordRejected("non_numeric", repr(text))
    if _POINT not in text and len(text) <= _MOST_DIGITS:  # a failed conversion costs more than all the rest; a longer one is a double's
        with suppress(ValueError):
            return int(text)
    try:
        return float(text)
    except ValueError:
        raise RecordRejected("non_numeric", repr(text)) from None


def _sentinel(number: Number) -> str | None:
    if number < _INT32_BLANK:
        return None
    if _INT32_BLANK <= number <= _INT32_BLANK + 3 or abs(number - 2**63) <= _INT64_ULP:
        return "blank"
    if _FP64_BLANK <= number <= _FP64_BLANK + 3:
        return _CODES[int(number) - _FP64_BLANK]
    return None
