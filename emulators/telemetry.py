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
from emulators.layout import DAY_NS, LINKS, NS, NodeInfo, WorldSpec
from emulators.load import BUSY_SPAN_W, IDLE_W, Doing, Load
from emulators.signs import GpuSigns, Signs
from emulators.steps import Counter, Steps
from emulators.timeline import Timeline

Columns = Mapping[str, NDArray[Any]]

VOLATILE = ("dram_ce", "dram_ue", "sram_ce", "sram_ue", "remap_pending", "pcie_correctable", "pcie_l0_to_recovery")
PERSISTENT = ("dram_ce", "dram_ue", "sram_ce", "sram_ue", "remap_ce", "remap_ue")
LINK_COUNTERS = ("link_crc", "link_replay", "link_recovery")
SLOWDOWN_C = 87.0
POWER_LIMIT_W = 700.0
RESET_REQUIRED, REBOOT_REQUIRED = 1, 2  # XID 154 and nvmlDeviceGetFieldValues 230


class Telemetry:
    """The readings of all GPUs as a function of time."""

    def __init__(
        self,
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
        self._key = draws.key_of(spec.seed, "noise")
        self._statics = _Statics(spec, nodes)
        origin = timeline.origin_ns
        self._counters = {name: _counter(errors, name, origin, self._seats) for name in dict.fromkeys(VOLATILE + PERSISTENT)}
        self._link_totals = {name: _counter(errors, name, origin, self._seats, per=LINKS) for name in LINK_COUNTERS}
        self._links = {name: _counter(errors, name, origin, self._seats * LINKS) for name in LINK_COUNTERS}
        self._boot_base = self._bases()
        self._gpu_base = {
            name: self._counters[name].total(timeline.seat_of_gpu, timeline.installed_ns) - self._statics.lifetime(spec, name, timeline)
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
        gauges = self._gauges(nodes, seats, at, doing, signs, dips)
        read = {
            "gpu": gpu,
            "boot": np.broadcast_to(boot[:, None], seats.shape),
            "is_lost": signs.is_lost,
            "is_hidden": signs.is_hidden,
            "uptime_s": np.broadcast_to(np.floor((at - boot_ns) / NS), seats.shape),
            **gauges,
            **self._times(doing, signs, boot, seats, at),
            **self._errors(boot, gpu, seats, at),
            **self._links_and_bus(boot, seats, at, boot_ns, signs),
            "xid_last": self._xid_last(seats, at, boot_ns),
            "recovery_action": np.where(signs.dying >= 0, np.where(signs.is_lost, REBOOT_REQUIRED, RESET_REQUIRED), 0),
        }
        return {name: np.ascontiguousarray(values) for name, values in read.items()}

    def _gauges(self, nodes: Ints, seats: Ints, at: Ints, doing: Doing, signs: GpuSigns, dips: Floats) -> dict[str, Any]:
        slot = (at - self._spec.start_ns) // (self._spec.cadence_s * NS)
        warm, work, watts, rare = draws.quarters(self._key, seats, slot)
        is_busy = doing.util_ratio > 0.0
        is_waiting = is_busy & (0.5 * (rare + 1.0) < 0.02 + dips)  # checkpoints, evaluation, or a network that is failing
        is_drooping = signs.is_drooping & (watts > -0.4)
        util = doing.util_ratio * (1.0 + np.where(doing.is_swinging, 0.18, 0.05) * work)
        util = np.where(is_waiting, 0.3 * util, np.clip(util, 0.0, 1.0)) * np.where(is_drooping, 1.0 - 0.5 * signs.droop_ratio, 1.0)
        power = self._load.efficiency[seats] * (IDLE_W + BUSY_SPAN_W * util) * np.where(is_drooping & is_busy, 1.0 - signs.droop_ratio, 1.0)
        power = np.round(np.minimum(power + np.where(is_busy, 8.0, 1.5) * watts, POWER_LIMIT_W), 1)
        inlet = self.inlet_c(nodes, at[:, 0])[:, None]
        temp = inlet + self._statics.offset_c[seats] + self._statics.c_per_w[seats] * power + signs.drift_c + 0.8 * warm
        temp = np.round(temp)
        is_slow, is_hot = (signs.sw_thermal_s > 0) & is_busy & (temp > 62), (signs.hw_thermal_s > 0) & is_busy & (temp > 66)
        sm_clock = 1980.0 - 420.0 * np.clip((util - 0.5) / 0.5, 0.0, 1.0) - 150.0 * is_slow - 400.0 * is_drooping * signs.droop_ratio
        reasons = np.where(is_busy, np.where(power > 600.0, 4, 0), 1) | np.where(is_slow, 0x20, 0) | np.where(is_hot, 0x40 | 0x8, 0)
        return {
            "temp_c": temp,
            "memory_temp_c": np.round(temp + 4.0 + 9.0 * util + 0.5 * work),
            "thermal_margin_c": SLOWDOWN_C - temp,
            "power_w": power,
            "power_limit_w": np.full(seats.shape, POWER_LIMIT_W),
            "sm_clock_mhz": np.where(is_busy, 15.0 * np.round(sm_clock / 15.0), 345.0),
            "memory_clock_mhz": np.full(seats.shape, 2619.0),
            "clock_event_reasons": reasons | np.where(is_drooping & is_busy, 0x80, 0),
            "gpu_util_ratio": np.round(util, 2),
            "memory_util_ratio": np.round(0.62 * util, 2),
            "memory_used_mb": np.where(is_busy, np.round(81_000.0 * doing.memory_share), 4.0),
            "memory_total_mb": np.full(seats.shape, 81_559.0),
        }

    def inlet_c(self, nodes: Ints, times_ns: Ints) -> Floats:
        """Give the air temperature at the inlet of nodes: by rack and height, with the hour and the weather."""
        days = (times_ns - self._spec.start_ns) / DAY_NS
        phase = self._statics.rack_phase[nodes]
        inlet: Floats = (
            self._statics.inlet_c[nodes] + 0.7 * np.sin(2 * np.pi * (days - 0.4)) + 0.9 * np.sin(2 * np.pi * (days / 9.3 + phase))
        )
        return inlet

    def _times(self, doing: Doing, signs: GpuSigns, boot: Ints, seats: Ints, at: Ints) -> dict[str, Any]:
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
        no = np.zeros(seats.shape, bool)
        read |= {"remap_pending": volatile["remap_pending"] > 0, "remap_failure": no, "sram_threshold_exceeded": no}
        read |= {"remap_banks_low": (lifetime["remap_ue"] > 6).astype(np.int64), "remap_banks_none": np.zeros(seats.shape, np.int64)}
        return read | {f"{name}_total": volatile[name] for name in ("pcie_correctable", "pcie_l0_to_recovery")}

    def _links_and_bus(self, boot: Ints, seats: Ints, at: Ints, boot_ns: Ints, signs: GpuSigns) -> dict[str, Any]:
        totals = {name: counter.total(seats, at) - self._boot_base[name][boot] for name, counter in self._link_totals.items()}
        replay = self._statics.pcie_replay[seats] + ((at - boot_ns) / (3 * DAY_NS) + self._statics.offset_c[seats]).astype(np.int64)
        return {
            "nvlink_crc_total": totals["link_crc"],
            "nvlink_replay_total": totals["link_replay"],
            "nvlink_recovery_total": totals["link_recovery"],
            "nvlink_active": LINKS - self._signs.has_link_down(signs.dying).astype(np.int64),
            "fabric_state": np.full(seats.shape, 3),
            "pcie_replay_total": np.maximum(replay, 0),
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


class _Statics:
    """What distinguishes seats and nodes for good."""

    def __init__(self, spec: WorldSpec, nodes: tuple[NodeInfo, ...]) -> None:
        seats = np.arange(spec.nodes * spec.gpus_per_node)
        key = draws.key_of(spec.seed, "statics")
        slot_c = np.resize([0.0, 1.5, 2.5, 1.0, 0.0, 1.5, 2.5, 1.0], spec.gpus_per_node)
        self.offset_c: Floats = slot_c[seats % spec.gpus_per_node] + 1.6 * (draws.uniform(key, seats, 1) - 0.5)
        self.c_per_w: Floats = 0.052 * (1.0 + 0.12 * (draws.uniform(key, seats, 2) - 0.5))
        is_counting = draws.uniform(key, seats, 3) < 0.6
        self.pcie_replay: Ints = np.where(is_counting, 106 + (68 * draws.uniform(key, seats, 4)), 0).astype(np.int64)
        racks = [draws.key_of(spec.seed, "air", node.rack) for node in nodes]
        self.rack_phase: Floats = np.array([draws.uniform(rack, 1)[0] for rack in racks])
        height = np.array([node.position for node in nodes]) / max(1, spec.nodes_per_rack - 1)
        self.inlet_c: Floats = 22.5 + 1.5 * height + np.array([2.0 * draws.uniform(rack, 2)[0] for rack in racks])

    def lifetime(self, spec: WorldSpec, name: str, timeline: Timeline) -> Ints:
        """Give what the lifetime counters of GPUs stood at when the world began: a few have a history."""
        gpus = np.arange(len(timeline.gpus))
        key = draws.key_of(spec.seed, "lifetime", name)
        is_old = (timeline.installed_ns < spec.start_ns) & (
            draws.uniform(key, gpus, 1) < {"dram_ce": 0.04, "remap_ce": 0.01}.get(name, 0.0)
        )
        return np.where(is_old, (1 + 60 * draws.exponential(key, gpus, 2)) if name == "dram_ce" else 1, 0).astype(np.int64)


def _counter(errors: ErrorHistory, name: str, origin_ns: int, size: int, *, per: int = 1) -> Counter:
    """Make the counter of one kind of burst; `per` folds keys together (18 links into their GPU)."""
    bursts = errors.counters.get(name)
    keys, times, amounts = (bursts.keys, bursts.times_ns, bursts.amounts) if bursts else ([], [], [])
    return Counter(np.array(keys, np.int64) // per, np.array(times, np.int64), amounts, origin_ns=origin_ns, size=size)


def _ns(seconds: Floats) -> Ints:
    return (seconds * 1e9).astype(np.int64) // 1000 * 1000
