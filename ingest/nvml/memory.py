"""What a node's source remembers over restarts: which GPUs belong to the node, and where their counters stood.

A GPU that is gone after a reboot is missing because it was there before; a counter that restarted while nobody looked is a new epoch.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import structlog

from ingest.nvml.epochs import Epoch
from ingest.nvml.inventory import Inventory

_log = structlog.get_logger()


class Memory(msgspec.Struct):
    """The expected GPUs and the epochs of their counters."""

    inventory: Inventory = msgspec.field(default_factory=Inventory)
    epochs: dict[str, Epoch] = {}


def load(path: Path | None) -> Memory:
    """Read what was remembered; nothing when there is no file, or none that can be read."""
    if path is None or not path.exists():
        return Memory()
    try:
        return msgspec.json.decode(path.read_bytes(), type=Memory)
    except (OSError, msgspec.DecodeError) as error:
        _log.warning("nvml_memory_unreadable", path=str(path), error=str(error))
        return Memory()


def save(memory: Memory, path: Path) -> None:
    """Write it all, or nothing."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(msgspec.json.encode(memory))
    fresh.replace(path)
