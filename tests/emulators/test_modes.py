"""The rates of the failure modes (check values CV-68 and CV-76)."""

from __future__ import annotations

import pytest

from emulators.modes import HARDWARE_TOTAL, MODES, OUTSIDE_THE_SUM, TABLE_TOTAL, rates


def test_the_rows_add_up_to_the_llama_table() -> None:
    """419 interruptions in 110.592 thousand node-days; 324 of them hardware (CV-68)."""
    assert pytest.approx(3.7887, abs=5e-5) == TABLE_TOTAL
    assert pytest.approx(2.9297, abs=5e-5) == HARDWARE_TOTAL
    assert MODES["gpu_faulty"].rate == pytest.approx(0.8883, abs=5e-5)


@pytest.mark.parametrize(
    ("profile", "scope", "mode", "factor"),
    [
        ("llama3", "all", "hbm_ue", 1.0),
        ("rsc1", "all", "hbm_ue", 1.7156),
        ("rsc2", "all", "software", 0.6176),
        ("rsc1", "hardware", "hbm_ue", 2.2187),
        ("rsc1", "hardware", "software", 1.0),
        ("rsc2", "hardware", "nvlink", 0.7987),
    ],
)
def test_a_profile_scales_the_rows(profile: str, scope: str, mode: str, factor: float) -> None:
    """RSC-1 and RSC-2 scale every row, or the hardware rows only (CV-68)."""
    assert rates(profile, scope)[mode] / MODES[mode].rate == pytest.approx(factor, abs=5e-5)


def test_the_visible_share_of_hardware_failures() -> None:
    """30 % of hardware failures have a precursor at scale 1, 27 % a numeric one (CV-76)."""
    hardware = [mode for mode in MODES.values() if mode.is_hardware and mode.id not in OUTSIDE_THE_SUM]
    visible = sum(mode.rate * mode.share for mode in hardware) / HARDWARE_TOTAL
    structural = MODES["fell_off_bus"].rate * MODES["fell_off_bus"].share / HARDWARE_TOTAL
    assert visible == pytest.approx(0.3019, abs=1e-4)
    assert visible - structural == pytest.approx(0.2712, abs=1e-4)


def test_the_show_profile_has_the_same_hardware_total() -> None:
    """The mix for showing moves failures between modes and adds none."""
    shown = rates("show")
    assert sum(shown[mode.id] for mode in MODES.values() if mode.is_hardware) == pytest.approx(HARDWARE_TOTAL)
