"""A process that does what it is told with the real pynvml: one Python expression a line in, one line of JSON out.

`h` are the handles by index as of the last `init()`; the answer is [return code, value].
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any

import pynvml

space: dict[str, Any] = {**vars(pynvml), "pynvml": pynvml, "ctypes": ctypes, "h": []}


def init() -> int:
    """Start NVML and look up every GPU."""
    pynvml.nvmlInit()
    count = pynvml.nvmlDeviceGetCount()
    space["h"] = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
    return int(count)


def fields(handle: Any, *wanted: int | tuple[int, int]) -> list[list[Any]]:
    """Read field values: [return code, value type, value]."""
    members = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal"}
    values = pynvml.nvmlDeviceGetFieldValues(handle, list(wanted))
    return [[value.nvmlReturn, value.valueType, getattr(value.value, members[value.valueType])] for value in values]


def keep(name: str, value: Any) -> None:
    """Keep a value under a name for later lines."""
    space[name] = value


def filled(struct: Any, version: int | None, call: Any, handle: Any) -> Any:
    """Let a call fill a structure."""
    if version is not None:
        struct.version = version
    code = call(handle, ctypes.byref(struct))
    if code:
        raise pynvml.NVMLError(code)
    return struct


def plain(value: Any) -> Any:
    """Make a value fit for JSON."""
    if isinstance(value, ctypes.Structure):
        return {name: plain(getattr(value, name)) for name, *_ in value._fields_}
    if isinstance(value, ctypes.Array):
        return [plain(item) for item in value]
    if isinstance(value, ctypes._Pointer):
        return ctypes.cast(value, ctypes.c_void_p).value
    if isinstance(value, ctypes._SimpleCData):
        return value.value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value


space.update(init=init, fields=fields, keep=keep, filled=filled)
for line in sys.stdin:
    try:
        answer = [0, plain(eval(line, space))]
    except pynvml.NVMLError as error:
        answer = [error.value, None]
    except pynvml.NVMLLibraryMismatchError:
        answer = [-1, "NVMLLibraryMismatchError"]
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
