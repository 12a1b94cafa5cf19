"""Firmware versions are compared by their numbers, wherever a BMC's firmware changes."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from emulators.bmc.server import Bmc
from ingest.redfish.versions import is_newer


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("10.0", "4.0"),
        ("7.10.30.00", "7.9.99.99"),
        ("1.10.2", "1.10"),
        ("v2.18.0", "2.17.0"),
        ("2.18.0", "2.18.0-rc1"),
        ("bmc-2.18-b", "bmc-2.18-a"),
        ("6.00.02", "5.10.50"),
    ],
)
def test_versions_compare_numerically(newer: str, older: str) -> None:
    """Case 41: 10.x comes after 4.x, which text has the other way round."""
    assert is_newer(newer, older)
    assert not is_newer(older, newer)


def test_version_of_thousands_of_digits_is_compared() -> None:
    """A version that no number can hold is compared like any other."""
    assert is_newer("1." + "9" * 5000, "1.2")


@pytest.mark.parametrize(("one", "other"), [("7.10.30.00", "7.10.30.0"), ("V1.2", "1.2"), ("", "")])
def test_equal_versions_are_not_newer(one: str, other: str) -> None:
    """Leading zeros and the letter v change nothing."""
    assert not is_newer(one, other)
    assert not is_newer(other, one)


@pytest.mark.parametrize(("before", "now", "step"), [("4.9.1", "10.0.0", "upgrade"), ("10.0.0", "4.9.1", "downgrade")])
async def test_change_of_firmware_is_logged_with_its_direction(rig: Any, before: str, now: str, step: str) -> None:
    """A BMC whose firmware changes is learnt anew, and the log says from where to where."""

    def set_firmware(bmc: Bmc) -> None:
        bmc.tree.hardware.firmware = before

    bmc = await rig.serve(setup=set_firmware)
    with capture_logs() as lines:
        await rig.watch()
        await rig.until(lambda _: rig.readings("inlet_temp_c"))
        bmc.tree.hardware.firmware = now
        await rig.until(lambda _: any(line["event"] == "redfish_firmware_changed" for line in lines), deadline_s=30.0)
    (line,) = [line for line in lines if line["event"] == "redfish_firmware_changed"]
    assert (line["node"], line["before"], line["now"], line["step"]) == ("gpu001", before, now, step)
