"""Texts of values and the sentinels among them (dcgmlib/dcgm_structs.h)."""

import pytest

from ingest.errors import RecordRejected
from ingest.exporter.value import read_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"41", 41),
        (b"-1", -1),
        (b"412.500000", 412.5),
        (b"4.1e3", 4100.0),
        (b"9223372036854775792", "blank"),
        (b"9223372036854775793", "blank"),
        (b"9223372036854775794", "blank"),
        (b"9223372036854775795", "blank"),
        (b"9223372036854775807", "blank"),
        (b"9223372036854775808", "blank"),
        (b"9.223372036854775807e+18", "blank"),
        (b"9.223372036854775e+18", "blank"),
        (b"2147483632", "blank"),
        (b"2147483635", "blank"),
        (b"2147483632.000000", "blank"),
        (b"140737488355328.000000", "blank"),
        (b"140737488355329", "blank"),
        (b"140737488355330.000000", "not_supported"),
        (b"140737488355331.0", "no_permission"),
        (b"<<<NULL>>>", "blank"),
        (b"<<<NOT_FOUND>>>", "blank"),
        (b"<<<NOT_SUPPORTED>>>", "not_supported"),
        (b"<<<NOT_PERM>>>", "no_permission"),
        (b"NaN", "blank"),
        (b"Nan", "blank"),
        (b"+Inf", "blank"),
        (b"-Inf", "blank"),
        (b"1e999", "blank"),
    ],
)
def test_values_and_sentinels(text: bytes, value: float | str) -> None:
    """A sentinel is a code, never a number."""
    assert read_value(text) == value


@pytest.mark.parametrize(
    "number", [2147483631, 2147483636, 2147483647, 4294967295, 140737488355327, 140737488355332, 2**63 - 1025, 2**64 - 1]
)
def test_neighbours_of_sentinels_are_numbers(number: int) -> None:
    """What is not exactly a code of DCGM stays what it is."""
    assert read_value(str(number).encode()) == number


@pytest.mark.parametrize("text", [b"N/A", b"MIG-GPU-0a1b2c30/3", b"0x10", b"1_000", b"1,5", "٤١".encode(), b"--1"])
def test_text_is_rejected(text: bytes) -> None:
    """Text is no number."""
    with pytest.raises(RecordRejected, match="non_numeric"):
        read_value(text)


def test_nothing_is_rejected() -> None:
    """An empty value has a reason of its own."""
    with pytest.raises(RecordRejected, match="empty_value"):
        read_value(b"")
