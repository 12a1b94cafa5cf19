"""What is remembered of one GPU from page to page, and the records that its part of a page becomes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ingest.clock import NS
from ingest.exporter.counters import Counters
from ingest.exporter.fields import XID_GAUGE
from ingest.exporter.pods import PodWatch
from ingest.exporter.rows import Columns, Reading, check, columns_of, device_targets, link_targets
from ingest.exporter.text import GpuLabels
from ingest.exporter.xids import XidWatch
from ingest.schema import Event, GpuSample, InventoryRow, LinkSample, Observed
from ingest.xid import Catalogue

SOURCE = "exporter"
TIER = "warm"  # a page gives every field of its counters file at every scrape
_EXPECTED_FOR_NS = 3_600 * NS  # a column that no GPU of the node had for so long is gone from the counters file
_FUTURE_NS, _PAST_NS = 5 * NS, 86_400 * NS


@dataclass(kw_only=True)
class NodeContext:
    """What the GPUs of a node share; `delivered_at_ns` tells when any of them last had a column."""

    node: str
    catalogue: Catalogue
    refresh_ns: int
    delivered_at_ns: dict[str, int] = field(default_factory=dict)


class GpuMemory:
    """One GPU of one node."""

    def __init__(self, context: NodeContext, gpu_uuid: str) -> None:
        self.gpu_uuid = gpu_uuid
        self.labels: GpuLabels | None = None
        self._delivered: set[str] = set()
        self._context = context
        self._counters = Counters()
        self._xids = XidWatch()
        self._pods = PodWatch()
        self._ranks: dict[str, int] = {}
        self._link_ranks: dict[str, int] = {}

    def columns(self, reading: Reading) -> Columns:
        """Turn the fields of the whole GPU into columns."""
        columns = columns_of(reading.device, device_targets, self._ranks)
        check(columns)
        return columns

    def records(self, reading: Reading, columns: Columns, stamps_ms: list[int] | None, at_ns: int, *, is_whole: bool) -> Iterator[Observed]:
        """Say what this page adds: sample, MIG instances, links, a changed seat, new XIDs, and if it is whole the pods."""
        observed_at_ns, skew = event_time(stamps_ms, at_ns)
        if skew:
            columns.quality["observed_at"] = skew
        about = self._about(observed_at_ns, at_ns)
        self._note_blanks(columns, at_ns)
        epoch = self._counters.follow(columns, observed_at_ns, self._context.refresh_ns)
        message = reading.device[XID_GAUGE][0].message if XID_GAUGE in reading.device else None
        sightings = self._xids.follow(columns.values.get("xid_last"), reading.xid_counts, message, observed_at_ns)
        if (age_s := self._xids.age_s(observed_at_ns)) is not None:
            columns.values["xid_last_age_s"] = age_s
        yield from self._seat(reading.labels, about)
        yield _sample(about, reading.labels, columns, epoch=epoch, gpu_present=True)
        yield from self._parts(reading, about)
        if is_whole:
            yield from self._pods.follow(reading.pods, about, at_ns)
        for seen in sightings:
            use = "unknown" if seen.is_of_unknown_age else self._context.catalogue.use(seen.code)
            yield Event(**about, kind="xid", pci=reading.labels.pci, code=seen.code, use=use, detail=seen.detail)

    def missing(self, at_ns: int) -> GpuSample:
        """Say that the GPU is expected and not there."""
        return _sample(self._about(at_ns, at_ns), self.labels or GpuLabels(gpu_uuid=self.gpu_uuid), Columns(), gpu_present=False)

    def stale(self, columns: Columns, at_ns: int) -> GpuSample:
        """Say that what the page has of the GPU is no observation."""
        for column in columns.values:
            columns.drop(column, "stale")
        return _sample(self._about(at_ns, at_ns), self.labels or GpuLabels(gpu_uuid=self.gpu_uuid), columns)

    def _about(self, observed_at_ns: int, at_ns: int) -> dict[str, Any]:
        return {
            "node": self._context.node,
            "source": SOURCE,
            "gpu_uuid": self.gpu_uuid,
            "observed_at_ns": observed_at_ns,
            "received_at_ns": at_ns,
        }

    def _note_blanks(self, columns: Columns, at_ns: int) -> None:
        # The exporter leaves sentinels out, so a series that vanished is a blank value; but no last XID is none, not blank.
        for column in self._delivered - columns.values.keys() - {"xid_last"}:
            if at_ns - self._context.delivered_at_ns[column] <= _EXPECTED_FOR_NS:
                columns.quality[column] = "blank"
        self._delivered |= columns.values.keys()
        self._context.delivered_at_ns.update(dict.fromkeys(columns.values, at_ns))

    def _seat(self, labels: GpuLabels, about: dict[str, Any]) -> Iterator[Observed]:
        known, self.labels = self.labels, labels
        if known is None or (known.pci, known.serial, known.driver_version) != (labels.pci, labels.serial, labels.driver_version):
            yield InventoryRow(
                **about,
                action="insert",
                serial=labels.serial,
                pci=labels.pci,
                slot=labels.gpu_index,
                model=labels.model,
                driver_version=labels.driver_version,
            )

    def _parts(self, reading: Reading, about: dict[str, Any]) -> Iterator[Observed]:
        for instance, slot in reading.instances.items():
            columns = columns_of(slot, device_targets, {})
            check(columns)
            if columns.values:
                yield _sample(about, reading.labels, columns, gpu_instance=instance)
        for link, slot in reading.links.items():
            columns = columns_of(slot, link_targets, self._link_ranks)
            if columns.values:
                yield LinkSample(**about, link=link, quality=columns.quality or None, **columns.values)


def _sample(about: dict[str, Any], labels: GpuLabels, columns: Columns, **more: Any) -> GpuSample:
    return GpuSample(
        **about,
        tier=TIER,
        serial=labels.serial,
        pci=labels.pci,
        gpu_index=labels.gpu_index,
        gpu_model=labels.model,
        driver_version=labels.driver_version,
        quality=columns.quality or None,
        **columns.values,
        **more,
    )


def event_time(stamps_ms: list[int] | None, at_ns: int) -> tuple[int, str | None]:
    """Choose the event time of a row with explicit timestamps: the latest possible one, else receive time and the skew."""
    if not stamps_ms:
        return at_ns, None
    stamps_ns = [stamp * 1_000_000 for stamp in stamps_ms]
    possible = [stamp for stamp in stamps_ns if at_ns - _PAST_NS <= stamp <= at_ns + _FUTURE_NS]
    if possible:
        return max(possible), None
    return at_ns, f"clock_skew {(max(stamps_ns) - at_ns) / NS:+.0f} s"
