"""Turn the words of NVIDIA's ThrottleReasons into one signal per reason, so that a reason that is gone reads as cleared.

A BMC spreads the array over rows (`.../ThrottleReasons/0`, `/1`, ...) or sends it as JSON text; all rows of one component and instant are
one set. The names are those of NVML's clock-event reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ingest.schema import ChassisReading

REASONS: Mapping[str, str] = {
    "swpowercap": "throttle_sw_power",  # NVML bit 0x4
    "hwslowdown": "throttle_hw_slowdown",  # 0x8
    "hwthermalslowdown": "throttle_hw_thermal",  # 0x40
    "hwpowerbrakeslowdown": "throttle_hw_power_brake",  # 0x80
    "syncboost": "throttle_sync_boost",  # 0x10
}
_SW_THERMAL = "throttle_sw_thermal"  # 0x20: the BMC says it in a sentence about the maximum operating temperature
SIGNALS = (*REASONS.values(), _SW_THERMAL)


def throttle_readings(readings: Iterable[ChassisReading]) -> list[ChassisReading]:
    """Derive the readings 0 or 1 of each reason from the sets among `readings`."""
    sets: dict[tuple[str, int], list[ChassisReading]] = {}
    for reading in readings:
        if reading.quantity == "throttle_reason_set" and reading.text is not None:
            sets.setdefault((_series(reading.sensor), reading.observed_at_ns), []).append(reading)
    return [derived for (sensor, _), rows in sets.items() for derived in _derive(sensor, rows)]


def _series(sensor: str) -> str:
    head, _, last = sensor.rpartition("/")
    return head if last.isdigit() else sensor


def _derive(sensor: str, rows: list[ChassisReading]) -> list[ChassisReading]:
    active = {_signal(word) for row in rows for word in _words(row.text or "")}
    return [
        msgspec.structs.replace(
            rows[0], sensor=f"{sensor}/{signal}", quantity=signal, value=float(signal in active), text=None, unit=None, quality=None
        )
        for signal in SIGNALS
    ]


def _words(text: str) -> list[str]:
    if not text.startswith("["):
        return [text]
    try:
        return msgspec.json.decode(text, type=list[str])
    except msgspec.DecodeError:
        return []


def _signal(word: str) -> str | None:
    plain = word.strip().lower()
    return _SW_THERMAL if "operating temperature" in plain else REASONS.get(plain)
