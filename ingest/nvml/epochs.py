"""Counter epochs of a GPU: tell a restart of its counters (reboot, driver load, GPU reset) from one counter that alone stepped back.

A new epoch begins when the boot or the driver version changes, when the uptime goes back, or when two or more volatile counters step
back together; energy alone counts where nothing contradicts, since most counters of a healthy GPU are zero. A lone step back, and every
one of a lifetime counter, is `went_back`: its value is kept and there is no delta across it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ingest.nvml.signals import LIFETIME, VOLATILE

ENERGY = "energy_mj_total"
_UPTIME_SLACK_S = 2.0  # whole seconds, read a little after the sample's time


class Epoch(msgspec.Struct):
    """Where the counters of one GPU stand."""

    boot_id: str | None = None
    driver_version: str | None = None
    number: int = 0
    uptime_s: float | None = None
    counters: dict[str, int] = {}
    lifetime: dict[str, int] = {}

    def follow(self, values: Mapping[str, Any], *, boot_id: str | None, driver_version: str | None) -> set[str]:
        """Take new readings and name the counters that stepped back for no good reason; `number` is then the epoch of these readings."""
        now = {name: int(values[name]) for name in VOLATILE if name in values}
        back = {name for name, value in now.items() if value < self.counters.get(name, 0)}
        if self.boot_id is not None and boot_id != self.boot_id:
            self.number = 0
            is_new = True
        else:
            is_new = self._is_new(values, now, back, driver_version)
            self.number += is_new
        if is_new:
            self.counters.clear()
            back.clear()
        self.boot_id, self.driver_version = boot_id, driver_version or self.driver_version
        self.uptime_s = values.get("uptime_s", self.uptime_s)
        self.counters.update(now)
        return back | self._follow_lifetime(values)

    def _follow_lifetime(self, values: Mapping[str, Any]) -> set[str]:
        now = {name: int(values[name]) for name in LIFETIME if name in values}
        back = {name for name, value in now.items() if value < self.lifetime.get(name, 0)}
        self.lifetime.update(now)
        return back

    def _is_new(self, values: Mapping[str, Any], now: Mapping[str, int], back: set[str], driver_version: str | None) -> bool:
        if self.driver_version is not None and driver_version not in (None, self.driver_version):
            return True
        uptime = values.get("uptime_s")
        if uptime is not None and self.uptime_s is not None:
            return bool(uptime < self.uptime_s - _UPTIME_SLACK_S)
        if back == {ENERGY}:
            return not any(self.counters.get(name, 0) > 0 for name in now if name != ENERGY)
        return len(back) > 1
