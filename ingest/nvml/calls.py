"""The named calls of pynvml, one small function each: a handle in, one raw value per column out, NVMLError when it cannot be read.

Only the worker imports this module: it is the door to pynvml.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pynvml as nvml

from ingest.nvml.codes import FUNCTION_NOT_FOUND, UNKNOWN

Handle = Any
Values = tuple[float | None, ...]  # None: this struct version has no such member
MIB = 1024 * 1024
CORRECTED, UNCORRECTED = 0, 1  # nvmlMemoryErrorType_t
VOLATILE, AGGREGATE = 0, 1  # nvmlEccCounterType_t
DRAM, SRAM = 2, 7  # nvmlMemoryLocation_t
_FIELD = struct.Struct("=IIqqIIQ")  # nvmlFieldValue_t
_DOUBLE, _UNSIGNED, _SIGNED, _SHORT = 0, 1, 5, 6
_SIGNED_LONG = 4


T = TypeVar("T")


def attempt(function: Callable[[], T]) -> tuple[int, T | None]:
    """Call into NVML and give its return code with the result; whatever the bindings stumble over costs this call alone."""
    try:
        return 0, function()
    except nvml.NVMLError as error:
        return int(error.value), None
    except (ArithmeticError, AttributeError, TypeError, ValueError, ctypes.ArgumentError):
        return UNKNOWN, None
    except nvml.NVMLLibraryMismatchError:  # not an NVMLError: the library lacks a name that pynvml insists on
        return FUNCTION_NOT_FOUND, None


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
    return (_one_word("nvmlDeviceGetGpuUptime_v1", handle),)


def _one_word(name: str, handle: Handle) -> int:
    """Call what fills a structure of one unsigned int."""
    word = ctypes.c_uint()
    code = getattr(nvml.nvmlLib, name)(handle, ctypes.byref(word)) if hasattr(nvml.nvmlLib, name) else FUNCTION_NOT_FOUND
    if code:
        raise nvml.NVMLError(code)
    return word.value


def _fabric_info(handle: Handle) -> Any:
    """Read what the GPU knows of its NVLink fabric; the 40-byte v3 struct goes by its own name (pynvml's `V` is the 36-byte one)."""
    info = nvml.c_nvmlGpuFabricInfo_v3_t()
    try:
        nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    except nvml.NVMLError_ArgumentVersionMismatch:
        info = nvml.c_nvmlGpuFabricInfo_v2_t()
        nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    return info


def _fabric_state_v(handle: Handle) -> Values:
    return (_fabric_info(handle).state,)


def _fabric(handle: Handle) -> Values:
    info = _fabric_info(handle)
    return info.healthMask, getattr(info, "healthSummary", None), info.cliqueId


def _fabric_state(handle: Handle) -> Values:
    info = nvml.c_nvmlGpuFabricInfo_t()
    nvml.nvmlDeviceGetGpuFabricInfo(handle, ctypes.byref(info))
    return (info.state,)


def _remap_histogram(handle: Handle) -> Values:
    banks = nvml.nvmlDeviceGetRowRemapperHistogram(handle)
    return banks.low, banks.none


def _remap_spares(handle: Handle) -> Values:
    banks = nvml.nvmlDeviceGetRowRemapperHistogram(handle)
    return banks.max, banks.high, banks.partial


def _sram_status(handle: Handle) -> Any:
    status = nvml.c_nvmlEccSramErrorStatus_v1_t()
    status.version = nvml.nvmlEccSramErrorStatus_v1
    nvml.nvmlDeviceGetSramEccErrorStatus(handle, ctypes.byref(status))
    return status


def _sram_threshold(handle: Handle) -> Values:
    return (_sram_status(handle).bThresholdExceeded,)


def _sram_detail(handle: Handle) -> Values:
    status = _sram_status(handle)
    buckets = (getattr(status, f"aggregateUncBucket{name}") for name in ("L2", "Sm", "Pcie", "Mcu", "Other"))
    return status.aggregateUncParity, status.aggregateUncSecDed, *buckets


def _sram_addresses(handle: Handle) -> Values:
    """Count the SRAM addresses that had uncorrected errors; entries themselves are not asked for."""
    counts = nvml.c_nvmlEccSramUniqueUncorrectedErrorCounts_v1_t()
    counts.version = nvml.nvmlEccSramUniqueUncorrectedErrorCounts_v1
    nvml.nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts(handle, ctypes.byref(counts))
    return (counts.entryCount,)


def _repair(handle: Handle) -> Values:
    channel, tpc = nvml.nvmlDeviceGetRepairStatus(handle)
    return channel, tpc


def _unrepairable_memory(handle: Handle) -> Values:
    """Read the flag of memory that no spare row can mend; the struct is one word."""
    return (_one_word("nvmlDeviceGetUnrepairableMemoryFlag_v1", handle),)


def _platform(handle: Handle) -> Values:
    info = nvml.c_nvmlPlatformInfo_v2_t()
    info.version = nvml.nvmlPlatformInfo_v2
    nvml.nvmlDeviceGetPlatformInfo(handle, ctypes.byref(info))
    return tuple(int.from_bytes(value) for value in (info.slotNumber, info.trayIndex, info.hostId, info.moduleId))


def _bbx_flush(handle: Handle) -> Values:
    _, duration_us = nvml.nvmlDeviceGetLastBBXFlushTime(handle)
    return (duration_us / 1000,)


def _inforom(handle: Handle) -> Values:
    """Let the driver check the InfoROM, which reads flash: at most hourly."""
    nvml.nvmlDeviceValidateInforom(handle)
    return (1,)


def _process_count(handle: Handle) -> Values:
    return (len(nvml.nvmlDeviceGetComputeRunningProcesses(handle)),)


def _retired_pages(handle: Handle) -> Values:
    causes = (nvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS, nvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR)
    return (sum(len(nvml.nvmlDeviceGetRetiredPages(handle, cause)) for cause in causes),)


def _ecc_total(kind: int, counter: int) -> Callable[[Handle], Values]:
    return lambda handle: (nvml.nvmlDeviceGetTotalEccErrors(handle, kind, counter),)


def _ecc(kind: int, counter: int, location: int) -> Callable[[Handle], Values]:
    return lambda handle: (nvml.nvmlDeviceGetMemoryErrorCounter(handle, kind, counter, location),)


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
    "ecc_ce_volatile": _ecc_total(CORRECTED, VOLATILE),
    "ecc_ue_volatile": _ecc_total(UNCORRECTED, VOLATILE),
    "ecc_ce_aggregate": _ecc_total(CORRECTED, AGGREGATE),
    "ecc_ue_aggregate": _ecc_total(UNCORRECTED, AGGREGATE),
    "dram_ce_volatile": _ecc(CORRECTED, VOLATILE, DRAM),
    "dram_ue_volatile": _ecc(UNCORRECTED, VOLATILE, DRAM),
    "sram_ce_volatile": _ecc(CORRECTED, VOLATILE, SRAM),
    "sram_ue_volatile": _ecc(UNCORRECTED, VOLATILE, SRAM),
    "margin": _plain("nvmlDeviceGetMarginTemperature"),
    "pcie_gen": _plain("nvmlDeviceGetCurrPcieLinkGeneration"),
    "pcie_width": _plain("nvmlDeviceGetCurrPcieLinkWidth"),
    "fabric_state_v": _fabric_state_v,
    "fabric_state": _fabric_state,
    "remap_histogram": _remap_histogram,
    "sram_threshold": _sram_threshold,
    "retired_pages": _retired_pages,
    "ecc_mode": lambda handle: (nvml.nvmlDeviceGetEccMode(handle)[0],),
    "fabric": _fabric,
    "repair": _repair,
    "unrepairable_memory": _unrepairable_memory,
    "sram_ce_aggregate": _ecc(CORRECTED, AGGREGATE, SRAM),
    "sram_ue_aggregate": _ecc(UNCORRECTED, AGGREGATE, SRAM),
    "mig_mode": lambda handle: (nvml.nvmlDeviceGetMigMode(handle)[0],),
    "performance_state": _plain("nvmlDeviceGetPerformanceState"),
    "graphics_clock": _plain("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_GRAPHICS),
    "video_clock": _plain("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_VIDEO),
    "sm_clock_max": _plain("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
    "memory_clock_max": _plain("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_MEM),
    "sram_detail": _sram_detail,
    "sram_addresses": _sram_addresses,
    "remap_spares": _remap_spares,
    "shutdown_threshold": _plain("nvmlDeviceGetTemperatureThreshold", nvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN),
    "slowdown_threshold": _plain("nvmlDeviceGetTemperatureThreshold", nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),
    "memory_max_threshold": _plain("nvmlDeviceGetTemperatureThreshold", nvml.NVML_TEMPERATURE_THRESHOLD_MEM_MAX),
    "gpu_max_threshold": _plain("nvmlDeviceGetTemperatureThreshold", nvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX),
    "pcie_gen_max": _plain("nvmlDeviceGetMaxPcieLinkGeneration"),
    "pcie_width_max": _plain("nvmlDeviceGetMaxPcieLinkWidth"),
    "persistence": _plain("nvmlDeviceGetPersistenceMode"),
    "platform": _platform,
    "bbx_flush": _bbx_flush,
    "process_count": _process_count,
    "inforom": _inforom,
}
