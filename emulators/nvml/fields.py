"""Which quantity each field of nvmlDeviceGetFieldValues reads: id, value type, scope rule, and the header that introduced it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from emulators.nvml.layout import FEC, NVLINK5

VALUE_TYPES = {"f64": 0, "u32": 1, "u64": 3, "i32": 5}  # nvmlValueType_t
# Scope rules: what the scope id of a request means.
PLAIN, SCOPE, LINK, LINK_OR_ALL, ON_LINK, TOTAL, LANE, ECC = range(8)
ECC_TOTAL = 255
# First id of each run of ids and the header (major * 100 + minor) that brought the run.
INTRODUCED = (
    (1, 1200),
    (170, 1202),
    (197, 1206),
    (230, 1208),
    (231, 1300),
    (235, 1208),
    (269, 1300),
    (274, 1302),
    (296, 1305),
    (301, 1302),
    (303, 1305),
)


class Field(NamedTuple):
    """One field id: element `place` of a quantity, or `scope * stride + place` where the scope id is a link."""

    id: int
    quantity: str
    type: str = "u32"
    rule: int = PLAIN
    place: int = 0
    stride: int = 0
    scope: int = 0  # the power scope or the link that this row is about

    @property
    def since(self) -> int:
        """Header that introduced the id."""
        return max((first, header) for first, header in INTRODUCED if first <= self.id)[1]


_LINK_ERRORS = {  # ids of links 0-5, of links 6-11, of the total; column of link_errors
    "crc_flit": (range(32, 38), range(96, 102), 38, 2),
    "crc_data": (range(39, 45), range(102, 108), 45, 3),
    "replay": (range(46, 52), range(108, 114), 52, 0),
    "recovery": (range(53, 59), range(114, 120), 59, 1),
    "ecc": (range(148, 154), range(154, 160), 160, 4),
}
_ECC_LOCATIONS = (0, 1, 2, 3, 4)  # L1, L2, DRAM, register file, texture
_POWER = ("average", "instant")
_LIMITS = {187: "min", 188: "max", 189: "default", 190: "limit", 192: "requested"}


def _ecc() -> Iterator[Field]:
    yield Field(1, "ecc_mode")
    yield Field(2, "ecc_mode_pending")
    for counter in (0, 1):  # volatile, aggregate
        for kind in (0, 1):  # corrected, uncorrected
            yield Field(3 + 2 * counter + kind, "ecc", "u64", ECC, kind, counter, ECC_TOTAL)
            for at, location in enumerate(_ECC_LOCATIONS):
                yield Field(7 + 11 * counter + 2 * at + kind, "ecc", "u64", ECC, kind, counter, location)
        yield Field(17 + 11 * counter, "ecc", "u64", ECC, 1, counter, 6)  # CBU, uncorrected only


def _links_up_to_4() -> Iterator[Field]:
    for low, high, total, column in _LINK_ERRORS.values():
        for link, number in enumerate((*low, *high)):
            yield Field(number, "link_errors", "u64", ON_LINK, column, 5, link)
        yield Field(total, "link_errors", "u64", TOTAL, column, 5)
    for link, number in enumerate((*range(84, 90), *range(132, 138))):
        yield Field(number, "link_speed_mb_s", "u32", ON_LINK, 0, 1, link)
    yield Field(90, "link_speed_mb_s")
    yield Field(91, "link_count")
    for column in range(4):
        yield Field(138 + column, "link_bytes", "u64", LINK_OR_ALL, column, 4)
    for number, column in ((161, 0), (162, 1), (163, 2)):
        yield Field(number, "link_errors", "u64", LINK, column, 5)
    names = ("link_speed_mb_s", "link_up", "link_version", "link_low_power", "link_low_power_threshold")
    for number, name in enumerate(names, 164):
        yield Field(number, name, "u32", LINK, 0, 0 if name == "link_version" else 1)


def _links_5() -> Iterator[Field]:
    for number in range(201, 223):
        if number not in (205, 216, 217, 218):  # deprecated
            yield Field(number, "nvlink5", "u64", LINK_OR_ALL, number - 201, NVLINK5)
    for bin_ in range(FEC):
        yield Field(235 + bin_, "fec", "u64", LINK_OR_ALL, bin_, FEC)
    for lane in range(2):
        yield Field(289 + lane, "raw_errors", "u64", LINK_OR_ALL, lane, 2)
    for lane in range(3):
        yield Field(291 + lane, "raw_ber", "u64", LINK_OR_ALL, lane, 3)
    yield Field(296, "link_data_rate_mb_s", "u32", LINK, 0, 1)


def _power() -> Iterator[Field]:
    for number, name in enumerate(_POWER, 185):
        for scope, prefix in enumerate(("power", "module", "memory")):
            yield Field(number, f"{prefix}_{name}_mw", "u32", SCOPE, scope=scope)
    for number, name in _LIMITS.items():
        for scope, prefix in enumerate(("power", "module")):
            yield Field(number, f"{prefix}_{name}_mw", "u32", SCOPE, scope=scope)


def _fields() -> Iterator[Field]:
    yield from _ecc()
    yield from _links_up_to_4()
    yield from _links_5()
    yield from _power()
    yield from (Field(29 + at, name, "u64") for at, name in enumerate(("retired_sbe", "retired_dbe")))
    yield from (Field(number, name) for number, name in ((31, "retired_pending"), (92, "retired_pending_sbe"), (93, "retired_pending_dbe")))
    yield from (Field(74 + policy, "policy_ns", "u64", place=policy) for policy in range(6))
    yield from (Field(80 + policy, "policy_ns", "u64", place=10 + policy) for policy in range(2))
    yield Field(82, "memory_temp_c")
    yield from (Field(number, "energy_mj", "u64") for number in (83, 191))
    yield from (Field(94, "pcie_replay"), Field(95, "pcie_rollover"), Field(169, "pcie_l0_to_recovery"))
    remaps = ((142, "remapped_ce"), (143, "remapped_ue"), (144, "remap_pending"), (145, "remap_failure"))
    yield from (Field(number, name) for number, name in remaps)
    yield from (Field(301, "remapped_ce_inactive"), Field(302, "remapped_ue_inactive"))
    yield from (Field(170, "c2c_links"), Field(171, "c2c_status"), Field(172, "c2c_max_mb_s"))
    c2c = ("c2c_errors", "c2c_replays", "c2c_replays_b2b", "c2c_power_state")
    yield from (Field(231 + at, name) for at, name in enumerate(c2c))
    yield from (Field(173 + at, "pcie_errors", place=at) for at in range(10))
    yield Field(183, "pcie_lane_errors", "u32", LANE)
    limits = ("shutdown_limit_c", "slowdown_limit_c", "memory_max_limit_c", "gpu_max_limit_c")
    yield from (Field(193 + at, name, "i32") for at, name in enumerate(limits))
    yield from (Field(197, "pcie_tx_bytes", "u64"), Field(198, "pcie_rx_bytes", "u64"))
    yield from (Field(199, "mig_query_capable"), Field(200, "link_power_threshold_max"))
    yield from (Field(230, "recovery_action"), Field(258, "smoothing_percent_left"), Field(309, "smoothing_limited_ns", "u64"))
    slow = ("sw_thermal_ns", "hw_thermal_ns", "hw_power_brake_ns")
    yield from (Field(269 + at, name, "u64") for at, name in enumerate(slow))
    banks = ("banks_active", "banks_inactive", "bank_histogram_max", "bank_histogram_none", "bank_pending")
    yield from (Field(303 + at, name) for at, name in enumerate(banks))
    yield Field(308, "temp_c", "f64")


FIELDS = tuple(sorted(_fields(), key=lambda row: (row.id, row.scope)))
