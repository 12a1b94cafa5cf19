"""Give memory that was freed back to the system: bursts leave holes in the heap of glibc, which it keeps for itself ever after."""

from __future__ import annotations

import ctypes
from collections.abc import Callable


def trimmer() -> Callable[[], object]:
    """Give the function that returns free pages (`malloc_trim(3)`, some milliseconds); one that does nothing where there is none."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # musl, macOS
        return lambda: None
    return lambda: trim(0)
