"""When each node of an emulated fleet is up and since when, and which GPU sits in which seat: numbers a seat `node * gpus + slot`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from emulators import draws
from emulators.draws import Flags, Ints
from emulators.faults import Failure, Faults
from emulators.frailty import commissioned_days_before
from emulators.layout import DAY_NS, MS_NS, GpuInfo, NodeInfo, WorldSpec, gpu_at
from emulators.steps import Spans, Steps

ORIGIN_DAYS = 900  # everything that is remembered happened at most so long before the start


class Timeline:
    """Boots, down times and seats of a fleet; arrays of nodes and of times have the same shape."""

    def __init__(self, spec: WorldSpec, nodes: tuple[NodeInfo, ...], faults: Faults) -> None:
        self.spec = spec
        self.origin_ns = spec.start_ns - ORIGIN_DAYS * DAY_NS
        downs = [(f.node_index, f.down_ns, f.repaired_ns) for f in faults.failures]
        downs += [(m.node_index, m.start_ns, m.end_ns) for m in faults.maintenance]
        self.downs: tuple[tuple[int, int, int], ...] = tuple(sorted(downs))
        node, start, end = (np.array(column, np.int64) for column in zip(*(self.downs or [(0, 0, 0)]), strict=True))
        self._downs = Spans(node, start, end, origin_ns=self.origin_ns, size=len(nodes))
        first = spec.start_ns - ((3 + 27 * draws.uniform(draws.key_of(spec.seed, "first boot"), np.arange(len(nodes)))) * DAY_NS)
        boot_node = np.concatenate([np.arange(len(nodes)), node[: len(self.downs)]])
        boot_ns = np.concatenate([first.astype(np.int64) // MS_NS * MS_NS, end[: len(self.downs)]])
        self._boots = Steps(boot_node, boot_ns, origin_ns=self.origin_ns, size=len(nodes))
        self.boot_node: Ints = boot_node[self._boots.order]
        self.boot_ns: Ints = boot_ns[self._boots.order]
        self.gpus, self.failures = _install(spec, nodes, faults.failures)
        seats = np.array([gpu.node_index * spec.gpus_per_node + gpu.slot for gpu in self.gpus])
        self.installed_ns: Ints = np.array([gpu.installed_ns for gpu in self.gpus])
        self._seats = Steps(seats, self.installed_ns, origin_ns=self.origin_ns, size=len(nodes) * spec.gpus_per_node)
        self.seat_of_gpu: Ints = seats

    def is_down(self, nodes: Ints, times_ns: Ints) -> Flags:
        """Tell which nodes are down."""
        return self._downs.at(nodes, times_ns) >= 0

    def boots(self, nodes: Ints, times_ns: Ints) -> Ints:
        """Give the number of the boot that each node is in, or was in before it went down."""
        return self._boots.last(nodes, times_ns)

    def gpus_at(self, seats: Ints, times_ns: Ints) -> Ints:
        """Give the number of the GPU in each seat: its place in `gpus`."""
        return self._seats.last(seats, times_ns)

    def boot_id(self, boot: int) -> str:
        """Name a boot."""
        return str(draws.uuid_of(self.spec.seed, "boot", int(self.boot_node[boot]), int(self.boot_ns[boot])))


def _install(
    spec: WorldSpec, nodes: tuple[NodeInfo, ...], failures: tuple[Failure, ...]
) -> tuple[tuple[GpuInfo, ...], tuple[Failure, ...]]:
    """Seat the GPUs, replace those whose repair needs a new part, and name the unit of every failure."""
    age = commissioned_days_before(spec, np.arange(len(nodes)))
    seats = {
        (node.index, slot): [gpu_at(spec, node, slot, 0, spec.start_ns - int(age[node.index] * 86_400) * 1000 * MS_NS)]
        for node in nodes
        for slot in range(spec.gpus_per_node)
    }
    named = []
    for failure in failures:
        if failure.slot is None:
            named.append(replace(failure, unit=failure.node))
            continue
        seat = seats[failure.node_index, failure.slot]
        named.append(replace(failure, unit=seat[-1].uuid))
        if failure.action == "rma" and spec.replaces_gpus:
            seat[-1] = replace(seat[-1], removed_ns=failure.repaired_ns)
            node = nodes[failure.node_index]
            seat.append(gpu_at(spec, node, failure.slot, len(seat), failure.repaired_ns))
    return tuple(gpu for seat in seats.values() for gpu in seat), tuple(named)
