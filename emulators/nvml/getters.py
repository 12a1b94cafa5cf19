"""Named calls that only read quantities: the C functions behind them are generated from these tables and the header's prototypes."""

from __future__ import annotations

from typing import NamedTuple

# call -> quantities in the order of its output arguments
SCALARS: dict[str, tuple[str, ...]] = {
    "nvmlDeviceGetMinorNumber": ("minor",),
    "nvmlDeviceGetModuleId": ("module_id",),
    "nvmlDeviceGetArchitecture": ("architecture",),
    "nvmlDeviceGetBrand": ("brand",),
    "nvmlDeviceGetCudaComputeCapability": ("capability_major", "capability_minor"),
    "nvmlDeviceGetFanSpeed": ("fan_percent",),
    "nvmlDeviceGetPowerManagementLimit": ("power_limit_mw",),
    "nvmlDeviceGetEnforcedPowerLimit": ("power_limit_mw",),
    "nvmlDeviceGetPowerManagementDefaultLimit": ("power_default_mw",),
    "nvmlDeviceGetPowerManagementLimitConstraints": ("power_min_mw", "power_max_mw"),
    "nvmlDeviceGetTotalEnergyConsumption": ("energy_mj",),
    "nvmlDeviceGetPerformanceState": ("performance_state",),
    "nvmlDeviceGetPowerState": ("power_state",),
    "nvmlDeviceGetCurrentClocksEventReasons": ("clock_event_reasons",),
    "nvmlDeviceGetCurrentClocksThrottleReasons": ("clock_event_reasons",),
    "nvmlDeviceGetEccMode": ("ecc_mode", "ecc_mode_pending"),
    "nvmlDeviceGetRemappedRows": ("remapped_ce", "remapped_ue", "remap_pending", "remap_failure"),
    "nvmlDeviceGetRetiredPagesPendingStatus": ("retired_pending",),
    "nvmlDeviceGetPcieReplayCounter": ("pcie_replay",),
    "nvmlDeviceGetCurrPcieLinkGeneration": ("pcie_gen",),
    "nvmlDeviceGetMaxPcieLinkGeneration": ("pcie_gen_max",),
    "nvmlDeviceGetGpuMaxPcieLinkGeneration": ("pcie_gen_device_max",),
    "nvmlDeviceGetCurrPcieLinkWidth": ("pcie_width",),
    "nvmlDeviceGetMaxPcieLinkWidth": ("pcie_width_max",),
    "nvmlDeviceGetMigMode": ("mig_mode", "mig_mode_pending"),
    "nvmlDeviceGetComputeMode": ("compute_mode",),
    "nvmlDeviceGetDisplayMode": ("display_mode",),
    "nvmlDeviceGetDisplayActive": ("display_active",),
    "nvmlDeviceGetSupportedEventTypes": ("event_types",),
}


class Indexed(NamedTuple):
    """A call whose second argument picks the element; `is_link`: it must be a link of the GPU."""

    quantity: str
    limit: int = 0
    is_link: bool = False
    stride: int = 1


INDEXED: dict[str, Indexed] = {
    "nvmlDeviceGetClockInfo": Indexed("clock_mhz", 4),
    "nvmlDeviceGetMaxClockInfo": Indexed("clock_max_mhz", 4),
    "nvmlDeviceGetApplicationsClock": Indexed("clock_application_mhz", 4),
    "nvmlDeviceGetNvLinkState": Indexed("link_up", is_link=True),
    "nvmlDeviceGetNvLinkVersion": Indexed("link_version", is_link=True, stride=0),
}


class Filled(NamedTuple):
    """A call that fills a structure: `members` are quantities, or (quantity, index) in an array; `versions`: version words it takes."""

    members: dict[str, str | tuple[str, int]]
    versions: tuple[str, ...] = ()


STRUCTS: dict[str, Filled] = {
    "nvmlDeviceGetUtilizationRates": Filled({"gpu": "gpu_util_percent", "memory": "memory_util_percent"}),
    "nvmlDeviceGetTemperatureV": Filled({"temperature": "temp_c"}, ("nvmlTemperature_v1",)),
    "nvmlDeviceGetMarginTemperature": Filled({"marginTemperature": "margin_c"}, ("nvmlMarginTemperature_v1",)),
    "nvmlDeviceGetRowRemapperHistogram": Filled(
        {name: ("remap_histogram", at) for at, name in enumerate(("max", "high", "partial", "low", "none"))}
    ),
    "nvmlDeviceGetRemappedRows_v2": Filled(
        {
            "corrActiveRemaps": "remapped_ce",
            "corrInactiveRemaps": "remapped_ce_inactive",
            "uncActiveRemaps": "remapped_ue",
            "uncInactiveRemaps": "remapped_ue_inactive",
            "bPending": "remap_pending",
            "bFailureOccurred": "remap_failure",
        }
    ),
    "nvmlDeviceGetBankRemapperStatus_v1": Filled(
        {
            "activeRemappings": "banks_active",
            "inactiveRemappings": "banks_inactive",
            "bPending": "bank_pending",
            "histogram.maxSpareGroupCount": "bank_histogram_max",
            "histogram.noSpareGroupCount": "bank_histogram_none",
        }
    ),
    "nvmlDeviceGetRepairStatus": Filled(
        {"bChannelRepairPending": "channel_repair_pending", "bTpcRepairPending": "tpc_repair_pending"}, ("nvmlRepairStatus_v1",)
    ),
    "nvmlDeviceGetUnrepairableMemoryFlag_v1": Filled({"bUnrepairableMemory": "memory_unrepairable"}),
    "nvmlDeviceGetGpuUptime_v1": Filled({"uptime": "uptime_s"}),
    "nvmlDeviceGetC2cModeInfoV": Filled({"isC2cEnabled": "c2c_enabled"}),
    "nvmlDeviceGetSramEccErrorStatus": Filled(
        {
            **{
                name: ("sram_status", at)
                for at, name in enumerate(
                    (
                        "aggregateUncParity",
                        "aggregateUncSecDed",
                        "aggregateCor",
                        "volatileUncParity",
                        "volatileUncSecDed",
                        "volatileCor",
                        "aggregateUncBucketL2",
                        "aggregateUncBucketSm",
                        "aggregateUncBucketPcie",
                        "aggregateUncBucketMcu",
                        "aggregateUncBucketOther",
                    )
                )
            },
            "bThresholdExceeded": "sram_threshold_exceeded",
        },
        ("nvmlEccSramErrorStatus_v1",),
    ),
}

TEXTS: dict[str, str] = {
    "nvmlDeviceGetName": "name",
    "nvmlDeviceGetSerial": "serial",
    "nvmlDeviceGetVbiosVersion": "vbios",
    "nvmlDeviceGetInforomImageVersion": "inforom_image",
    "nvmlDeviceGetBoardPartNumber": "part_number",
}

GENERATED = frozenset((*SCALARS, *INDEXED, *STRUCTS, *TEXTS))
