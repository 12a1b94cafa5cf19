"""What is made of each return code of NVML (nvmlReturn_t); a test fails when the bindings know a code that this table does not.

A code is about the machine (this process cannot use NVML), about the way of asking (try another), or about one value of one GPU.
"""

from __future__ import annotations

from typing import NamedTuple

MACHINE, GPU, WAY, VALUE = "machine", "gpu", "way", "value"


class Code(NamedTuple):
    """Name of a return code, what it is about, and the quality of a value that could not be read because of it."""

    name: str
    about: str
    quality: str = "absent"
    is_news: bool = False  # worth an event by itself


CODES: dict[int, Code] = {
    1: Code("UNINITIALIZED", MACHINE),
    2: Code("INVALID_ARGUMENT", WAY, "not_supported"),  # a field or link that this driver does not know
    3: Code("NOT_SUPPORTED", WAY, "not_supported"),
    4: Code("NO_PERMISSION", VALUE, "no_permission"),
    5: Code("ALREADY_INITIALIZED", VALUE),
    6: Code("NOT_FOUND", VALUE),
    7: Code("INSUFFICIENT_SIZE", VALUE),
    8: Code("INSUFFICIENT_POWER", VALUE),
    9: Code("DRIVER_NOT_LOADED", MACHINE),
    10: Code("TIMEOUT", VALUE, "timeout"),
    11: Code("IRQ_ISSUE", VALUE),
    12: Code("LIBRARY_NOT_FOUND", MACHINE),
    13: Code("FUNCTION_NOT_FOUND", WAY, "not_supported"),
    14: Code("CORRUPTED_INFOROM", VALUE, is_news=True),
    15: Code("GPU_IS_LOST", GPU, "lost"),
    16: Code("RESET_REQUIRED", VALUE, is_news=True),
    17: Code("OPERATING_SYSTEM", VALUE),
    18: Code("LIB_RM_VERSION_MISMATCH", MACHINE),
    19: Code("IN_USE", VALUE),
    20: Code("MEMORY", VALUE),
    21: Code("NO_DATA", VALUE),
    22: Code("VGPU_ECC_NOT_SUPPORTED", WAY, "not_supported"),
    23: Code("INSUFFICIENT_RESOURCES", VALUE),
    24: Code("FREQ_NOT_SUPPORTED", WAY, "not_supported"),
    25: Code("ARGUMENT_VERSION_MISMATCH", WAY, "not_supported"),
    26: Code("DEPRECATED", WAY, "not_supported"),
    27: Code("NOT_READY", VALUE),
    28: Code("GPU_NOT_FOUND", VALUE),
    29: Code("INVALID_STATE", VALUE),
    30: Code("RESET_TYPE_NOT_SUPPORTED", VALUE),
    999: Code("UNKNOWN", VALUE),  # on one value; at the start of NVML it is about the machine
}
TIMEOUT, FUNCTION_NOT_FOUND, GPU_IS_LOST, UNKNOWN = 10, 13, 15, 999
# State of the source when NVML cannot be used as a whole: says nothing about hardware.
STATES = {9: "driver_not_loaded(9)", 12: "library_not_found(12)", 18: "driver_mismatch(18)", UNKNOWN: "nvml_unavailable(999)"}


def code_of(rc: int) -> Code:
    """Look a return code up; one that is younger than this table costs one value."""
    return CODES.get(rc) or Code(f"CODE_{rc}", VALUE)


def is_no_way(rc: int) -> bool:
    """Tell whether another way of asking may have an answer."""
    return code_of(rc).about == WAY
