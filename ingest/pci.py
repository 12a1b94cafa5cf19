"""One spelling for a PCI address: `domain:bus:device` in lower-case hex, as the tables and the driver's log write it.

The exporter prints `00000000:1B:00.0`, NVML `00000000:1B:00.0` or `0000:1B:00.0`, the kernel log `0000:1b:00` with or without the
function. The domain stays: GB200 and GB300 use domains other than zero.
"""

from __future__ import annotations

import re
from functools import lru_cache

_ADDRESS = re.compile(r"(?:PCI:)?([0-9a-fA-F]{1,8}):([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})(?:\.[0-7])?", re.ASCII)


@lru_cache(maxsize=65_536)
def pci_address(text: str) -> str | None:
    """Read an address in any of its spellings; None when it is none."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        return None
    domain, bus, device = (int(part, 16) for part in match.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}"
