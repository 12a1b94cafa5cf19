"""What happens to a GPU's values over time and when its driver or the GPU itself starts anew: functions on the block of one GPU."""

from __future__ import annotations

import ctypes
from typing import Any

from emulators.nvml.layout import GPU, LINKS

# Quantities that restart at driver load and GPU reset; of `ecc` and `sram_status` only the volatile parts do.
RESTARTING = (
    *("energy_mj", "policy_ns", "sw_thermal_ns", "hw_thermal_ns", "hw_power_brake_ns", "uptime_s"),
    *("pcie_replay", "pcie_rollover", "pcie_l0_to_recovery", "pcie_errors", "pcie_lane_errors", "pcie_tx_bytes", "pcie_rx_bytes"),
    *("link_errors", "link_bytes", "nvlink5", "fec", "raw_errors"),
    *("c2c_errors", "c2c_replays", "c2c_replays_b2b"),
)
_VOLATILE_SRAM = (3, 4, 5)
_LOCATIONS = 8
# Clock-event reason to the counter of the time that it limited the clocks.
_REASON_COUNTERS = ((0x20, "sw_thermal_ns"), (0x40, "hw_thermal_ns"), (0x80, "hw_power_brake_ns"))
_REASON_POLICIES = ((0x4, 0), (0x10, 2), (0x20 | 0x40, 1))  # nvmlPerfPolicyType: power, sync boost, thermal
_ARRAYS = {member.name for member in GPU if member.length > 1 and member.kind != "char"}
_NS = 1_000_000_000


def restart(block: Any) -> None:
    """Reset one GPU: volatile counters start at zero, what was pending takes effect, handles made before are stale."""
    for name in RESTARTING:
        _zero(block, name)
    for kind in range(2):
        start = kind * 2 * _LOCATIONS
        block.ecc[start : start + _LOCATIONS] = [0] * _LOCATIONS
    for place in _VOLATILE_SRAM:
        block.sram_status[place] = 0
    block.ecc_mode, block.mig_mode = block.ecc_mode_pending, block.mig_mode_pending
    if not block.mig_mode:
        block.instance_count = 0
    _apply_remap(block)
    block.channel_repair_pending = block.tpc_repair_pending = block.bank_pending = 0
    block.recovery_action = 0
    block.generation += 1


def _zero(block: Any, name: str) -> None:
    if name in _ARRAYS:
        array = getattr(block, name)
        ctypes.memset(array, 0, ctypes.sizeof(array))
    else:
        setattr(block, name, 0)


def _apply_remap(block: Any) -> None:
    """Use the spare rows that a pending remap asks for: one bank has fewer of them (inferred: the header does not say how many)."""
    if not block.remap_pending:
        return
    block.remap_pending = block.remapped_ce_inactive = block.remapped_ue_inactive = 0
    fullest = next((at for at in range(4) if block.remap_histogram[at]), None)
    if fullest is not None:
        block.remap_histogram[fullest] -= 1
        block.remap_histogram[fullest + 1] += 1


def advance(block: Any, seconds: float) -> None:
    """Let time pass: energy from power, uptime, and the time that each clock-event reason limited the clocks."""
    block.energy_mj += int(block.power_instant_mw * seconds)
    block.uptime_s += int(seconds)
    reasons = block.clock_event_reasons
    for mask, name in _REASON_COUNTERS:
        if reasons & mask:
            setattr(block, name, getattr(block, name) + int(seconds * _NS))
    for mask, policy in _REASON_POLICIES:
        if reasons & mask:
            block.policy_ns[policy] += int(seconds * _NS)


def split(block: Any, instances: list[tuple[int, int, int]]) -> None:
    """Turn MIG on with instances of (GPU instance id, compute instance id, bytes of memory)."""
    block.mig_mode = block.mig_mode_pending = 1
    block.instance_count = len(instances)
    for at, (gpu_instance, compute_instance, memory) in enumerate(instances):
        block.instance_gi[at], block.instance_ci[at], block.instance_memory[at] = gpu_instance, compute_instance, memory


def set_nvlink5(block: Any, link: int, field: int, value: int) -> None:
    """Set one of the fields 201-222 of a link."""
    assert 0 <= link < LINKS, f"BUG: no link {link}"
    block.nvlink5[link * 22 + field - 201] = value


def packed_ber(mantissa: int, exponent: int) -> int:
    """Pack a bit error rate as the driver does: mantissa × 10^-exponent; no errors at all are (15, 255)."""
    return mantissa << 8 | exponent
