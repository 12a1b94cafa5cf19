"""Which GPUs a node is expected to have: a seat once taken stays expected until another GPU takes it or the absence has grown old.

A missing GPU is an explicit row and one event, never a gap, and not yet a failed one. When all GPUs are gone at once, that says nothing
about any of them (signals.md 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ingest.clock import NS
from ingest.nvml.protocol import Seat

FORGET_AFTER_S = 7 * 86_400.0


class Expected(msgspec.Struct):
    """One GPU that belongs to the node."""

    seat: Seat
    seen_at_ns: int
    is_missing: bool = False


class Changes(msgspec.Struct):
    """What one look at the node changed."""

    inserted: list[Seat] = []
    removed: list[Seat] = []
    missing: list[Seat] = []  # newly missing
    absent: list[Seat] = []  # all that are missing now
    lost: list[Seat] = []  # listed, but their handle cannot be had


class Inventory(msgspec.Struct):
    """The GPUs that a node is expected to have, by UUID."""

    gpus: dict[str, Expected] = {}

    def look(self, seats: Sequence[Seat], lost_indices: Iterable[int], at_ns: int) -> Changes:
        """Hold what is seen against what is expected; `lost_indices` are listed GPUs that do not say who they are."""
        changes = Changes()
        for seat in seats:
            self._see(seat, at_ns, changes)
        seen = {seat.gpu_uuid for seat in seats}
        lost = set(lost_indices)
        for uuid, gpu in list(self.gpus.items()):
            if uuid not in seen:
                self._miss(gpu, lost, at_ns, changes, is_anyone_here=bool(seats))
        return changes

    def _see(self, seat: Seat, at_ns: int, changes: Changes) -> None:
        known = self.gpus.get(seat.gpu_uuid)
        if known is None or (known.seat.pci, known.seat.serial) != (seat.pci, seat.serial):
            for other in [gpu for gpu in self.gpus.values() if gpu.seat.pci == seat.pci and gpu.seat.gpu_uuid != seat.gpu_uuid]:
                changes.removed.append(other.seat)
                del self.gpus[other.seat.gpu_uuid]
            changes.inserted.append(seat)
        self.gpus[seat.gpu_uuid] = Expected(seat, at_ns)

    def _miss(self, gpu: Expected, lost: set[int], at_ns: int, changes: Changes, *, is_anyone_here: bool) -> None:
        if gpu.seat.index in lost:
            lost.discard(gpu.seat.index)
            changes.lost.append(gpu.seat)
        elif is_anyone_here:
            if at_ns - gpu.seen_at_ns > FORGET_AFTER_S * NS:
                changes.removed.append(gpu.seat)
                del self.gpus[gpu.seat.gpu_uuid]
                return
            if not gpu.is_missing:
                changes.missing.append(gpu.seat)
            gpu.is_missing = True
            changes.absent.append(gpu.seat)
