"""Where the emulated fleet stands: nodes in chassis, racks and rows, their GPUs, power shelves, leaf switches and lots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from emulators import draws

NS = 1_000_000_000
MINUTE_NS, HOUR_NS, DAY_NS = 60 * NS, 3600 * NS, 86_400 * NS
MS_NS = 1_000_000
LINKS = 18


@dataclass(frozen=True, kw_only=True)
class WorldSpec:
    """Everything that an emulated fleet follows from; every guessed figure of the parameter sheet is a knob here or in `modes`."""

    seed: int = 7
    nodes: int = 48
    gpus_per_node: int = 8
    start_ns: int = 1_767_225_600 * NS  # 2026-01-01
    days: float = 100.0
    cadence_s: int = 300
    profile: str = "llama3"
    profile_scope: str = "all"
    rate_scale: float = 1.0
    precursor_share_scale: float = 1.0
    shares: Mapping[str, float] = field(default_factory=dict)  # per mode, instead of the table's
    benign_per_true: float = 10.0
    heterogeneity: bool = True
    frailty_sigma: float = 1.10
    lemon_share: float = 0.013
    lemon_factor: float = 50.0
    multiplier_cap: float | None = 200.0  # bound on a node's hazard over the fleet's mean: what RSC's lemons imply at most
    defective_lot: bool = False
    repeat_scale: float = 1.0  # of the probability that a repair does not help
    domain_incidents: bool = True
    firmware_waves: bool = True
    replaces_gpus: bool = True
    wrong_label_share: float = 0.12
    defects: bool = True
    exporter_share: float = 0.5
    nodes_per_chassis: int = 4
    nodes_per_rack: int = 8
    nodes_per_row: int = 24
    nodes_per_leaf: int = 16
    nodes_per_shelf: int = 4

    @property
    def until_ns(self) -> int:
        """End of the world."""
        return self.start_ns + int(self.days * DAY_NS)

    @classmethod
    def show(cls, **changes: Any) -> WorldSpec:
        """Give a fleet that ages about 60 times as fast, in a mix rich in precursors: 48 nodes lose about 500 in 60 days."""
        return replace(cls(profile="show", rate_scale=68.0, multiplier_cap=3.0), **changes)


@dataclass(frozen=True, kw_only=True)
class NodeInfo:
    """One node and the failure domains it is in; `position` 0 is the bottom of its rack."""

    index: int
    name: str
    serial: str
    source: str  # which collector reads it: nvml or exporter
    chassis: str
    rack: str
    row: str
    power: str
    leaf_switch: str
    nvlink_domain: str
    lot: str
    position: int

    def domains(self) -> dict[str, str]:
        """Name the domain of each kind."""
        kinds = ("chassis", "rack", "row", "power", "leaf_switch", "nvlink_domain", "lot")
        return {kind: getattr(self, kind) for kind in kinds} | {"position": str(self.position)}


@dataclass(frozen=True, kw_only=True)
class GpuInfo:
    """One GPU in a seat of a node, from `installed_ns` until `removed_ns`."""

    uuid: str
    serial: str
    pci: str
    node: str
    node_index: int
    slot: int
    lot: str
    model: str = "NVIDIA H100 80GB HBM3"
    installed_ns: int
    removed_ns: int | None = None


DRIVER_VERSION = "580.105.08"
PCI = ("0000:1b:00", "0000:43:00", "0000:52:00", "0000:61:00", "0000:9d:00", "0000:c3:00", "0000:d1:00", "0000:df:00")


def lay_out(spec: WorldSpec) -> tuple[NodeInfo, ...]:
    """Place the nodes of a fleet."""
    lots = 3 + int(draws.uniform(draws.key_of(spec.seed, "lots"))[0] * 4)
    lot_of = (draws.uniform(draws.key_of(spec.seed, "lot"), np.arange(spec.nodes)) * lots).astype(int)
    exporters = round(spec.nodes * spec.exporter_share)
    return tuple(_node(spec, i, f"lot-{'abcdef'[lot_of[i]]}", _is_exporter(i, exporters, spec.nodes)) for i in range(spec.nodes))


def _is_exporter(index: int, exporters: int, nodes: int) -> bool:
    """Spread the exporter nodes evenly over the fleet."""
    return (index + 1) * exporters // nodes > index * exporters // nodes


def _node(spec: WorldSpec, i: int, lot: str, is_exporter: bool) -> NodeInfo:
    name = f"gpu{i + 1:0{max(3, len(str(spec.nodes)))}d}"
    return NodeInfo(
        index=i,
        name=name,
        serial=f"HN{draws.key_of(spec.seed, 'node serial', i) % 10**10:010d}",
        source="exporter" if is_exporter else "nvml",
        chassis=f"chassis-{i // spec.nodes_per_chassis + 1:03d}",
        rack=f"rack-{i // spec.nodes_per_rack + 1:03d}",
        row=f"row-{i // spec.nodes_per_row + 1:02d}",
        power=f"shelf-{i // spec.nodes_per_shelf + 1:03d}",
        leaf_switch=f"leaf-{i // spec.nodes_per_leaf + 1:02d}",
        nvlink_domain=f"nvl-{name}",
        lot=lot,
        position=i % spec.nodes_per_rack,
    )


def gpu_at(spec: WorldSpec, node: NodeInfo, slot: int, generation: int, installed_ns: int) -> GpuInfo:
    """Make the GPU that is the `generation`-th in its seat."""
    return GpuInfo(
        uuid=f"GPU-{draws.uuid_of(spec.seed, 'gpu', node.index, slot, generation)}",
        serial=f"16{draws.key_of(spec.seed, 'gpu serial', node.index, slot, generation) % 10**11:011d}",
        pci=PCI[slot % len(PCI)],
        node=node.name,
        node_index=node.index,
        slot=slot,
        lot=node.lot,
        installed_ns=installed_ns,
    )
