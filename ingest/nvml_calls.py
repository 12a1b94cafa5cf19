"""The named calls of pynvml, one small function each: a handle in, one raw value per column out, NVMLError when it cannot be read.

Only the worker imports this module: it is the door to pynvml.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pynvml as nvml

# Return codes (nvmlReturn_t) and what is made of them: signals.md 7.
NO_SUCH_WAY = frozenset({2, 3, 13, 25, 26})  # invalid argument, not supported, function not found, version mismatch, deprecated
NO_PERMISSION, TIMEOUT, CORRUPTED_INFOROM, GPU_IS_LOST, RESET_REQUIRED = 4, 10, 14, 15, 16
WHOLE_MACHINE = frozenset({1, 9, 12, 18})  # uninitialized, driver not loaded, library not found, driver and library differ
HARD_CODES = frozenset({CORRUPTED_INFOROM, RESET_REQUIRED})
_QUALITY = {NO_PERMISSION: "no_permission", TIMEOUT: "timeout", GPU_IS_LOST: "lost"}

Handle = Any
Values = tuple[float, ...]
MIB = 1024 * 1024
DRAM, SRAM = 2, 7
_FIELD = struct.Struct("=IIqqIIQ")  # nvmlFieldValue_t
_DOUBLE, _UNSIGNED, _SIGNED, _SHORT = 0, 1, 5, 6
_SIGNED_LONG = 4


T = TypeVar("T")


def quality_of(rc: int) -> str:
    """Name the quality of a value whose call gave this code; an unexpected code costs that value alone."""
    return _QUALITY.get(rc, "absent")


def attempt(function: Callable[[], T]) -> tuple[int, T | None]:
    """Call into NVML and give its return code with the result."""
    try:
        return 0, function()
    except nvml.NVMLError as error:
        return int(error.value), None
    except nvml.NVMLLibraryMismatchError:  # not an NVMLError: the library lacks a name that pynvml insists on
        return int(nvml.NVML_ERROR_FUNCTION_NOT_FOUND), None


def address(handle: Handle) -> int:
    """Tell two handles apart: NVML's are opaque pointers."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


class Batch:
    """Field values read in one call, into an array that is made once."""

    def __init__(self, fields: Sequence[tuple[int, int]]) -> None:
        self._array = (nvml.c_nvmlFieldValue_t * len(fields))()
        for value, (field, scope) in zip(self._array, fields, strict=True):
            value.fieldId, value.scopeId = field, scope
        self._bytes = memoryview(self._array).cast("B")
        self._pointer = ctypes.byref(self._array)
        self._count = len(fields)

    def read(self, handle: Handle) -> Iterator[tuple[int, float]]:
        """Give return code and value of each field; raises NVMLError when the call itself fails."""
        code = nvml.nvmlLib.nvmlDeviceGetFieldValues(handle, self._count, self._pointer)
        if code:
            raise nvml.NVMLError(code)
        return ((rc, _number(kind, raw)) for _, _, _, _, kind, rc, raw in _FIELD.iter_unpack(self._bytes))


def _number(kind: int, raw: int) -> float:
    if kind == _UNSIGNED:
        return raw & 0xFFFFFFFF
    if kind == _DOUBLE:
        return float(struct.unpack("=d", raw.to_bytes(8, "little"))[0])
    if kind == _SIGNED:
        return ctypes.c_int32(raw & 0xFFFFFFFF).value
    if kind == _SIGNED_LONG:
        return ctypes.c_int64(raw).value
    return raw & 0xFFFF if kind == _SHORT else raw


def _temperature_v(handle: Handle) -> Values:
    return (nvml.nvmlDeviceGetTemperatureV(handle, nvml.NVML_TEMPERATURE_GPU),)


def _temperature(handle: Handle) -> Values:
    return (nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),)


def _memory_v2(handle: Handle) -> Values:
    memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    return memory.used / MIB, memory.total / MIB


def _memory(handle: Handle) -> Values:
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    return memory.used / MIB, memory.total / MIB


def _utilization(handle: Handle) -> Values:
    rates = nvml.nvmlDeviceGetUtilizationRates(handle)
    return rates.gpu / 100, rates.memory / 100


def _uptime(handle: Handle) -> Values:
    """Read seconds since driver load or reset; pynvml does not wrap this call of the 13.5 header."""
    seconds = ctypes.c_uint()
    try:
        code = nvml.nvmlLib.nvmlDeviceGetGpuUptime_v1(handle, ctypes.byref(seconds))
    except AttributeError:
        code = nvml.NVML_ERROR_FUNCTION_NOT_FOUND
    if code:
        raise nvml.NVMLError(code)
    return (seconds.value,)


def _fabric_state_v(handle: Handle) -> Values:
    """Read the fabric's state; the 40-byte v3 struct is used by its own name (pynvml's `V` name is the 36-byte one)."""
    info = nvml.c_nvmlGpuFabricInfo_v3_t()
    try:
        nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    except nvml.NVMLError_ArgumentVersionMismatch:
        info = nvml.c_nvmlGpuFabricInfo_v2_t()
        nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    return (info.state,)


def _fabric_state(handle: Handle) -> Values:
    info = nvml.c_nvmlGpuFabricInfo_t()
    nvml.nvmlDeviceGetGpuFabricInfo(handle, ctypes.byref(info))
    return (info.state,)


def _remap_histogram(handle: Handle) -> Values:
    banks = nvml.nvmlDeviceGetRowRemapperHistogram(handle)
    return banks.low, banks.none


def _sram_threshold(handle: Handle) -> Values:
    status = nvml.c_nvmlEccSramErrorStatus_v1_t()
    status.version = nvml.nvmlEccSramErrorStatus_v1
    nvml.nvmlDeviceGetSramEccErrorStatus(handle, ctypes.byref(status))
    return (status.bThresholdExceeded,)


def _retired_pages(handle: Handle) -> Values:
    causes = (nvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS, nvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR)
    return (sum(len(nvml.nvmlDeviceGetRetiredPages(handle, cause)) for cause in causes),)


def _ecc_total(kind: int, counter: int) -> Callable[[Handle], Values]:
    return lambda handle: (nvml.nvmlDeviceGetTotalEccErrors(handle, kind, counter),)


def _ecc_volatile(kind: int, location: int) -> Callable[[Handle], Values]:
    return lambda handle: (nvml.nvmlDeviceGetMemoryErrorCounter(handle, kind, nvml.NVML_VOLATILE_ECC, location),)


def _plain(name: str, *arguments: int, factor: float = 1) -> Callable[[Handle], Values]:
    call = getattr(nvml, name)
    return lambda handle: (call(handle, *arguments) * factor,)


CALLS: dict[str, Callable[[Handle], Values]] = {
    "temperature_v": _temperature_v,
    "temperature": _temperature,
    "power_usage": _plain("nvmlDeviceGetPowerUsage", factor=0.001),
    "power_limit": _plain("nvmlDeviceGetEnforcedPowerLimit", factor=0.001),
    "energy": _plain("nvmlDeviceGetTotalEnergyConsumption"),
    "pcie_replay": _plain("nvmlDeviceGetPcieReplayCounter"),
    "clock_event_reasons": _plain("nvmlDeviceGetCurrentClocksEventReasons"),
    "clock_throttle_reasons": _plain("nvmlDeviceGetCurrentClocksThrottleReasons"),
    "sm_clock": _plain("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
    "memory_clock": _plain("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
    "utilization": _utilization,
    "memory_v2": _memory_v2,
    "memory": _memory,
    "uptime": _uptime,
    "ecc_ce_volatile": _ecc_total(nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_VOLATILE_ECC),
    "ecc_ue_volatile": _ecc_total(nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC),
    "ecc_ce_aggregate": _ecc_total(nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_AGGREGATE_ECC),
    "ecc_ue_aggregate": _ecc_total(nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_AGGREGATE_ECC),
    "dram_ce_volatile": _ecc_volatile(nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, DRAM),
    "dram_ue_volatile": _ecc_volatile(nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, DRAM),
    "sram_ce_volatile": _ecc_volatile(nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, SRAM),
    "sram_ue_volatile": _ecc_volatile(nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, SRAM),
    "margin": _plain("nvmlDeviceGetMarginTemperature"),
    "pcie_gen": _plain("nvmlDeviceGetCurrPcieLinkGeneration"),
    "pcie_width": _plain("nvmlDeviceGetCurrPcieLinkWidth"),
    "fabric_state_v": _fabric_state_v,
    "fabric_state": _fabric_state,
    "remap_histogram": _remap_histogram,
    "sram_threshold": _sram_threshold,
    "retired_pages": _retired_pages,
    "ecc_mode": lambda handle: (nvml.nvmlDeviceGetEccMode(handle)[0],),
}
