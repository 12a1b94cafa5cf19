"""Everything that the scrapes of one node become: samples, links, events, inventory and the state of the exporter itself.

Pure: bodies and times come in, records go out. An empty or failed scrape is a state of the source and says nothing about any GPU.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from ingest.clock import NS, datetime_of
from ingest.exporter.counters import ENERGY
from ingest.exporter.gpu import SOURCE, GpuMemory, NodeContext
from ingest.exporter.presence import SCRAPES, Freshness, Presence
from ingest.exporter.rows import Columns, Reading, read_gpus
from ingest.exporter.text import GpuLabels, Page, PageParser
from ingest.metrics import EXPORTER_CONFLICTS, EXPORTER_REJECTED, EXPORTER_SCRAPES, EXPORTER_TRUNCATED, EXPORTER_UNKNOWN
from ingest.schema import Event, InventoryRow, Observed, SourceState
from ingest.xid import Catalogue, catalogue_of

OK = 200
MOST_GPUS = 128  # of a node; more is a page of many nodes, such as a federation's, and cannot be told apart
_REPEAT_STATE_NS = 3_600 * NS


class ExporterNode:
    """One node behind an exporter; `expected` names the GPUs that its inventory knows."""

    def __init__(
        self,
        node: str,
        *,
        expected: Iterable[str] = (),
        catalogue: Catalogue | Path | None = None,
        refresh_s: float = 30.0,
        parser: PageParser | None = None,
    ) -> None:
        self.node = node
        self.page = Page()
        self.unknown: dict[str, int] = {}
        self.conflicts = 0
        self._parser = parser or PageParser()
        self._context = NodeContext(node=node, catalogue=catalogue_of(catalogue), refresh_ns=int(refresh_s * NS))
        self._presence = Presence.of(expected)
        self._freshness = Freshness(refresh_s)
        self._gpus: dict[str, GpuMemory] = {}
        self._empty_scrapes = 0
        self._said: tuple[object, ...] = ()
        self._said_at_ns = 0

    @property
    def gpu_uuids(self) -> tuple[str, ...]:
        """Name the GPUs that the last page had."""
        return tuple({series.gpu.gpu_uuid: None for series, _ in self.page.samples if series.gpu})

    def scraped(self, body: bytes, status: int, at_ns: int, *, is_cut: bool = False) -> list[Observed]:
        """Take the answer to one scrape, received at `at_ns`; a body that came with an error is not read."""
        if status != OK:
            self.page, self.unknown, self.conflicts = Page(), {}, 0
            return self.failed(f"error({status})", body[:200].decode(errors="replace").strip(), at_ns)
        self.page = self._parser.parse(body)
        self.page.is_truncated |= is_cut
        readings, self.unknown = read_gpus(self.page)
        self._count(readings)
        if not readings and not self.page.is_truncated:
            return self._empty(at_ns)
        self._empty_scrapes = 0
        if len(readings) > MOST_GPUS:
            self.page = Page()
            return self.failed("not_one_node", f"{len(readings)} GPUs: name the page of each node's own exporter", at_ns)
        return list(self._records(readings, at_ns))

    def failed(self, state: str, detail: str, at_ns: int) -> list[Observed]:
        """Take note that a scrape gave nothing."""
        self._freshness.forget()
        return list(self._state(state, at_ns, seen=None, detail=detail))

    def _empty(self, at_ns: int) -> list[Observed]:
        self._empty_scrapes += 1
        has_stalled = self._empty_scrapes >= SCRAPES and bool(self._presence.seats)
        detail = f"no GPU in {self.page.rejected.total() + len(self.page.samples)} lines"
        return self.failed("hostengine_stalled" if has_stalled else "empty", detail, at_ns)

    def _count(self, readings: dict[str, Reading]) -> None:
        for reason, lines in self.page.rejected.items():
            EXPORTER_REJECTED.labels(reason).inc(lines)
        EXPORTER_UNKNOWN.inc(sum(self.unknown.values()))
        EXPORTER_TRUNCATED.inc(self.page.is_truncated)
        self.conflicts = sum(reading.conflicts for reading in readings.values())
        EXPORTER_CONFLICTS.inc(self.conflicts)

    def _records(self, readings: dict[str, Reading], at_ns: int) -> Iterator[Observed]:
        labels = {uuid: reading.labels for uuid, reading in readings.items()}
        self._forget_strangers(labels)
        yield from self._swapped(labels, at_ns)
        gpus = {uuid: self._gpu(uuid) for uuid in readings}
        columns = {uuid: gpus[uuid].columns(reading) for uuid, reading in readings.items()}
        if self._is_stale(readings, columns, at_ns):
            yield from (gpus[uuid].stale(columns[uuid], at_ns) for uuid in readings)
            since = datetime_of(self._freshness.since_ns or 0).isoformat()
            yield from self._state("stale", at_ns, seen=len(readings), detail=f"energy stands still since {since}")
            return
        for uuid, reading in readings.items():
            stamps = self.page.stamps_ms.get(uuid)
            yield from gpus[uuid].records(reading, columns[uuid], stamps, at_ns, is_whole=not self.page.is_truncated)
        if self.page.is_truncated:
            self._presence.notice(labels)
            yield from self._state("partial", at_ns, seen=len(readings), detail="the page was cut")
        else:
            yield from self._absences(labels, at_ns)

    def _gpu(self, uuid: str) -> GpuMemory:
        if uuid not in self._gpus:
            self._gpus[uuid] = GpuMemory(self._context, uuid)
        return self._gpus[uuid]

    def _forget_strangers(self, here: Collection[str]) -> None:
        """Keep of the GPUs that are gone those that came last: a page that names others each time must not fill the memory."""
        gone = [uuid for uuid in self._gpus if uuid not in here]
        for uuid in gone[: max(0, len(self._gpus) - 2 * MOST_GPUS)]:
            del self._gpus[uuid]
            self._presence.seats.pop(uuid, None)

    def _is_stale(self, readings: dict[str, Reading], columns: dict[str, Columns], at_ns: int) -> bool:
        energies = {uuid: (one.values.get(ENERGY), one.values.get("power_w")) for uuid, one in columns.items()}
        shape = tuple((uuid, r.labels.host, r.labels.driver_version, len(r.device)) for uuid, r in readings.items())
        return self._freshness.is_stale(energies, shape, at_ns)

    def _swapped(self, labels: dict[str, GpuLabels], at_ns: int) -> Iterator[Observed]:
        # A GPU never seen before in the seat of one that is gone has replaced it.
        seats = {gpu.labels.pci: uuid for uuid, gpu in self._gpus.items() if uuid not in labels and gpu.labels and gpu.labels.pci}
        for uuid, label in labels.items():
            old = seats.pop(label.pci, None) if label.pci and uuid not in self._gpus else None
            if old is not None:
                gone = self._gpus.pop(old).labels
                self._presence.seats.pop(old, None)
                yield InventoryRow(
                    node=self.node,
                    source=SOURCE,
                    observed_at_ns=at_ns,
                    received_at_ns=at_ns,
                    gpu_uuid=old,
                    action="remove",
                    pci=label.pci,
                    serial=gone.serial if gone else None,
                )

    def _absences(self, labels: dict[str, GpuLabels], at_ns: int) -> Iterator[Observed]:
        absence = self._presence.judge(labels)
        for uuid in absence.missing:
            missing = self._gpu(uuid)
            yield missing.missing(at_ns)
            if uuid in absence.newly_missing:
                yield Event(
                    node=self.node,
                    source=SOURCE,
                    observed_at_ns=at_ns,
                    received_at_ns=at_ns,
                    kind="gpu_missing",
                    gpu_uuid=uuid,
                    pci=missing.labels.pci if missing.labels else None,
                    use="precursor",
                    detail=f"not on the page, {len(labels)} of {len(self._presence.seats)} GPUs are",
                )
        detail = f"{len(absence.excused)} GPUs vanished at once or when pods came: the exporter's doing" if absence.excused else None
        yield from self._state("partial" if absence.excused else "ok", at_ns, seen=len(labels), detail=detail)

    def _state(self, state: str, at_ns: int, *, seen: int | None, detail: str | None) -> Iterator[SourceState]:
        EXPORTER_SCRAPES.labels(state).inc()
        expected = len(self._presence.seats)
        said = (state, expected, seen)
        if said == self._said and at_ns - self._said_at_ns < _REPEAT_STATE_NS:
            return
        self._said, self._said_at_ns = said, at_ns
        yield SourceState(
            node=self.node,
            source=SOURCE,
            observed_at_ns=at_ns,
            received_at_ns=at_ns,
            state=state,
            detail=detail,
            expected=expected,
            seen=seen,
        )
