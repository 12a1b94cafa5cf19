"""What a failing part looks like in gauges, from the first sign to the end: drift, droop, throttling, dips, vanishing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emulators import draws
from emulators.bursts import link_of
from emulators.draws import Flags, Floats, Ints
from emulators.faults import LINGERING, Failure
from emulators.layout import DAY_NS, WorldSpec
from emulators.steps import Spans

_KINDS = ("thermal", "gpu_faulty", "fell_off_bus", "psu_vr", "nic", "switch_cable")


@dataclass(frozen=True)
class GpuSigns:
    """Signs of GPUs at given times; all zero where there is none."""

    drift_c: Floats  # above what the power explains
    sw_thermal_s: Floats  # time under slowdown since the sign began or the node booted
    hw_thermal_s: Floats
    is_drooping: Flags
    droop_ratio: Floats
    brake_s: Floats
    is_hidden: Flags
    is_lost: Flags
    dying: Ints  # number of the failure that has happened and has not yet taken the node down, or -1
    is_narrow: Flags  # PCIe link trained down


@dataclass(frozen=True)
class NodeSigns:
    """Signs of nodes at given times."""

    dip_ratio: Floats  # probability that a sample shows the job waiting for the network
    bad_psu: Ints  # -1: none
    progress: Floats


class Signs:
    """All visible signs of a fleet; seats are numbered `node * gpus + slot`."""

    def __init__(self, spec: WorldSpec, failures: tuple[Failure, ...], origin_ns: int) -> None:
        seats = spec.nodes * spec.gpus_per_node
        self._failures = failures
        shown = [f for f in failures if f.is_visible and f.mode in _KINDS]
        self._gpu = _Signed(spec, [f for f in shown if f.scope == "gpu"], origin_ns, seats)
        self._node = _Signed(spec, [f for f in shown if f.scope == "node"], origin_ns, spec.nodes)
        self._dying = _spans([f for f in failures if f.slot is not None and f.mode not in LINGERING], spec, origin_ns, seats)
        self._narrow = _spans([f for f in failures if f.mode == "pcie_degraded"], spec, origin_ns, seats)
        self._is_silent = np.array([f.mode in ("fell_off_bus", "gsp") for f in failures] or [False])
        self._link = np.array([link_of(f) if f.mode == "nvlink" else -1 for f in failures] or [-1])

    def of_gpus(self, seats: Ints, times_ns: Ints, boot_ns: Ints) -> GpuSigns:
        """Tell what GPUs show."""
        sign = self._gpu.at(seats, times_ns)
        dying = self._dying.at(seats, times_ns)
        elapsed = np.where(sign.is_on, (times_ns - sign.onset_ns) / DAY_NS, 0.0)
        before_boot = np.where(sign.is_on, np.maximum(boot_ns - sign.onset_ns, 0) / DAY_NS, 0.0)
        is_thermal, is_faulty = sign.kind == 0, sign.kind == 1
        late = sign.late(elapsed)
        progress = np.where(is_faulty, np.minimum(sign.progress, 1.0), 0.0)
        return GpuSigns(
            drift_c=np.where(is_thermal, sign.strength * elapsed, 0.0),
            sw_thermal_s=np.where(is_thermal, _sw_thermal_s(sign, elapsed) - _sw_thermal_s(sign, before_boot), 0.0),
            hw_thermal_s=np.where(is_thermal, 3000.0 * (late**2 - sign.late(before_boot) ** 2), 0.0),
            is_drooping=progress > 0.0,
            droop_ratio=np.where(is_faulty, 0.1 + 0.2 * sign.coin, 0.0),
            brake_s=np.where(is_faulty, 400.0 * np.maximum(elapsed - before_boot, 0.0) * sign.coin, 0.0),
            is_hidden=(sign.kind == 2) & (dying < 0),
            is_lost=(dying >= 0) & self._is_silent[dying],
            dying=dying,
            is_narrow=self._narrow.at(seats, times_ns) >= 0,
        )

    def has_link_down(self, dying: Ints) -> Flags:
        """Tell which failures that have happened (`GpuSigns.dying`) took a link down."""
        return (dying >= 0) & (self._link[dying] >= 0)

    def link_down(self, dying: Ints) -> Ints:
        """Name the link that is down."""
        return self._link[dying]

    def of_nodes(self, nodes: Ints, times_ns: Ints) -> NodeSigns:
        """Tell what nodes show."""
        sign = self._node.at(nodes, times_ns)
        is_network = sign.is_on & (sign.kind >= 4)
        return NodeSigns(
            dip_ratio=np.where(is_network, 0.15 + 0.35 * sign.progress, 0.0),
            bad_psu=np.where(sign.kind == 3, (4 * sign.coin).astype(np.int64), -1),
            progress=sign.progress,
        )


@dataclass(frozen=True)
class _Sign:
    is_on: Flags
    kind: Ints  # place in _KINDS, -1 for none
    onset_ns: Ints
    lead_days: Floats
    strength: Floats
    coin: Floats
    progress: Floats  # 0 at the onset, 1 at the failure

    def late(self, elapsed_days: Floats) -> Floats:
        """Give the days into the last three tenths of the lead."""
        return np.maximum(elapsed_days - 0.7 * self.lead_days, 0.0)


def _sw_thermal_s(sign: _Sign, elapsed_days: Floats) -> Floats:
    """Integrate software slowdown: a share of time that grows with the square of the progress, up to 6 %."""
    grown: Floats = 0.06 * 86_400.0 * elapsed_days**3 / (3.0 * sign.lead_days**2)
    return grown


class _Signed:
    """Visible failures of one scope, looked up by time."""

    def __init__(self, spec: WorldSpec, failures: list[Failure], origin_ns: int, size: int) -> None:
        index = np.array([f.failed_ns for f in failures], np.int64) % (1 << 40)
        key = draws.key_of(spec.seed, "strength")
        self._spans = _spans(failures, spec, origin_ns, size, from_onset=True)
        self._kind = np.array([*(_KINDS.index(f.mode) for f in failures), -1])
        self._onset_ns = np.array([*(f.onset_ns or 0 for f in failures), 0], np.int64)
        self._lead = np.array([*((f.failed_ns - (f.onset_ns or 0)) / DAY_NS for f in failures), 1.0])
        self._strength = np.append(0.2 + 0.8 * draws.uniform(key, index, 1), 0.0)  # thermal: 0.2-1 °C per day
        self._coin = np.append(draws.uniform(key, index, 2), 0.0)

    def at(self, keys: Ints, times_ns: Ints) -> _Sign:
        number = self._spans.at(keys, times_ns)
        onset, lead = self._onset_ns[number], np.maximum(self._lead[number], 1e-4)
        progress = np.where(number >= 0, (times_ns - onset) / DAY_NS / lead, 0.0)
        return _Sign(number >= 0, self._kind[number], onset, lead, self._strength[number], self._coin[number], progress)


def _spans(failures: list[Failure], spec: WorldSpec, origin_ns: int, size: int, *, from_onset: bool = False) -> Spans:
    """Make spans from the onset or from the failure until the node is down; the number is the failure's own, or its place in the list."""
    keys = [f.node_index if f.slot is None else f.node_index * spec.gpus_per_node + f.slot for f in failures]
    starts = [(f.onset_ns or f.failed_ns) if from_onset else f.failed_ns for f in failures]
    numbers = None if from_onset else [f.number for f in failures]
    return Spans(keys, starts, [f.down_ns for f in failures], origin_ns=origin_ns, size=size, numbers=numbers)
