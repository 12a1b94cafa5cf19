"""The product's own table of DCGM fields (`fields.csv`): what a name on a page means, in which unit, for which column.

The table decides, never the TYPE line of a page (`NVLINK_BANDWIDTH_TOTAL` is typed counter and is a rate). A field is known by its DCGM
id: the legacy name, the name of DCGM 4.6, the lower-case name of the old namespace and that of the first exporter all lead to it. Fields
that feed no column are listed too, so that only names nobody knows count as unknown.

In the column `columns` a cell `a:1 link.b` says: feeds column `a` at rank 1 and, on a series of one link, column `b` of `link_samples`.
The lowest rank that a GPU delivers wins; fields of equal rank are summed and valid only together.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_suffix(".csv")
XID_GAUGE, XID_COUNT = 230, -1
COUNTER, GAUGE, CODE, FLAG, RATIO = "counter", "gauge", "code", "flag", "ratio"


@dataclass(frozen=True)
class Target:
    """One column that a field feeds."""

    column: str
    rank: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Field:
    """One DCGM field; on a MIG GPU a field of scope `instance` belongs to the instance, not to the GPU."""

    id: int
    legacy: str
    renamed: str
    type: str
    scope: str
    help: str
    is_ours: bool
    first_name: str
    targets: tuple[Target, ...]
    link_targets: tuple[Target, ...]

    @property
    def name(self) -> str:
        """Legacy name in full: the one that every DCGM version accepts in a counters file."""
        return _full(self.legacy)

    @property
    def names(self) -> Iterator[str]:
        """Every spelling of the field on a page."""
        for short in filter(None, (self.legacy, self.renamed)):
            yield _full(short)
            yield _full(short).lower()
            yield f"dcgm_{_full(short).removeprefix('DCGM_').removeprefix('FI_').removeprefix('DEV_').lower()}"
        if self.first_name:
            yield f"dcgm_{self.first_name}"


def _full(short: str) -> str:
    return short if short.startswith("DCGM_") else f"DCGM_FI_DEV_{short}"


@dataclass(frozen=True)
class Column:
    """How a raw number becomes a column's value: its type, divisor, and the bounds that no real part can leave."""

    type: type
    kind: str = GAUGE
    divisor: int = 1
    low: float = 0.0
    high: float = float("inf")


_CELSIUS = Column(float, low=-60.0, high=250.0)
_PERCENT = Column(float, RATIO, divisor=100, high=1.0)
_SHARE = Column(float, RATIO, high=1.0)
_WATTS = Column(float, high=20_000.0)
_MIB = Column(float, high=1e8)
_FLAG = Column(bool, FLAG, high=1.0)
_COUNT = Column(int, COUNTER)

# Restart at driver load and GPU reset; several of them stepping back together are a new counter epoch.
VOLATILE = (
    *("energy_mj_total", "sw_power_cap_ns_total", "sw_thermal_ns_total", "hw_thermal_ns_total", "hw_power_brake_ns_total"),
    *("pcie_replay_total", "pcie_correctable_total", "nvlink_crc_total", "nvlink_replay_total", "nvlink_recovery_total"),
    *("ecc_ce_volatile_total", "ecc_ue_volatile_total", "dram_ce_volatile_total", "dram_ue_volatile_total"),
    *("sram_ce_volatile_total", "sram_ue_volatile_total"),
)
LIFETIME = (
    *("ecc_ce_aggregate_total", "ecc_ue_aggregate_total", "remapped_rows_ce_total", "remapped_rows_ue_total"),
    "retired_pages_total",
)
ECC_COUNTERS = tuple(name for name in (*VOLATILE, *LIFETIME) if name.startswith(("ecc_", "dram_", "sram_")))

COLUMNS: dict[str, Column] = {
    **dict.fromkeys((*VOLATILE, *LIFETIME), _COUNT),
    **dict.fromkeys(("crc_total", "replay_total", "recovery_total", "recovery_failed_total"), _COUNT),
    **dict.fromkeys(("temp_c", "memory_temp_c"), _CELSIUS),
    **dict.fromkeys(("gpu_util_ratio", "memory_util_ratio"), _PERCENT),
    **dict.fromkeys(("gr_active_ratio", "sm_active_ratio", "tensor_active_ratio", "dram_active_ratio"), _SHARE),
    **dict.fromkeys(("power_w", "power_limit_w"), _WATTS),
    **dict.fromkeys(("memory_used_mb", "memory_total_mb"), _MIB),
    **dict.fromkeys(("sram_threshold_exceeded", "remap_pending", "remap_failure", "ecc_mode", "is_up"), _FLAG),
    "retired_pages_pending": Column(bool, FLAG, high=1e6),  # DCGM counts the pages
    "thermal_margin_c": Column(float, low=-250.0, high=250.0),
    "sm_clock_mhz": Column(float, high=20_000.0),
    "memory_clock_mhz": Column(float, high=50_000.0),
    "clock_event_reasons": Column(int, CODE, high=2.0**62),
    "recovery_action": Column(int, CODE, high=255),
    "xid_last": Column(int, CODE, high=65_535),
    "remap_banks_low": Column(int, CODE, high=1e6),
    "remap_banks_none": Column(int, CODE, high=1e6),
    "pcie_link_gen": Column(int, CODE, high=16),
    "pcie_link_width": Column(int, CODE, high=64),
    "fabric_state": Column(int, CODE, high=16),
}


def _read(table: Path) -> Iterator[Field]:
    with table.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            cells = row["columns"].split()
            yield Field(
                id=int(row["id"]),
                legacy=row["legacy"],
                renamed=row["renamed"],
                type=row["type"],
                scope=row["scope"],
                help=row["help"],
                is_ours=bool(row["counters_file"]),
                first_name=row["first_name"],
                targets=tuple(_target(cell) for cell in cells if not cell.startswith("link.")),
                link_targets=tuple(_target(cell.removeprefix("link.")) for cell in cells if cell.startswith("link.")),
            )


def _target(cell: str) -> Target:
    column, _, rank = cell.partition(":")
    return Target(column, int(rank or 0))


FIELDS = {field.id: field for field in _read(TABLE)}
FIELD_OF_NAME = {name: field for field in FIELDS.values() for name in field.names}


def counters_file() -> str:
    """Print the counters file for dcgm-exporter (`-f`) that has all fields the product uses, under the names every DCGM 4 knows."""
    ours = [f"{field.name}, {field.type}, {field.help.replace(',', ';')}" for field in FIELDS.values() if field.is_ours]
    return "\n".join((*_COUNTERS_HEAD, *ours, ""))


_COUNTERS_HEAD = (
    "# Counters file for dcgm-exporter: all fields that forewarn uses. Use it with `-f` or as a ConfigMap.",
    "# dcgm-exporter refuses to start on a name that its DCGM does not know: with an older DCGM leave out the lines of the fields it",
    "# complains about (the highest ids, at the end, are the newest). forewarn takes what is there.",
    "# name, type, help",
)
