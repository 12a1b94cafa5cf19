"""What the GPUs of an emulated fleet read at given times: one vectorised function for history in bulk and for the live devices alike.

A poll is a (node, time); every result has the shape (polls, GPUs per node). Readings are rounded as the hardware rounds them. Noise is
a function of (seed, seat, time slot), counters are sums of events, energy is an integral in closed form: the order of evaluation never
matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulators import draws
from emulators.bursts import ErrorHistory
from emulators.draws import Floats, Ints
from emulators.gauges import Gauges
from emulators.layout import DAY_NS, LINKS, NS, NodeInfo, WorldSpec
from emulators.load import Doing, Load
from emulators.signs import GpuSigns, Signs
from emulators.steps import Counter, Steps
from emulators.timeline import Timeline

Columns = Mapping[str, NDArray[Any]]

VOLATILE = ("dram_ce", "dram_ue", "sram_ce", "sram_ue", "remap_pending", "pcie_correctable", "pcie_l0_to_recovery")
PERSISTENT = ("dram_ce", "dram_ue", "sram_ce", "sram_ue", "remap_ce", "remap_ue", "remap_failed")
LINK_COUNTERS = ("link_crc", "link_replay", "link_recovery")
SRAM_THRESHOLD = 4  # uncorrected errors of a lifetime
SPARE_ROWS = 6  # remapped rows from which a bank has few left
_HAD_BEFORE = {"dram_ce": 0.04, "remap_ce": 0.01}
RESET_REQUIRED, REBOOT_REQUIRED = 1, 2  # XID 154 and nvmlDeviceGetFieldValues 230


class Telemetry:
    """The readings of all GPUs as a function of time."""

    def __init__(
        self,
        *,
        spec: WorldSpec,
        nodes: tuple[NodeInfo, ...],
        timeline: Timeline,
        load: Load,
        signs: Signs,
        errors: ErrorHistory,
        xids: tuple[Ints, Ints, Ints],
    ) -> None:
        """Prepare the lookups; `xids` are (seat, time, code) of every XID of the fleet."""
        self._spec = spec
        self._timeline = timeline
        self._load = load
        self._signs = signs
        self._seats = spec.nodes * spec.gpus_per_node
        self._slots: Ints = np.arange(spec.gpus_per_node)
        self.gauges = Gauges(spec, nodes, load.efficiency)
        origin = timeline.origin_ns
        self._counters = {name: _counter(errors, name, origin, self._seats) for name in dict.fromkeys(VOLATILE + PERSISTENT)}
        self._link_totals = {name: _counter(errors, name, origin, self._seats, per=LINKS) for name in LINK_COUNTERS}
        self._links = {name: _counter(errors, name, origin, self._seats * LINKS) for name in LINK_COUNTERS}
        self._boot_base = self._bases()
        counts, level = draws.uniform(draws.key_of(spec.seed, "replays"), np.array([[1], [2]]), np.arange(self._seats))
        self._replays: Ints = np.where(counts < 0.6, 106 + 68 * level, 0).astype(np.int64)  # healthy H100s show 106-174, or none
        self._gpu_base = {
            name: self._counters[name].total(timeline.seat_of_gpu, timeline.installed_ns) - _before(spec, name, timeline)
            for name in PERSISTENT
        }
        self._xid_steps = Steps(xids[0], xids[1], origin_ns=origin, size=self._seats)
        self._xid_code: Ints = np.append(xids[2][self._xid_steps.order], -1)
        self._xid_ns: Ints = np.append(xids[1][self._xid_steps.order], 0)

    def _bases(self) -> dict[str, Ints]:
        """Read every volatile counter at every boot, per slot."""
        seats = self._seat(self._timeline.boot_node)
        at = self._timeline.boot_ns[:, None]
        load = self._load.at(seats, at)
        bases: dict[str, Any] = {name: self._counters[name].total(seats, at) for name in VOLATILE}
        bases |= {name: counter.total(seats, at) for name, counter in self._link_totals.items()}
        return bases | {"energy_j": load.energy_j, "capped_s": load.capped_s}

    def _seat(self, nodes: Ints) -> Ints:
        seats: Ints = nodes[:, None] * self._spec.gpus_per_node + self._slots[None, :]
        return seats

    def columns(self, nodes: Ints, times_ns: Ints) -> Columns:
        """Read all GPUs of the polls; besides columns of `gpu_samples`: gpu (its number), is_lost, is_hidden, boot."""
        at = times_ns[:, None]
        seats = self._seat(nodes)
        boot = self._timeline.boots(nodes, times_ns)
        gpu = self._timeline.gpus_at(seats, at)
        boot_ns = self._timeline.boot_ns[boot][:, None]
        doing = self._load.at(seats, at)
        signs = self._signs.of_gpus(seats, at, boot_ns)
        dips = self._signs.of_nodes(nodes, times_ns).dip_ratio[:, None]
        read = {
            "gpu": gpu,
            "boot": np.broadcast_to(boot[:, None], seats.shape),
            "is_lost": signs.is_lost,
            "is_hidden": signs.is_hidden,
            "uptime_s": np.broadcast_to(np.floor((at - boot_ns) / NS), seats.shape),
            **self.gauges.read(nodes, seats, at, doing=doing, signs=signs, dips=dips),
            **self._times(doing, signs, boot),
            **self._errors(boot, gpu, seats, at),
            **self._links_and_bus(boot, seats, at, boot_ns, signs),
            "xid_last": self._xid_last(seats, at, boot_ns),
            "recovery_action": np.where(signs.dying >= 0, np.where(signs.is_lost, REBOOT_REQUIRED, RESET_REQUIRED), 0),
        }
        return {name: np.ascontiguousarray(values) for name, values in read.items()}

    def _times(self, doing: Doing, signs: GpuSigns, boot: Ints) -> dict[str, Any]:
        energy_j = np.maximum(doing.energy_j - self._boot_base["energy_j"][boot], 0.0)
        capped_s = np.maximum(doing.capped_s - self._boot_base["capped_s"][boot], 0.0)
        return {
            "energy_mj_total": (energy_j * 1000.0).astype(np.int64),
            "sw_power_cap_ns_total": _ns(capped_s),
            "sw_thermal_ns_total": _ns(np.maximum(signs.sw_thermal_s, 0.0)),
            "hw_thermal_ns_total": _ns(np.maximum(signs.hw_thermal_s, 0.0)),
            "hw_power_brake_ns_total": _ns(signs.brake_s),
        }

    def _errors(self, boot: Ints, gpu: Ints, seats: Ints, at: Ints) -> dict[str, Any]:
        totals = {name: self._counters[name].total(seats, at) for name in dict.fromkeys(VOLATILE + PERSISTENT)}
        volatile = {name: totals[name] - self._boot_base[name][boot] for name in VOLATILE}
        lifetime = {name: totals[name] - self._gpu_base[name][gpu] for name in PERSISTENT}
        read = {f"{name}_volatile_total": volatile[name] for name in ("dram_ce", "dram_ue", "sram_ce", "sram_ue")}
        read |= {f"{name}_aggregate_total": lifetime[name] for name in ("dram_ce", "dram_ue", "sram_ce", "sram_ue")}
        for kind in ("ce", "ue"):
            read[f"ecc_{kind}_volatile_total"] = volatile[f"dram_{kind}"] + volatile[f"sram_{kind}"]
            read[f"ecc_{kind}_aggregate_total"] = lifetime[f"dram_{kind}"] + lifetime[f"sram_{kind}"]
            read[f"remapped_rows_{kind}_total"] = lifetime[f"remap_{kind}"]
        flags: dict[str, Any] = {
            "remap_pending": volatile["remap_pending"] > 0,
            "remap_failure": lifetime["remap_failed"] > 0,
            "sram_threshold_exceeded": lifetime["sram_ue"] > SRAM_THRESHOLD,
            "remap_banks_low": (lifetime["remap_ue"] > SPARE_ROWS).astype(np.int64),
            "remap_banks_none": np.zeros(seats.shape, np.int64),
        }
        return read | flags | {f"{name}_total": volatile[name] for name in ("pcie_correctable", "pcie_l0_to_recovery")}

    def _links_and_bus(self, boot: Ints, seats: Ints, at: Ints, boot_ns: Ints, signs: GpuSigns) -> dict[str, Any]:
        totals = {name: counter.total(seats, at) - self._boot_base[name][boot] for name, counter in self._link_totals.items()}
        replay = self._replays[seats] + (at - boot_ns) // (3 * DAY_NS)
        return {
            "nvlink_crc_total": totals["link_crc"],
            "nvlink_replay_total": totals["link_replay"],
            "nvlink_recovery_total": totals["link_recovery"],
            "nvlink_active": LINKS - self._signs.has_link_down(signs.dying).astype(np.int64),
            "fabric_state": np.full(seats.shape, 3),
            "pcie_replay_total": replay,
            "pcie_link_gen": np.full(seats.shape, 5),
            "pcie_link_width": np.where(signs.is_narrow, 8, 16),
        }

    def _xid_last(self, seats: Ints, at: Ints, boot_ns: Ints) -> Ints:
        """Give the last XID since boot, -1 where there is none."""
        last = self._xid_steps.last(seats, np.broadcast_to(at, seats.shape))
        is_known = (last >= self._xid_steps.first[seats]) & (self._xid_ns[last] >= boot_ns)
        return np.where(is_known, self._xid_code[last], -1)

    def links(self, nodes: Ints, times_ns: Ints) -> Columns:
        """Read all NVLinks of the polls: shape (polls, GPUs, links); columns of `link_samples`."""
        boot = self._timeline.boots(nodes, times_ns)
        keys = self._seat(nodes)[:, :, None] * LINKS + np.arange(LINKS)
        at, boot_ns = times_ns[:, None, None], self._timeline.boot_ns[boot][:, None, None]
        read: dict[str, Any] = {
            f"{name.removeprefix('link_')}_total": counter.total(keys, at) - counter.total(keys, boot_ns)
            for name, counter in self._links.items()
        }
        dying = self._signs.of_gpus(self._seat(nodes), times_ns[:, None], self._timeline.boot_ns[boot][:, None]).dying
        is_up = np.ones(keys.shape, bool)
        down = self._signs.has_link_down(dying)
        is_up[down, self._signs.link_down(dying[down])] = False
        return read | {"is_up": is_up}


def _counter(errors: ErrorHistory, name: str, origin_ns: int, size: int, *, per: int = 1) -> Counter:
    """Make the counter of one kind of burst; `per` folds keys together (18 links into their GPU)."""
    bursts = errors.counters.get(name)
    keys, times, amounts = (bursts.keys, bursts.times_ns, bursts.amounts) if bursts else ([], [], [])
    return Counter(np.array(keys, np.int64) // per, np.array(times, np.int64), amounts, origin_ns=origin_ns, size=size)


def _ns(seconds: Floats) -> Ints:
    return (seconds * 1e9).astype(np.int64) // 1000 * 1000


def _before(spec: WorldSpec, name: str, timeline: Timeline) -> Ints:
    """Give what the lifetime counters of GPUs stood at when the world began: a few have a history."""
    gpus, key = np.arange(len(timeline.gpus)), draws.key_of(spec.seed, "lifetime", name)
    is_old = (timeline.installed_ns < spec.start_ns) & (draws.uniform(key, gpus, 1) < _HAD_BEFORE.get(name, 0.0))
    count = 1 + 60 * draws.exponential(key, gpus, 2) if name == "dram_ce" else np.ones(len(gpus))
    return np.where(is_old, count, 0).astype(np.int64)
