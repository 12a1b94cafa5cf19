"""Which units an imported fleet had, from when on: what the records show, and those that never left a record.

A unit that is only known by its records came into service when its system did: at the production date that a record names
(`node prod`, LANL's spelling, where a spreadsheet has turned "May-02" into "2-May"), else with the first record of its system. A system is
what stands before the number in its nodes' names.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime

import pyarrow as pa

from ingest.import_rows import ALIASES
from ingest.lake import table_rows
from ingest.schema import GPU_SAMPLES, INVENTORY
from ingest.tables import Table

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"\d+$")


class Fleet:
    """Nodes, devices and their first and last records, gathered while files are read."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str | None], datetime] = {}
        self._last: dict[str, datetime] = {}
        self._started: dict[str, datetime] = {}
        self._ended: dict[str, datetime] = {}
        self._sizes: Counter[str] = Counter()

    def see(self, kind: str, data: pa.Table, mapped: list[tuple[Table, pa.Table]]) -> None:
        """Remember the units of a chunk: rows as they were mapped, and what its other columns say about the system."""
        if kind in ("telemetry", "events", "inventory", "outcomes"):
            for table, rows in mapped:
                if table is GPU_SAMPLES or {"node", "observed_at"} <= set(rows.column_names):
                    self._see_rows(rows)
        if kind == "events":
            self._see_systems(data)

    def dated(self, topology: pa.Table) -> pa.Table:
        """Give a topology without times the time of the fleet's first record."""
        if {"ts", *(name for name, meant in ALIASES.items() if meant == "ts")} & set(topology.column_names):
            return topology
        start = min(self._first.values(), default=_EPOCH)
        return topology.append_column("ts", pa.repeat(pa.scalar(start, pa.timestamp("us", tz="UTC")), topology.num_rows))

    def inventory(self, population: int | Mapping[str, int] | None, *, is_known: bool) -> tuple[pa.Table, int]:
        """Give inserts and removals of all units, or only of those without a record where an inventory is known; and how many those are."""
        unseen, starts = self._unseen(population), self._system_starts()
        fleet_start, fleet_end = min(self._first.values(), default=_EPOCH), max(self._last.values(), default=_EPOCH)
        rows: list[tuple[datetime, str, str | None, str]] = []
        for node, system in unseen:
            rows.append((starts.get(system, fleet_start), node, None, "insert"))
        for (node, device), first in ({} if is_known else self._first).items():
            rows.append((min(self._started.get(node, starts[_system(node)]), first), node, device, "insert"))
            end = self._ended.get(node)
            if end and end <= fleet_end:  # what happened after the last record is not ours to say
                rows.append((max(end, self._last[node]), node, device, "remove"))
        rows.sort(key=lambda row: (row[0], row[1], row[2] or "", row[3]))
        times, nodes, devices, actions = zip(*rows, strict=True) if rows else ((), (), (), ())
        columns = {"node": nodes, "observed_at": times, "received_at": times, "gpu_uuid": devices, "action": actions}
        return table_rows(INVENTORY, {**columns, "source": ["import"] * len(rows)}), len(unseen)

    def _see_rows(self, rows: pa.Table) -> None:
        device = next((rows[name] for name in ("gpu_uuid", "device") if name in rows.column_names), pa.nulls(rows.num_rows, pa.string()))
        seen = pa.table({"node": rows["node"], "device": device, "at": rows["observed_at"]}).group_by(["node", "device"])
        for row in seen.aggregate([("at", "min"), ("at", "max")]).to_pylist():
            key = (row["node"], row["device"])
            self._first[key] = min(row["at_min"], self._first.get(key, row["at_min"]))
            self._last[row["node"]] = max(row["at_max"], self._last.get(row["node"], row["at_max"]))

    def _see_systems(self, data: pa.Table) -> None:
        known = [name for name in ("nodes", "node prod", "node decom") if name in data.column_names]
        node = next((name for name in ("node_id", "node", "host") if name in data.column_names), None)
        if not known or node is None:
            return
        for row in data.select([node, *known]).group_by([node, *known]).aggregate([]).to_pylist():
            name = str(row[node])
            if str(size := row.get("nodes")).removesuffix(".0").isdecimal():
                self._sizes[_system(name)] = max(self._sizes[_system(name)], int(float(size)))
            if start := month_of(row.get("node prod")):
                self._started[name] = start
            if end := month_of(row.get("node decom"), is_end=True):
                self._ended[name] = end

    def _unseen(self, population: int | Mapping[str, int] | None) -> list[tuple[str, str]]:
        """Name the units that are missing from a system's or the fleet's number."""
        nodes = {node for node, _ in self._first}
        if isinstance(population, int):
            return [(f"unseen-{number:05d}", "") for number in range(1, population - len(nodes) + 1)]
        added: list[tuple[str, str]] = []
        taken = Counter(_system(node) for node in nodes)
        for system, size in sorted((self._sizes if population is None else population).items()):
            free = (name for number in range(size + taken[system]) if (name := f"{system}{number}") not in nodes)
            added += [(name, system) for name, _ in zip(free, range(size - taken[system]), strict=False)]
        return added

    def _system_starts(self) -> dict[str, datetime]:
        """Tell when most nodes of each system came into service: its commonest production month, else its first record."""
        months: dict[str, Counter[datetime]] = defaultdict(Counter)
        for node, start in self._started.items():
            months[_system(node)][start] += 1
        starts: dict[str, datetime] = {}
        for (node, _), at in self._first.items():
            starts[_system(node)] = min(at, starts.get(_system(node), at))
        return starts | {system: found.most_common(1)[0][0] for system, found in months.items()}


def month_of(text: str | None, *, is_end: bool = False) -> datetime | None:
    """Read "May-02", or "2-May" as a spreadsheet mangles it, into the first instant of the month, or with `is_end` of the next one."""
    words = str(text or "").lower().split("-")
    name = next((word for word in words if word in _MONTHS), None)
    number = next((word for word in words if word.isdigit()), None)
    if name is None or number is None:
        return None
    year = int(number) + (1900 if int(number) >= 70 else 2000)
    months = _MONTHS.index(name) + int(is_end)
    return datetime(year + months // 12, months % 12 + 1, 1, tzinfo=UTC)


def _system(node: str) -> str:
    return _NUMBER.sub("", node)
