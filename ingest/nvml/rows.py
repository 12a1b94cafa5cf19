"""From the worker's readings to the rows of the tables: pure functions, one row per GPU whatever happened to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from ingest.nvml.codes import code_of
from ingest.nvml.inventory import Changes
from ingest.nvml.protocol import Happened, Reading, Seat
from ingest.nvml.signals import COLD, DAILY, LINK_COLUMNS, LINK_TOTALS, columns_of_tier
from ingest.pci import pci_address
from ingest.schema import Event, GpuSample, InventoryRow, LinkSample, Observed, OtherReading

SOURCE = "nvml"
XID = 0x8
EVENT_TYPES = {
    0x2: "uncorrected ECC error",
    0x200: "storm of corrected ECC errors",
    0x400: "DRAM retirement",
    0x800: "DRAM retirement failed",
    0x1000: "poison, non-fatal",
    0x2000: "poison, fatal",
    0x4000: "GPU unavailable",
    0x8000: "recovery action changed",
}
COLUMNS = frozenset((*columns_of_tier(DAILY), *LINK_TOTALS))
_INT64_MAX = 2**63 - 1
_SATURATED = frozenset({2**31 - 1, 2**32 - 1})
_MOST_POWER_RATIO = 3.0


@dataclass(frozen=True, kw_only=True)
class Poll:
    """What all rows of one poll share."""

    node: str
    at_ns: int
    now_ns: int
    boot_id: str | None
    driver_version: str | None
    tier: str

    def common(self) -> dict[str, Any]:
        """Name the columns that every table has."""
        return {
            "node": self.node,
            "observed_at_ns": self.at_ns,
            "received_at_ns": self.now_ns,
            "source": SOURCE,
            "boot_id": self.boot_id,
        }


def check(values: dict[str, Any], quality: dict[str, str], most_power_w: float | None) -> None:
    """Take back values that cannot be, and say why."""

    def drop(column: str, code: str) -> None:
        del values[column]
        quality[column] = code

    for column in ("gpu_util_ratio", "memory_util_ratio"):
        if column in values and not 0 <= values[column] <= 1:
            drop(column, "out_of_range")
    if values.get("memory_temp_c") == 0 and values.get("temp_c", 0) > 20:  # filler of parts without the sensor (DCGM#311)
        drop("memory_temp_c", "not_supported")
    if most_power_w and values.get("power_w", 0) > _MOST_POWER_RATIO * most_power_w:
        drop("power_w", "out_of_range")
    for column in [name for name in values if name.endswith("_total")]:
        if values[column] > _INT64_MAX:
            drop(column, f"overflow {values[column]}")
        elif values[column] in _SATURATED:
            quality[column] = "suspect"


def sample(poll: Poll, reading: Reading, *, epoch: int | None) -> GpuSample:
    """Build the row of a GPU that is listed."""
    return GpuSample(
        **poll.common(),
        **_seat(reading.seat),
        tier=poll.tier,
        epoch=epoch,
        gpu_present=True,
        latency_us=reading.latency_us,
        quality={name: code for name, code in reading.quality.items() if name in COLUMNS} or None,
        gpu_model=reading.seat.model if poll.tier == COLD else None,
        driver_version=poll.driver_version if poll.tier == COLD else None,
        **cast("dict[str, Any]", {name: value for name, value in reading.values.items() if name in COLUMNS}),
    )


def _seat(seat: Seat) -> dict[str, Any]:
    return {"gpu_uuid": seat.gpu_uuid, "serial": seat.serial, "pci": pci_address(seat.pci or ""), "gpu_index": seat.index}


def absent_sample(poll: Poll, seat: Seat) -> GpuSample:
    """Build the row of a GPU that is expected and not listed."""
    return GpuSample(**poll.common(), **{**_seat(seat), "gpu_index": None}, tier=poll.tier, gpu_present=False)


def links(poll: Poll, reading: Reading) -> list[LinkSample]:
    """Build the rows of a GPU's links."""
    return [
        LinkSample(
            **poll.common(),
            gpu_uuid=reading.seat.gpu_uuid,
            link=link.link,
            quality=link.quality,
            **cast("dict[str, Any]", dict(zip(LINK_COLUMNS, link.values, strict=True))),
        )
        for link in reading.links
    ]


def inventory(poll: Poll, changes: Changes) -> list[Observed]:
    """Build the inventory rows and missing-GPU events of one look."""

    def row(seat: Seat, action: str) -> InventoryRow:
        return InventoryRow(
            **poll.common(),
            gpu_uuid=seat.gpu_uuid,
            action=action,
            serial=seat.serial,
            pci=pci_address(seat.pci or ""),
            slot=seat.index,
            model=seat.model,
            driver_version=poll.driver_version,
        )

    records: list[Observed] = [row(seat, "remove") for seat in changes.removed]
    records += [row(seat, "insert") for seat in changes.inserted]
    records += [
        Event(
            **poll.common(),
            kind="gpu_missing",
            gpu_uuid=seat.gpu_uuid,
            pci=pci_address(seat.pci or ""),
            use="precursor",
            detail=f"index {seat.index}",
        )
        for seat in changes.missing
    ]
    return records


def event(poll: Poll, happened: Happened, seat: Seat | None) -> Event:
    """Build the row of an NVML event."""
    is_xid = happened.kind == XID
    return Event(
        **poll.common(),
        kind="xid" if is_xid else "nvml_event",
        gpu_uuid=happened.gpu_uuid or None,
        pci=pci_address(seat.pci or "") if seat else None,
        gpu_instance=happened.gpu_instance,
        compute_instance=happened.compute_instance,
        code=happened.data if is_xid else None,
        detail=None if is_xid else EVENT_TYPES.get(happened.kind, f"type {happened.kind:#x}"),
    )


def news(poll: Poll, seat: Seat, rc: int) -> Event:
    """Build the row of a return code that is worth an event by itself."""
    detail = f"NVML_ERROR_{code_of(rc).name}"
    return Event(**poll.common(), kind="error", gpu_uuid=seat.gpu_uuid, pci=pci_address(seat.pci or ""), detail=detail)


def further(poll: Poll, reading: Reading, told: dict[str, float | str], *, is_all: bool) -> list[OtherReading]:
    """Build the rows of signals without a column: those that changed since they were `told`, and all of them when asked.

    One that could not be read is a row without value, and is told like any other.
    """
    rows = []
    for name, said in {**reading.quality, **reading.values}.items():
        if name not in COLUMNS and (is_all or told.get(name) != said):
            told[name] = said
            value, code = (None, said) if isinstance(said, str) else (float(said), None)
            rows.append(OtherReading(**poll.common(), device=reading.seat.gpu_uuid, name=name, value=value, quality=code))
    return rows
