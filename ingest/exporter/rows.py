"""From the samples of a page to the columns of each GPU: duplicates, MIG instances, ranks and sums, bounds and cross-checks.

A device value that the page repeats (per pod, per MIG instance) is one reading, the largest, never a sum; two values of the very same
series are a conflict and neither is believed. A value that cannot be leaves None and its code behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ingest.exporter.fields import COLUMNS, COUNTER, ECC_COUNTERS, FIELDS, XID_COUNT, Column, Field, Target
from ingest.exporter.text import GpuLabels, Page, Series
from ingest.exporter.value import SATURATED, Number, Value

CONFLICT = "duplicate_conflict"
Slot = dict[int, tuple[Series, Value]]  # by field id
_INT64_MAX = 2**63 - 1


@dataclass
class Reading:
    """All that one page says about one GPU, by field."""

    labels: GpuLabels
    device: Slot = field(default_factory=dict)
    instances: dict[int, Slot] = field(default_factory=dict)
    links: dict[int, Slot] = field(default_factory=dict)
    xid_counts: dict[int, int] = field(default_factory=dict)
    pods: dict[int | None, set[str]] = field(default_factory=dict)  # by MIG instance
    conflicts: int = 0


@dataclass
class Columns:
    """Values by column, and the quality code of each that is not ok."""

    values: dict[str, Any] = field(default_factory=dict)
    quality: dict[str, str] = field(default_factory=dict)

    def drop(self, column: str, code: str) -> None:
        """Take a value back and say why."""
        self.values[column] = None
        self.quality[column] = code


def read_gpus(page: Page) -> tuple[dict[str, Reading], Counter[str]]:
    """Sort a page's samples by GPU; also count the names that nobody knows."""
    readings: dict[str, Reading] = {}
    unknown: Counter[str] = Counter()
    for sample in page.samples:
        series = sample[0]
        if series.field is None:
            unknown[series.name] += 1
        elif series.gpu is not None:
            reading = readings.get(series.gpu.gpu_uuid)
            if reading is None:
                reading = readings[series.gpu.gpu_uuid] = Reading(series.gpu)
            _place(reading, sample)
    return readings, unknown


def _place(reading: Reading, sample: tuple[Series, Value]) -> None:
    series = sample[0]
    dcgm = series.field
    assert dcgm is not None, "BUG: only known fields are placed"
    assert series.gpu is not None, "BUG: only series of GPUs are placed"
    if series.pod is not None:
        reading.pods.setdefault(series.instance, set()).add(series.pod)
        if not reading.labels.in_pod:
            reading.labels = replace(reading.labels, in_pod=True)
    if dcgm.id == XID_COUNT:
        if series.xid is not None and isinstance(sample[1], int):
            reading.xid_counts[series.xid] = max(sample[1], reading.xid_counts.get(series.xid, 0))
        return
    slot = reading.device
    if series.link is not None:
        slot = reading.links.setdefault(series.link, {})
    elif series.instance is not None and dcgm.scope == "instance":
        slot = reading.instances.setdefault(series.instance, {})
    held = slot.setdefault(dcgm.id, sample)
    if held is not sample and held[1] != sample[1]:
        slot[dcgm.id] = _agree(held, sample)
        reading.conflicts += slot[dcgm.id][1] == CONFLICT


def _agree(held: tuple[Series, Value], other: tuple[Series, Value]) -> tuple[Series, Value]:
    if held[0] is other[0] or held[1] == CONFLICT:
        return held[0], CONFLICT
    if isinstance(held[1], str) or isinstance(other[1], str):
        return other if isinstance(held[1], str) else held
    return max(held, other, key=lambda sample: sample[1])


def columns_of(slot: Slot, targets_of: Callable[[Field], tuple[Target, ...]], ranks: dict[str, int]) -> Columns:
    """Turn fields into columns. `ranks` remembers the best rank a column ever had, so that a counter never changes its meaning."""
    found: dict[str, dict[int, list[Value]]] = {}
    for series, value in slot.values():
        assert series.field is not None, "BUG: only known fields are placed"
        for target in targets_of(series.field):
            found.setdefault(target.column, {}).setdefault(target.rank, []).append(value)
    columns = Columns()
    for column, by_rank in found.items():
        complete = [rank for rank, parts in by_rank.items() if len(parts) == _PARTS[column, rank]]
        best = ranks[column] = min((*complete, ranks.get(column, 99)))
        if best in by_rank and best in complete:
            columns.values[column], code = convert(COLUMNS[column], by_rank[best])
            if code:
                columns.quality[column] = code
    return columns


def device_targets(dcgm: Field) -> tuple[Target, ...]:
    """Columns of `gpu_samples`."""
    return dcgm.targets


def link_targets(dcgm: Field) -> tuple[Target, ...]:
    """Columns of `link_samples`."""
    return dcgm.link_targets


def _count_parts() -> dict[tuple[str, int], int]:
    parts: Counter[tuple[str, int]] = Counter()
    for dcgm in FIELDS.values():
        parts.update({(target.column, target.rank) for target in (*dcgm.targets, *dcgm.link_targets)})
    return dict(parts)


_PARTS: Mapping[tuple[str, int], int] = _count_parts()


def convert(column: Column, parts: list[Value]) -> tuple[Any, str | None]:
    """Turn raw numbers (added up) into the value of a column, or None and the code that says why not."""
    total: Number = 0
    for part in parts:
        if isinstance(part, str):
            return None, part
        total += part
    if column.kind == COUNTER:
        return _count(total)
    value = total if column.divisor == 1 else total / column.divisor
    if not column.low <= value <= column.high:
        return None, "out_of_range"
    return (bool(value) if column.type is bool else column.type(value)), None


def _count(total: Number) -> tuple[int | None, str | None]:
    count = int(total)
    if count < 0:
        return None, "out_of_range"
    if count > _INT64_MAX:
        return None, f"overflow {count}"
    return count, "suspect" if count in SATURATED else None


def check(columns: Columns) -> None:
    """Hold the values of one GPU against each other."""
    get = columns.values.get
    core = get("temp_c")
    if get("memory_temp_c") == 0 and (core is None or core > 20):  # DCGM#311: filler of parts without the sensor
        columns.drop("memory_temp_c", "not_supported")
    limit, power = get("power_limit_w"), get("power_w")
    if limit and power is not None and power > 3 * limit:
        columns.drop("power_w", "out_of_range")
    if get("ecc_mode") is False:
        for column in ECC_COUNTERS:
            if get(column) is not None:
                columns.drop(column, "not_supported")
    if (get("gpu_util_ratio") or 0.0) >= 0.5 and get("gr_active_ratio") == 0:  # DCGM#303: profiling froze after XID 31
        for column in ("gr_active_ratio", "sm_active_ratio", "tensor_active_ratio", "dram_active_ratio"):
            if get(column) == 0:
                columns.drop(column, "inconsistent")
