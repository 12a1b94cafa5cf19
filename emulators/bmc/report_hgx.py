"""The metric reports of NVIDIA's HGX BMC (bmcweb fork, `metric_report_utils.hpp`): `HGX_<X>Metrics_0`, on request, without report time."""

from __future__ import annotations

from collections.abc import Iterator

from emulators.bmc.machine import Machine
from emulators.bmc.messages import Body
from emulators.bmc.reports import Metric, Report, six_decimals
from emulators.state import GpuState, LinkState

# ThrottleReasons by NVML's clock-event bits; a bit without a word of its own is the empty string.
_REASONS = (
    (0x4, "SWPowerCap"),
    (0x8, "HWSlowdown"),
    (0x10, "SyncBoost"),
    (0x20, "Clocks are slowed down because GPU or memory has reached its maximum operating temperature"),
    (0x40, "HWThermalSlowdown"),
    (0x80, "HWPowerBrakeSlowdown"),
)


def reports() -> tuple[Report, ...]:
    """List the reports of an HGX board."""
    sensing: Body = {"Nvidia": {"@odata.type": "#NvidiaMetricReport.v1_0_0.NvidiaMetricReport", "SensingIntervalMilliseconds": 250}}
    return (
        Report(name="HGX_PlatformEnvironmentMetrics_0", metrics=_environment, oem=sensing),
        Report(name="HGX_ProcessorMetrics_0", metrics=_processors),
        Report(name="HGX_MemoryMetrics_0", metrics=_memory),
        Report(name="HGX_ProcessorPortMetrics_0", metrics=_ports),
        Report(name="HGX_ProcessorResetMetrics_0", metrics=_resets),
    )


def nanoseconds(total: int) -> str:
    """Write a time as bmcweb's formatter does: whole days end in `DT`, fractions have nine digits."""
    seconds, fraction = divmod(total, 10**9)
    days, seconds = divmod(seconds, 86_400)
    hours, seconds = divmod(seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    text = f"P{days}DT" if days else "PT"
    text += f"{hours}H" if hours else ""
    text += f"{minutes}M" if minutes else ""
    return text + (f"{seconds}.{fraction:09d}S" if seconds or fraction else "")


def _environment(machine: Machine) -> list[Metric]:
    return [
        Metric(prop=sensor.path, value=six_decimals(sensor.value), oem={"Nvidia": {"MetricValueStale": sensor.value is None}})
        for sensor in machine.sensors()
    ]


def _gpus(machine: Machine) -> list[GpuState]:
    return [gpu for gpu in machine.read_state()[1] if not gpu.is_lost and not gpu.is_hidden]


def _processors(machine: Machine) -> list[Metric]:
    return [metric for gpu in _gpus(machine) for metric in _processor(machine, gpu)]


def _processor(machine: Machine, gpu: GpuState) -> Iterator[Metric]:
    base = f"{machine.processor(gpu.gpu_index)}/ProcessorMetrics#"
    device = f"{machine.gpu_chassis(gpu.gpu_index)}/PCIeDevices/{machine.gpu(gpu.gpu_index)}#"
    counters = {
        f"{base}/CacheMetricsTotal/LifeTime/CorrectableECCErrorCount": gpu.sram_ce_aggregate_total,
        f"{base}/CacheMetricsTotal/LifeTime/UncorrectableECCErrorCount": gpu.sram_ue_aggregate_total,
        f"{base}/PCIeErrors/CorrectableErrorCount": gpu.pcie_correctable_total,
        f"{base}/PCIeErrors/L0ToRecoveryCount": gpu.pcie_l0_to_recovery_total,
        f"{base}/PCIeErrors/ReplayCount": gpu.pcie_replay_total,
        f"{base}/OperatingSpeedMHz": round(gpu.sm_clock_mhz),
        f"{device}/PCIeInterface/LanesInUse": gpu.pcie_link_width,
    }
    yield from (Metric(prop=prop, value=str(value)) for prop, value in counters.items())
    yield Metric(prop=f"{base}/BandwidthPercent", value=six_decimals(gpu.gpu_util_ratio * 100))
    yield Metric(prop=f"{base}/PowerLimitThrottleDuration", value=nanoseconds(gpu.sw_power_cap_ns_total))
    yield Metric(prop=f"{base}/ThermalLimitThrottleDuration", value=nanoseconds(gpu.sw_thermal_ns_total))
    yield Metric(prop=f"{base}/Oem/Nvidia/HardwareViolationThrottleDuration", value=nanoseconds(gpu.hw_thermal_ns_total))
    yield Metric(prop=f"{device}/PCIeInterface/PCIeType", value=f"Gen{gpu.pcie_link_gen}")
    words = [word for bit, word in _REASONS if gpu.clock_event_reasons & bit] or ["NA"]
    yield from (Metric(prop=f"{base}/Oem/Nvidia/ThrottleReasons/{number}", value=word) for number, word in enumerate(words))


def _memory(machine: Machine) -> list[Metric]:
    found = []
    for gpu in _gpus(machine):
        memory = machine.memory(gpu.gpu_index)
        values = {
            f"{memory}/MemoryMetrics#/LifeTime/CorrectableECCErrorCount": str(gpu.dram_ce_aggregate_total),
            f"{memory}/MemoryMetrics#/LifeTime/UncorrectableECCErrorCount": str(gpu.dram_ue_aggregate_total),
            f"{memory}/MemoryMetrics#/Oem/Nvidia/RowRemapping/CorrectableRowRemappingCount": str(gpu.remapped_rows_ce_total),
            f"{memory}/MemoryMetrics#/Oem/Nvidia/RowRemapping/UncorrectableRowRemappingCount": str(gpu.remapped_rows_ue_total),
            f"{memory}/MemoryMetrics#/BandwidthPercent": six_decimals(gpu.memory_util_ratio * 100),
            f"{memory}#/Oem/Nvidia/RowRemappingFailed": str(gpu.remap_failure).lower(),
            f"{memory}#/OperatingSpeedMHz": str(round(gpu.memory_clock_mhz)),
        }
        found += [Metric(prop=prop, value=value) for prop, value in values.items()]
    return found


def _ports(machine: Machine) -> list[Metric]:
    return [
        metric for gpu in _gpus(machine) for number, link in enumerate(gpu.links) for metric in _port(machine, gpu.gpu_index, number, link)
    ]


def _port(machine: Machine, slot: int, number: int, link: LinkState) -> Iterator[Metric]:
    port = f"{machine.processor(slot)}/Ports/NVLink_{number}"
    gbps = link.speed_mb_s * 8 / 1000
    errors = f"{port}/Metrics#/Oem/Nvidia/NVLinkErrors"
    yield Metric(prop=f"{port}#/LinkStatus", value="LinkUp" if link.is_up else "LinkDown")
    yield Metric(prop=f"{port}#/CurrentSpeedGbps", value=six_decimals(gbps if link.is_up else 0.0))
    yield Metric(prop=f"{port}#/MaxSpeedGbps", value=six_decimals(gbps))
    yield Metric(prop=f"{errors}/DataCRCCount", value=str(link.crc_total))
    yield Metric(prop=f"{errors}/ReplayCount", value=str(link.replay_total))
    yield Metric(prop=f"{errors}/RecoveryCount", value=str(link.recovery_total))
    yield Metric(prop=f"{errors}/RuntimeError", value=str(not link.is_up).lower())


def _resets(machine: Machine) -> list[Metric]:
    found = []
    for gpu in _gpus(machine):
        base = f"{machine.processor(gpu.gpu_index)}/Oem/Nvidia/ProcessorResetMetrics#"
        kinds = ("ConventionalReset", "FundamentalReset", "PF_FLR_Reset")
        found += [Metric(prop=f"{base}/{kind}{side}Count", value="0") for kind in kinds for side in ("Entry", "Exit")]
        found.append(Metric(prop=f"{base}/LastResetType", value="Fundamental"))
    return found
