"""What the BMCs of an emulated fleet read: air, fans, power supplies, and whether the host is on."""

from __future__ import annotations

import numpy as np

from emulators import draws
from emulators.draws import Flags, Floats, Ints
from emulators.layout import NS, NodeInfo, WorldSpec
from emulators.signs import Signs
from emulators.state import ChassisState
from emulators.telemetry import Columns, Telemetry
from emulators.timeline import Timeline

FANS, PSUS = 6, 4
HOST_W = 950.0
PSU_EFFICIENCY = 0.94
LINE_V = 230.0


class Chassis:
    """The readings of all BMCs as a function of time; they answer also while the host is down."""

    def __init__(self, spec: WorldSpec, telemetry: Telemetry, timeline: Timeline, signs: Signs) -> None:
        self._spec = spec
        self._telemetry = telemetry
        self._timeline = timeline
        self._signs = signs
        self._key = draws.key_of(spec.seed, "chassis noise")

    def columns(self, nodes: Ints, times_ns: Ints) -> Columns:
        """Read the chassis of the polls: arrays of shape (polls,) or (polls, parts)."""
        is_on = ~self._timeline.is_down(nodes, times_ns)
        read = self._telemetry.columns(nodes, times_ns)
        slot = (times_ns - self._spec.start_ns) // (self._spec.cadence_s * NS)
        inlet = self._telemetry.gauges.inlet_c(nodes, times_ns) + 0.3 * draws.quarters(self._key, nodes, slot)[0]
        gpu_w = np.where(is_on, read["power_w"].sum(axis=1), 0.0)
        dc_w = np.where(is_on, gpu_w + HOST_W, 25.0)
        input_w, input_v, is_present = self._supplies(nodes, times_ns, slot, dc_w)
        speed = np.where(is_on, 4800.0 + 0.9 * gpu_w + 90.0 * (inlet - 23.0), 0.0)
        fans = speed[:, None] * (1.0 + 0.015 * draws.quarters(self._key, nodes[:, None], slot[:, None], np.arange(FANS) + 10)[0])
        return {
            "power_is_on": is_on,
            "inlet_temp_c": np.round(inlet, 1),
            "outlet_temp_c": np.round(inlet + 2.0 + dc_w / 430.0, 1),
            "fan_rpm": np.round(fans, -1),
            "psu_input_w": input_w,
            "psu_input_v": input_v,
            "psu_is_present": is_present,
            "power_w": np.round(input_w.sum(axis=1)),
            "gpu_temps_c": np.where(is_on[:, None], read["temp_c"], np.round(inlet)[:, None]),
        }

    def _supplies(self, nodes: Ints, times_ns: Ints, slot: Ints, dc_w: Floats) -> tuple[Floats, Floats, Flags]:
        """Share the load between the supplies; a failing one ripples and, in half of the cases, drops out before the end."""
        supply = np.arange(PSUS)
        signs = self._signs.of_nodes(nodes, times_ns)
        is_bad = supply[None, :] == signs.bad_psu[:, None]
        is_present = ~(is_bad & (signs.progress > 0.6)[:, None] & (signs.bad_psu % 2 == 0)[:, None])
        ripple, volts, *_ = draws.quarters(self._key, nodes[:, None], slot[:, None], supply[None, :])
        share = is_present / is_present.sum(axis=1, keepdims=True)
        watts = dc_w[:, None] / PSU_EFFICIENCY * share * (1.0 + np.where(is_bad, 0.25, 0.015) * ripple)
        line = (LINE_V + np.where(is_bad, 9.0, 1.2) * volts) * is_present
        return np.round(watts), np.round(line, 1), is_present

    def state(self, node: NodeInfo, at_ns: int) -> ChassisState:
        """Read one chassis."""
        read = self.columns(np.array([node.index]), np.array([at_ns]))
        return ChassisState(node=node.name, serial=node.serial, **{name: values[0].tolist() for name, values in read.items()})
