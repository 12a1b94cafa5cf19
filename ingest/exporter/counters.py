"""Counter epochs of a GPU: tell a restart of its counters (driver load, GPU reset) from one counter that alone stepped back.

A new epoch begins when two or more volatile counters step back together, or when the energy counter alone restarts near zero and no
other counter contradicts. A lone step back, and every one of a lifetime counter, is `went_back`: there is no delta across it, and no
absolute difference ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingest.clock import NS
from ingest.exporter.fields import LIFETIME, VOLATILE
from ingest.exporter.rows import Columns

ENERGY = "energy_mj_total"
_MOST_POWER_W = 3_000  # no GPU draws more: energy above it cannot have been used since a restart within the gap
_TIMES = tuple(name for name in VOLATILE if name.endswith("_ns_total"))


class Counters:
    """The counters of one GPU as last seen."""

    def __init__(self) -> None:
        self.epoch = 0
        self._last: dict[str, int] = {}
        self._at_ns: dict[str, int] = {}

    def follow(self, columns: Columns, at_ns: int, slack_ns: int) -> int:
        """Take new readings, flag what went back or cannot be, and tell the epoch they belong to."""
        now = {name: columns.values[name] for name in (*VOLATILE, *LIFETIME) if columns.values.get(name) is not None}
        stepped = {name for name, value in now.items() if value < self._last.get(name, 0)}
        back = [name for name in VOLATILE if name in stepped]
        if len(back) > 1 or (back == [ENERGY] and self._energy_restarted(now, at_ns)):
            self.epoch += 1
            self._last = {name: value for name, value in self._last.items() if name in LIFETIME}
            stepped -= set(VOLATILE)
        else:
            self._check_times(columns, now, at_ns, slack_ns)
        columns.quality.update(dict.fromkeys(stepped, "went_back"))
        for name, value in now.items():
            if columns.quality.get(name) in (None, "went_back"):
                self._last[name] = value
                self._at_ns[name] = at_ns
        return self.epoch

    def _energy_restarted(self, now: Mapping[str, Any], at_ns: int) -> bool:
        elapsed_s = (at_ns - self._at_ns[ENERGY]) / NS
        others_stayed = any(self._last.get(name, 0) > 0 for name in now if name in VOLATILE and name != ENERGY)
        return not others_stayed and now[ENERGY] <= _MOST_POWER_W * 1000 * elapsed_s

    def _check_times(self, columns: Columns, now: Mapping[str, Any], at_ns: int, slack_ns: int) -> None:
        """Nothing is throttled for longer than time has passed: else the unit is not ns (dcgm-exporter#589)."""
        for name in _TIMES:
            if name in now and name in self._last:
                elapsed_ns = at_ns - self._at_ns[name]
                stale_ns = max(slack_ns, elapsed_ns)  # the value before may have been one update older than its scrape
                is_timed = elapsed_ns >= 0  # else the clock was set back, and nobody knows how much time has passed
                if is_timed and now[name] - self._last[name] > 1.05 * (elapsed_ns + stale_ns):
                    columns.drop(name, "unit_conflict")
