"""What the gauges of emulated GPUs show: utilisation, power, temperature, clocks, memory in use.

Power follows the job, temperature follows power and the air at the inlet; noise is counted per (seat, time slot). Readings are rounded
as the hardware rounds them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emulators import draws
from emulators.draws import Flags, Floats, Ints
from emulators.layout import DAY_NS, NS, NodeInfo, WorldSpec
from emulators.load import BUSY_SPAN_W, IDLE_W, WAITING_LOAD, WAITING_SHARE, Doing
from emulators.signs import GpuSigns

SLOWDOWN_C = 87.0
POWER_LIMIT_W = 700.0
MEMORY_MB, IDLE_MEMORY_MB = 81_559.0, 4.0
_THROTTLING_C, _HOT_C = 62.0, 66.0
_BOARD_C = (0.0, 1.5, 2.5, 1.0)  # the same air passes the seats one after the other


class Gauges:
    """The gauges of all seats."""

    def __init__(self, spec: WorldSpec, nodes: tuple[NodeInfo, ...], efficiency: Floats) -> None:
        self._spec = spec
        self._key = draws.key_of(spec.seed, "noise")
        self._efficiency = efficiency
        seats = np.arange(spec.nodes * spec.gpus_per_node)
        key = draws.key_of(spec.seed, "seats")
        self._offset_c: Floats = np.resize(_BOARD_C, spec.gpus_per_node)[seats % spec.gpus_per_node] + 1.6 * (
            draws.uniform(key, seats, 1) - 0.5
        )
        self._c_per_w: Floats = 0.052 * (1.0 + 0.12 * (draws.uniform(key, seats, 2) - 0.5))
        racks = [draws.key_of(spec.seed, "air", node.rack) for node in nodes]
        height = np.array([node.position for node in nodes]) / max(1, spec.nodes_per_rack - 1)
        self._phase: Floats = np.array([draws.uniform(rack, 1)[0] for rack in racks])
        self._inlet_c: Floats = 22.5 + 1.5 * height + np.array([2.0 * draws.uniform(rack, 2)[0] for rack in racks])

    def read(self, nodes: Ints, seats: Ints, at: Ints, *, doing: Doing, signs: GpuSigns, dips: Floats) -> dict[str, Any]:
        """Read the gauges of seats (polls, slots) at times (polls, 1); `dips` is the share of samples that wait for a bad network."""
        warm, work, watts, rare = draws.quarters(self._key, seats, (at - self._spec.start_ns) // (self._spec.cadence_s * NS))
        is_busy = doing.util_ratio > 0.0
        is_drooping = signs.is_drooping & (watts > -0.4)
        is_waiting = is_busy & (0.5 * (rare + 1.0) < WAITING_SHARE + dips)
        droop: Floats = np.where(is_drooping, signs.droop_ratio, 0.0)
        util = self._util(doing, work, is_waiting, droop)
        power = self._power(seats, util, np.where(is_busy, droop, 0.0), np.where(is_busy, 8.0, 1.5) * watts)
        air = self.inlet_c(nodes, at[:, 0])[:, None] + self._offset_c[seats]
        temp: Floats = np.round(air + self._c_per_w[seats] * power + signs.drift_c + 0.8 * warm)
        is_slow = (signs.sw_thermal_s > 0) & is_busy & (temp > _THROTTLING_C)
        is_hot = (signs.hw_thermal_s > 0) & is_busy & (temp > _HOT_C)
        sm_clock = 1980.0 - 420.0 * np.clip((util - 0.5) / 0.5, 0.0, 1.0) - 150.0 * is_slow - 400.0 * droop
        return {
            "temp_c": temp,
            "memory_temp_c": np.round(temp + 4.0 + 9.0 * util + 0.5 * work),
            "thermal_margin_c": SLOWDOWN_C - temp,
            "power_w": power,
            "power_limit_w": np.full(seats.shape, POWER_LIMIT_W),
            "sm_clock_mhz": np.where(is_busy, 15.0 * np.round(sm_clock / 15.0), 345.0),
            "memory_clock_mhz": np.full(seats.shape, 2619.0),
            "clock_event_reasons": _reasons(is_busy, power, is_slow, is_hot, is_drooping & is_busy),
            "gpu_util_ratio": np.round(util, 2),
            "memory_util_ratio": np.round(0.62 * util, 2),
            "memory_used_mb": np.where(is_busy, np.round(MEMORY_MB * doing.memory_share), IDLE_MEMORY_MB),
            "memory_total_mb": np.full(seats.shape, MEMORY_MB),
        }

    def _util(self, doing: Doing, work: Floats, is_waiting: Flags, droop: Floats) -> Floats:
        wide = doing.util_ratio * (1.0 + np.where(doing.is_swinging, 0.18, 0.05) * work)
        util: Floats = np.where(is_waiting, WAITING_LOAD, 1.0) * np.clip(wide, 0.0, 1.0) * (1.0 - 0.5 * droop)
        return util

    def _power(self, seats: Ints, util: Floats, droop: Floats, noise: Floats) -> Floats:
        wanted = self._efficiency[seats] * (IDLE_W + BUSY_SPAN_W * util) * (1.0 - droop) + noise
        power: Floats = np.round(8.0 * np.minimum(wanted, POWER_LIMIT_W)) / 8.0
        return power

    def inlet_c(self, nodes: Ints, times_ns: Ints) -> Floats:
        """Give the air temperature at the inlet of nodes: by rack and height, with the hour and the weather."""
        days = (times_ns - self._spec.start_ns) / DAY_NS
        hour = 0.7 * np.sin(2 * np.pi * (days - 0.4))
        weather = 0.9 * np.sin(2 * np.pi * (days / 9.3 + self._phase[nodes]))
        inlet: Floats = self._inlet_c[nodes] + hour + weather
        return inlet


def _reasons(is_busy: Flags, power: Floats, is_slow: Flags, is_hot: Flags, is_braked: Flags) -> Ints:
    """Set the bits of NVML's clock-event reasons: idle, power cap, software and hardware thermal slowdown, power brake."""
    usual = np.where(is_busy, 0x4 * (power > 600.0), 0x1)
    reasons: Ints = (usual | 0x20 * is_slow | (0x8 | 0x40) * is_hot | 0x80 * is_braked).astype(np.int64)
    return reasons
