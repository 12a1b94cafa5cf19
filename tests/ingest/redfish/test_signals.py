"""Each property that vendors report has its canonical name, part, unit and conversion."""

from __future__ import annotations

import pytest

from ingest.redfish.dell import signal_of_metric_id
from ingest.redfish.identity import series_of
from ingest.redfish.sensors import SensorFacts
from ingest.redfish.signals import signal_of

B = "/redfish/v1/Systems/HGX_Baseboard_0"
GPU = f"{B}/Processors/GPU_0"
NVLINK = f"{GPU}/Ports/NVLink_4"
DRAM = f"{B}/Memory/GPU_0_DRAM_0"
S = "/redfish/v1/Chassis/C/Sensors"


@pytest.mark.parametrize(
    ("prop", "quantity", "device", "unit", "scale"),
    [
        (f"{S}/HGX_GPU_SXM_1_TEMP_0", "gpu_temp_c", "gpu1", "°C", 1.0),
        (f"{S}/HGX_GPU_0_TEMP_1", "gpu_temp_margin_c", "gpu0", "°C", 1.0),
        (f"{S}/HGX_GPU_0_Energy_0", "gpu_energy_j_total", "gpu0", "J", 1.0),
        (f"{S}/HGX_GPU_0_DRAM_2_Temp_0", "hbm_temp_c", "gpu0/dram2", "°C", 1.0),
        (f"{S}/HGX_Chassis_0_TotalGPU_Power_0", "gpus_power_w", "chassis", "W", 1.0),
        (f"{S}/ProcessorModule_1_CPU_0_Power_0", "cpu_power_w", "cpu1", "W", 1.0),
        (f"{S}/ProcessorModule_1_VREG_CPU_Power_0", "cpu_vreg_power_w", "cpu1", "W", 1.0),
        (f"{S}/ProcessorModule_0_Vreg_0_SocPower_0", "soc_vreg_power_w", "cpu0", "W", 1.0),
        (f"{S}/HGX_ProcessorModule_0_Inlet_Temp_1", "inlet_temp_c", "module0", "°C", 1.0),
        (f"{S}/HGX_ProcessorModule_0_Exhaust_Temp_1", "outlet_temp_c", "module0", "°C", 1.0),
        (f"{S}/ps3_input_voltage", "psu_input_v", "psu3", "V", 1.0),
        (f"{GPU}/ProcessorMetrics#/CacheMetricsTotal/LifeTime/UncorrectableECCErrorCount", "sram_ecc_unc_total", "gpu0", "count", 1.0),
        (f"{GPU}/ProcessorMetrics#/PCIeErrors/NonFatalErrorCount", "pcie_nonfatal_errors_total", "gpu0", "count", 1.0),
        (f"{GPU}/ProcessorMetrics#/PCIeErrors/L0ToRecoveryCount", "pcie_l0_recovery_total", "gpu0", "count", 1.0),
        (f"{GPU}/ProcessorMetrics#/ThermalLimitThrottleDuration", "throttle_thermal_s_total", "gpu0", "s", 1.0),
        (f"{GPU}/ProcessorMetrics#/BandwidthPercent", "gpu_util_ratio", "gpu0", "0..1", 0.01),
        (f"{GPU}/ProcessorMetrics#/Oem/Nvidia/IntergerActivityUtilizationPercent", "prof_integer_active_ratio", "gpu0", "0..1", 0.01),
        (f"{GPU}/ProcessorMetrics#/Oem/Nvidia/NVLinkRawTxBandwidthGbps", "nvlink_raw_tx_gbps", "gpu0", "Gbit/s", 1.0),
        (f"{GPU}/Oem/Nvidia/ProcessorResetMetrics#/PF_FLR_ResetEntryCount", "gpu_reset_flr_entry_total", "gpu0", "count", 1.0),
        (f"{DRAM}/MemoryMetrics#/LifeTime/CorrectableECCErrorCount", "hbm_ecc_corr_total", "gpu0/dram0", "count", 1.0),
        (f"{DRAM}/MemoryMetrics#/Oem/Nvidia/RowRemapping/LowAvailabilityBankCount", "remap_banks_low", "gpu0/dram0", None, 1.0),
        (f"{DRAM}/MemoryMetrics#/Oem/Nvidia/RowRemapping/NoAvailablityBankCount", "remap_banks_no", "gpu0/dram0", None, 1.0),
        (f"{DRAM}#/Oem/Nvidia/RowRemappingFailed", "row_remap_failed", "gpu0/dram0", None, 1.0),
        (f"{NVLINK}/Metrics#/Oem/Nvidia/NVLinkErrors/RecoveryCount", "nvlink_recovery_total", "gpu0/nvlink4", "count", 1.0),
        (f"{NVLINK}/Metrics#/Oem/Nvidia/NVLinkErrors/DataCRCCount", "nvlink_crc_data_total", "gpu0/nvlink4", "count", 1.0),
        (f"{NVLINK}/Metrics#/RXBytes", "link_rx_bytes_total", "gpu0/nvlink4", "bytes", 1.0),
        (f"{NVLINK}/Metrics#/Oem/Nvidia/LinkDownedCount", "link_recovery_failed_total", "gpu0/nvlink4", "count", 1.0),
        (f"{NVLINK}/Metrics#/Oem/Nvidia/NVLinkDataRxBandwidthGbps", "link_data_rx_gbps", "gpu0/nvlink4", "Gbit/s", 1.0),
        ("/redfish/v1/Chassis/1/Power#/PowerControl/0/PowerConsumedWatts", "power_w", "chassis", "W", 1.0),
        ("/redfish/v1/Chassis/1/Power#/PowerSupplies/1/PowerInputWatts", "psu_input_w", "psu1", "W", 1.0),
        ("/redfish/v1/Chassis/1/Thermal#/Fans/3/Reading", "fan_rpm", "fan3", "RPM", 1.0),
        ("/redfish/v1/Chassis/1/EnvironmentMetrics#/EnergykWh/Reading", "energy_j_total", "chassis", "J", 3_600_000.0),
        ("/redfish/v1/UpdateService#/State", "raw", None, None, 1.0),
    ],
)  # fmt: skip
def test_properties(prop: str, quantity: str, device: str | None, unit: str | None, scale: float) -> None:
    """A property of the HGX reports and of DMTF's schemas maps as the design's tables say."""
    signal = signal_of(series_of({"MetricProperty": prop}, "X"))
    assert (signal.quantity, signal.device, signal.unit, signal.scale) == (quantity, device, unit, scale)


@pytest.mark.parametrize(
    ("name", "facts", "quantity", "device", "scale"),
    [
        ("x7", SensorFacts("Temperature", "Cel", "Intake"), "inlet_temp_c", "chassis", 1.0),
        ("x7", SensorFacts("Temperature", "Cel", "GPU", "Headroom"), "temp_margin_c", "chassis:C", 1.0),
        ("x7", SensorFacts("EnergykWh", "kW.h"), "energy_j_total", "chassis:C", 3_600_000.0),
        ("x7", SensorFacts("LiquidFlow", "L/s"), "flow_lpm", "chassis:C", 60.0),
        ("x7", SensorFacts("Heat", "kW"), "heat_w", "chassis:C", 1000.0),
        ("x7", SensorFacts("Temperature", "W"), "raw", "chassis:C", 1.0),  # type and units contradict each other
        ("x7", None, "raw", "chassis:C", 1.0),
        ("temperature_Inlet_Temp", None, "inlet_temp_c", "chassis", 1.0),
        ("total_power", None, "power_w", "chassis", 1.0),
        ("PSU1_Output_Power", None, "psu_output_w", "psu1", 1.0),
        ("fan_tach_4", None, "fan_rpm", "fan4", 1.0),
        ("fan4_pwm", None, "fan_ratio", "fan4", 0.01),
    ],
)
def test_sensors(name: str, facts: SensorFacts | None, quantity: str, device: str, scale: float) -> None:
    """A sensor without a fixed name maps by what its resource says, else by the words of its id."""
    signal = signal_of(series_of({"MetricProperty": f"{S}/{name}"}, "X"), facts)
    assert (signal.quantity, signal.device, signal.scale) == (quantity, device, scale)


@pytest.mark.parametrize(
    ("metric_id", "context", "quantity", "device", "factors"),
    [
        ("TemperatureReading", "iDRAC.Embedded.1#SystemBoardInletTemp", "inlet_temp_c", "chassis", (1.0, 0.0)),
        ("TemperatureReading", "iDRAC.Embedded.1#GPUTemp31", "gpu_temp_c", "gpu31", (1.0, 0.0)),
        ("PrimaryTemperature", "Video.Slot.31-1", "gpu_temp_c", "gpu31", (1.0, 0.0)),
        ("PowerConsumption", "Video.Slot.31-1", "gpu_power_w", "gpu31", (0.001, 0.0)),
        ("CumulativeSBECounterFB", "Video.Slot.31-1", "hbm_ecc_corr_total", "gpu31", (1.0, 0.0)),
        ("DBECounterGRL1Cache", "Video.Slot.31-1", "sram_ecc_unc_volatile_total", "gpu31", (1.0, 0.0)),
        ("RPMReading", "0x17||Fan.Embedded.1A", "fan_rpm", "fan1a", (1.0, 0.0)),
        ("WattsReading", "PSU.Slot.2", "psu_input_w", "psu2", (1.0, 0.0)),
        ("CPUPkgEnergy", "CPU.Socket.1", "cpu_energy_j_total", "cpu1", (1e-6, 0.0)),
        ("CompositeTemparature", "Disk.Bay.1", "drive_temp_c", "dell:Disk.Bay.1", (1.0, -273.15)),
        ("SystemPowerConsumption", "PowerMetrics", "power_w", "chassis", (1.0, 0.0)),
        ("LastHourAvgPower", "PowerMetrics", "raw", "dell:PowerMetrics", (1.0, 0.0)),
    ],
)
def test_metric_ids(metric_id: str, context: str, quantity: str, device: str, factors: tuple[float, float]) -> None:
    """Dell's metric ids map by the part that they are about, whatever their spelling in upper and lower case."""
    for spelling in (metric_id, metric_id.upper()):
        signal = signal_of_metric_id(spelling, context)
        assert (signal.quantity, signal.device, (signal.scale, signal.offset)) == (quantity, device, factors)
