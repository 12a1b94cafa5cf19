"""What happened once in an emulated fleet's history: XIDs of the kernel logs, GPUs found missing, maintenance announced.

XIDs are as the collectors' merge leaves them: one event per XID, told by the kernel log, and one per loss of the bus.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from emulators.defects import Defects
from emulators.faults import Failure
from emulators.layout import NS
from emulators.state import KernelEvent
from emulators.world import World
from ingest.schema import Event

# Classes of the XIDs that the emulated driver says, as the product's catalogue has them.
USES = {
    **dict.fromkeys((46, 48, 62, 64, 74, 79, 95, 110, 119, 154), "label"),
    **dict.fromkeys((63, 92, 94), "precursor"),
    **dict.fromkeys((13, 31), "noise"),
    **dict.fromkeys((43, 45), "exclude"),
}
_RECOVERY = {"0x1": 1, "0x2": 2}
_SAME_LOSS_NS = 60 * NS
_LAG_NS = 200_000_000  # between an event and its record


def events(world: World, until_ns: int) -> Iterator[Event]:
    """Say everything that happened once, table order left to the lake."""
    return chain(_logged(world, until_ns), _missing(world, until_ns), _announced(world, until_ns))


def _logged(world: World, until_ns: int) -> Iterator[Event]:
    logs = {node.name: _KernelLog(world) for node in world.nodes}
    for event in world.events:
        if event.at_ns >= until_ns:
            return
        record = logs[event.node].take(event)
        if record is not None and event.at_ns >= world.spec.start_ns:
            yield record


def _announced(world: World, until_ns: int) -> Iterator[Event]:
    for outage in world.maintenance:
        if outage.announced_ns < until_ns:
            yield Event(
                node=outage.node,
                observed_at_ns=outage.announced_ns,
                received_at_ns=outage.announced_ns + _LAG_NS,
                source="api",
                kind="maintenance",
                detail=f"host down from {outage.start_ns // NS} to {outage.end_ns // NS}",
            )


def _missing(world: World, until_ns: int) -> Iterator[Event]:
    """Say when a poll first found a GPU missing: hidden from NVML, or hidden or lost on an exporter's page."""
    defects = Defects(world.spec)
    for failure in world.failures:
        node = world.nodes[failure.node_index]
        gone_ns = _gone_ns(failure, is_on_page=node.source == "exporter")
        if gone_ns is None:
            continue
        observed_ns = _first_poll_ns(world, defects, node.index, *gone_ns)
        if observed_ns is not None and observed_ns < until_ns:
            yield Event(
                node=node.name,
                observed_at_ns=observed_ns,
                received_at_ns=observed_ns + _LAG_NS,
                source=node.source,
                boot_id=world.boot_id(node.name, observed_ns) if node.source == "nvml" else None,
                kind="gpu_missing",
                gpu_uuid=failure.unit,
                pci=next(gpu.pci for gpu in world.gpus if gpu.uuid == failure.unit),
                use="precursor",
                detail=f"index {failure.slot}" if node.source == "nvml" else "not on the page",
            )


def _gone_ns(failure: Failure, *, is_on_page: bool) -> tuple[int, int] | None:
    if failure.is_structural and failure.onset_ns is not None:
        return failure.onset_ns, failure.down_ns if is_on_page else failure.failed_ns
    if failure.mode in ("fell_off_bus", "gsp") and is_on_page:
        return failure.failed_ns, failure.down_ns
    return None


def _first_poll_ns(world: World, defects: Defects, node: int, from_ns: int, until_ns: int) -> int | None:
    """Find the first poll of a node within a span that gave something."""
    cadence_ns = world.spec.cadence_s * NS
    slots = np.arange(-((world.spec.start_ns - from_ns) // cadence_ns), -((world.spec.start_ns - until_ns) // cadence_ns))
    at = world.spec.start_ns + slots * cadence_ns
    nodes = np.full(len(slots), node)
    given = np.nonzero(~defects.is_lost(nodes, slots) & ~world.timeline.is_down(nodes, at))[0]
    if not len(given):
        return None
    first = given[:1]
    return int((at[first] + defects.jitter_ns(nodes[first], slots[first]) + defects.skew_ns(nodes[first], slots[first]))[0])


class _KernelLog:
    """One node's log as its reader would have taken it: sequence numbers, and one event per loss of the bus."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._boot_id: str | None = None
        self._seq = 0
        self._named: set[str] = set()
        self._losses: dict[str, int] = {}

    def take(self, event: KernelEvent) -> Event | None:
        """Turn one event into a record; None for what the reader does not record."""
        if event.kind == "boot":
            self._boot_id = self._world.boot_id(event.node, event.at_ns)
            self._seq = 2  # the kernel's banner and the driver's
            self._named.clear()
            return None
        if event.kind == "xid" and event.gpu_uuid is not None and event.gpu_uuid not in self._named:
            self._named.add(event.gpu_uuid)
            self._seq += 2
        seq, self._seq = self._seq, self._seq + 1
        assert event.pci is not None, "BUG: an event of a GPU without its address"
        lost_ns = self._losses.get(event.pci)
        if event.kind == "bus_loss":
            self._losses[event.pci] = event.at_ns
        elif event.code == 79 and lost_ns is not None and event.at_ns - lost_ns < _SAME_LOSS_NS:
            return None
        return self._record(event, seq)

    def _record(self, event: KernelEvent, seq: int) -> Event:
        code = 79 if event.kind == "bus_loss" else event.code
        words = event.message.split()
        link = int(words[6].partition("(")[0]) if code == 74 else None
        return Event(
            node=event.node,
            observed_at_ns=event.at_ns,
            received_at_ns=event.at_ns + _LAG_NS,
            source="kernel_log",
            boot_id=self._boot_id,
            kind=event.kind,
            gpu_uuid=event.gpu_uuid,
            pci=event.pci,
            code=code,
            use=USES.get(code or 0, "unknown"),
            root_code=event.caused_by,
            is_sympathetic=True if code == 45 else None,
            link=link,
            recovery_action=_RECOVERY[words[8]] if code == 154 else None,
            recovery_action_before=0 if code == 154 else None,
            kernel_seq=seq,
            detail=event.message,
        )
