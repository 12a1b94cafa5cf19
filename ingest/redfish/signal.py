"""What a canonical signal is: its name, the part it describes, its unit and how a reading becomes a value of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Words = Mapping[str, float]

UNITS = (
    ("_temp_c", "°C"), ("temp_c", "°C"), ("_margin_c", "°C"), ("_limit_c", "°C"), ("_delta_c", "°C"), ("_rpm", "RPM"), ("_j_total", "J"),
    ("_s_total", "s"), ("_bytes_total", "bytes"), ("_total", "count"), ("_ratio", "0..1"), ("_gbps", "Gbit/s"), ("_mhz", "MHz"),
    ("_hz", "Hz"), ("_kpa", "kPa"), ("_lpm", "L/min"), ("_cfm", "ft³/min"), ("_ma", "mA"), ("_mw", "mW"), ("_lanes", "lanes"),
    ("_w", "W"), ("_v", "V"), ("_a", "A"),
)  # fmt: skip


class Signal(NamedTuple):
    """A canonical signal; a reading becomes `reading * scale + offset`, a word the number that `words` gives it (lower case)."""

    quantity: str
    device: str | None
    unit: str | None = None
    scale: float = 1.0
    offset: float = 0.0
    words: Words | None = None


UNMAPPED = Signal("raw", None)
PRESENCE_WORDS: Words = {"absent": 0.0} | dict.fromkeys(
    ("enabled", "disabled", "standby", "standbyoffline", "standbyspare", "intest", "starting", "deferring", "quiesced", "updating"), 1.0
)


def unit_of(quantity: str) -> str | None:
    """Tell the unit that a quantity's name carries."""
    return next((unit for ending, unit in UNITS if quantity.endswith(ending)), None)
