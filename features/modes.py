"""Which failure mode a sign stands for, which unit a mode is a failure of, and what is no failure of hardware at all.

The ids are those of the emulated fleet and of imported histories alike; a site may group them in its configuration.
"""

from __future__ import annotations

# Failures of one GPU; every other mode is a failure of its node.
GPU_MODES = frozenset({"hbm_ue", "sram_ecc", "nvlink", "fell_off_bus", "thermal", "gsp", "gpu_faulty", "pcie_degraded", "pmu_spi", "sdc"})

# The node is healthy, or its outage was planned: must not train the hazard (RSC, Llama 3: software and dependency rows).
NOT_HARDWARE = frozenset({"software", "nccl_watchdog", "dependency", "host_maintenance", "human", "user", "job", "facilities"})

UNKNOWN = "unknown"

# Mode that an XID of use `label` stands for, where nobody says otherwise (NVIDIA Xid catalogue; docs/features.md).
MODE_OF_XID = {
    46: "gpu_faulty",
    48: "hbm_ue",
    54: "gpu_faulty",
    62: "gpu_faulty",
    64: "hbm_ue",
    74: "nvlink",
    79: "fell_off_bus",
    95: "hbm_ue",
    110: "gpu_faulty",
    119: "gsp",
    120: "gsp",
    136: "nvlink",
    140: "hbm_ue",
    143: "gpu_faulty",
    157: "gpu_faulty",
    158: "gpu_faulty",
    165: "gpu_faulty",
    167: "pcie_degraded",
    168: "hbm_ue",
    169: "gpu_faulty",
    171: "hbm_ue",
    172: "sram_ecc",
    173: "nvlink",
}
