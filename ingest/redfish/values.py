"""Read one metric value: a string by the standard, but vendors send numbers, booleans, words, durations, arrays and nothing at all."""

from __future__ import annotations

import math
import re

import msgspec

ABSENT = object()  # the member is not there, which is not the same as null
_EXACT = 2**53  # beyond it a float loses integers
_EXACT_DIGITS = 15
_INT64, _INT64_DIGITS = 2**63, 19
_MOST_BITS = 4096  # of an integer: beyond 4,300 digits `str` refuses
# Of few digits each: `int` refuses thousands, and of hundreds no float can be made. Nine digits of days are 2.7 million years.
_DURATION = re.compile(r"P(?:(\d{1,9})D)?(?:T(?:(\d{1,12})H)?(?:(\d{1,12})M)?(?:(\d{1,15})(?:\.(\d{1,12}))?S)?)?")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_NON_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_BOOLEANS = {"true": 1.0, "false": 0.0}


class Value(msgspec.Struct, frozen=True):
    """A metric value; `text` is as received wherever the number alone would lose something."""

    number: float | None = None
    text: str | None = None
    quality: str | None = None
    is_conforming: bool = True  # False: not the string that the standard asks for


def read_value(raw: object) -> Value:
    """Read a `MetricValue`; never raises and never returns a number that is not finite."""
    if isinstance(raw, str):
        return Value(float(raw)) if _is_plain(raw) else _read_text(raw)
    if raw is ABSENT:
        return Value(quality="absent")
    if raw is None:
        return Value(quality="blank")
    if isinstance(raw, bool):
        return Value(float(raw), is_conforming=False)
    if isinstance(raw, float) or (isinstance(raw, int) and raw.bit_length() <= _MOST_BITS):
        return msgspec.structs.replace(_read_text(str(raw)), is_conforming=False)
    return Value(text=_spell(raw), quality="invalid", is_conforming=False)


def _spell(raw: object) -> str:
    """Write down what came instead of a string; its type alone where it is too long or too deep to be written."""
    try:
        return msgspec.json.encode(raw).decode()
    except (ValueError, OverflowError, RecursionError):
        return f"unreadable {type(raw).__name__}"


def _is_plain(raw: str) -> bool:
    """Tell whether a text is a small number without sign or exponent, as most are: the pattern of all numbers takes three times as long."""
    return len(raw) <= _EXACT_DIGITS and raw.isascii() and raw.replace(".", "", 1).isdigit()


def _read_text(raw: str) -> Value:
    text = raw.strip()
    if _NUMBER.fullmatch(text):
        return _read_number(text)
    if not text or text == "null":
        return Value(quality="blank")
    if text in _BOOLEANS:
        return Value(_BOOLEANS[text], raw)
    if _NON_FINITE.fullmatch(text):
        return Value(text=raw, quality="invalid")
    if (seconds := read_duration(text)) is not None:
        return Value(seconds, raw)
    return Value(text=raw)


def _read_number(text: str) -> Value:
    number = float(text)
    if -_EXACT < number < _EXACT:
        return Value(number)
    if not math.isfinite(number):
        return Value(text=text, quality="invalid")
    digits = text.lstrip("+-")
    if not digits.isdigit():
        return Value(number)
    return Value(number, text, "overflow" if text[0] != "-" and _is_beyond_int64(digits.lstrip("0")) else None)


def _is_beyond_int64(digits: str) -> bool:
    return len(digits) > _INT64_DIGITS or int(digits) >= _INT64  # in this order: `int` raises for thousands of digits


def read_duration(text: str) -> float | None:
    """Read an ISO 8601 duration of days and smaller into seconds, `PT` and `P3DT` of NVIDIA's formatters too; None if it is none."""
    found = _DURATION.fullmatch(text)
    if found is None or text == "P":
        return None
    days, hours, minutes, seconds, fraction = found.groups(default="")
    whole = int(days or 0) * 86_400 + int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return whole + float(f"0.{fraction}") if fraction else float(whole)
