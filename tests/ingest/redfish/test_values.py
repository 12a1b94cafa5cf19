"""A metric value in any form becomes a finite number, a text, or nothing with a reason."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.redfish.values import ABSENT, Value, read_duration, read_value
from ingest.schema import QUALITY


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("32.937500", Value(32.9375)),
        (" 42 ", Value(42.0)),
        ("1e+06", Value(1e6)),
        ("-0.5", Value(-0.5)),
        ("1.8e38", Value(1.8e38)),
        ("9007199254740993", Value(9007199254740992.0, "9007199254740993")),
        ("18446744073709551615", Value(18446744073709551616.0, "18446744073709551615", "overflow")),
        ("1e999", Value(None, "1e999", "invalid")),
        ("nan", Value(None, "nan", "invalid")),
        ("-NaN", Value(None, "-NaN", "invalid")),
        ("inf", Value(None, "inf", "invalid")),
        ("-inf", Value(None, "-inf", "invalid")),
        ("null", Value(None, None, "blank")),
        (None, Value(None, None, "blank")),
        ("", Value(None, None, "blank")),
        (ABSENT, Value(None, None, "absent")),
        ("true", Value(1.0, "true")),
        ("false", Value(0.0, "false")),
        ("PT1M2.5S", Value(62.5, "PT1M2.5S")),
        ("P3DT0.000000001S", Value(259200.000000001, "P3DT0.000000001S")),
        ("P3DT", Value(259200.0, "P3DT")),
        ("PT", Value(0.0, "PT")),
        ("P1DT", Value(86400.0, "P1DT")),
        ("Gen5", Value(None, "Gen5")),
        ('["Idle","AppClock"]', Value(None, '["Idle","AppClock"]')),
        ("0x1F", Value(None, "0x1F")),
        ("1,234.5", Value(None, "1,234.5")),
        ("1_000", Value(None, "1_000")),
        (33, Value(33.0, is_conforming=False)),
        (True, Value(1.0, is_conforming=False)),
        ({"a": 1}, Value(None, '{"a":1}', "invalid", is_conforming=False)),
        ([1, 2], Value(None, "[1,2]", "invalid", is_conforming=False)),
    ],
)
def test_forms_of_a_value(raw: Any, value: Value) -> None:
    """Each form that vendors send reads as the design's table says."""
    assert read_value(raw) == value


ZEROS = "0" * 4990 + "9007199254740993"


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        pytest.param(ZEROS, Value(9007199254740992.0, ZEROS), id="zeros"),
        pytest.param("9" * 5000, Value(None, "9" * 5000, "invalid"), id="5000 digits"),
        pytest.param("9" * 300, Value(float("9" * 300), "9" * 300, "overflow"), id="300 digits"),
        pytest.param("-" + "9" * 300, Value(float("-" + "9" * 300), "-" + "9" * 300), id="300 digits below zero"),
        pytest.param("P" + "9" * 400 + "D", Value(None, "P" + "9" * 400 + "D"), id="400 digits of days"),
        pytest.param("P" + "9" * 5000 + "D", Value(None, "P" + "9" * 5000 + "D"), id="5000 digits of days"),
        pytest.param("PT" + "9" * 400 + "S", Value(None, "PT" + "9" * 400 + "S"), id="400 digits of seconds"),
        pytest.param(10**400, Value(None, "1" + "0" * 400, "invalid", is_conforming=False), id="integer"),
        pytest.param(10**5000, Value(None, "unreadable int", "invalid", is_conforming=False), id="integer beyond text"),
        pytest.param([10**5000], Value(None, "unreadable list", "invalid", is_conforming=False), id="list of it"),
    ],
)
def test_numbers_without_end(raw: Any, value: Value) -> None:
    """A number of hundreds of digits is what it can be, or nothing with a reason."""
    assert read_value(raw) == value


@given(st.one_of(st.text(max_size=40), st.floats(), st.integers(), st.none(), st.booleans(), st.lists(st.integers(), max_size=3)))
def test_any_value_is_finite_or_nothing(raw: Any) -> None:
    """No value raises, none yields a number that is not finite, and a reason is one that the tables know."""
    value = read_value(raw)
    assert value.number is None or math.isfinite(value.number)
    assert value.quality is None or value.quality in QUALITY
    assert value.number is not None or value.text is not None or value.quality is not None


@given(
    st.sampled_from(["P{}D", "PT{}H", "PT{}M", "PT{}S", "{}", "-{}", "{}.5", "1e{}", "0.{}"]),
    st.sampled_from("019\u0669\u00b2"),
    st.sampled_from([15, 16, 19, 20, 308, 309, 400, 4300, 4301, 5000]),
)
def test_any_number_of_digits_is_finite_or_nothing(form: str, digit: str, digits: int) -> None:
    """However many digits a value has, it does not raise and yields no number that is not finite."""
    value = read_value(form.format(digit * digits))
    assert value.number is None or math.isfinite(value.number)


@given(st.integers(0, 400), st.integers(0, 86_399), st.integers(0, 999_999_999))
def test_durations_of_nvidia_read_back(days: int, seconds: int, ns: int) -> None:
    """A duration in days, hours, minutes and nanoseconds is the sum of its parts."""
    hours, minutes = seconds // 3600, seconds % 3600 // 60
    text = f"P{days}DT{hours}H{minutes}M{seconds % 60}.{ns:09d}S"
    read = read_duration(text)
    assert read is not None
    assert math.isclose(read, days * 86_400 + seconds + ns / 1e9, rel_tol=1e-15, abs_tol=1e-9)


@pytest.mark.parametrize("text", ["P", "1D", "PX", "P1Y", "-PT1S", "PT1.S", "P9999999999D", "PT" + "1" * 16 + "S"])
def test_what_is_no_duration(text: str) -> None:
    """Anything else is no duration."""
    assert read_duration(text) is None
