"""Hold the lake against what the fleet said, row by row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import duckdb

from ingest.lake import Lake
from ingest.schema import EVENTS, GPU_SAMPLES, TABLES
from tests.faults.known_fleet import KnownFleet, Sample, Xid

_SAMPLES = "select node, gpu_uuid, energy_mj_total, temp_c, power_w, dram_ce_volatile_total from gpu_samples"
_XIDS = "select node, boot_id, kernel_seq, code from events where source = 'kernel_log' and kind = 'xid'"
_REPEATED = "select count(*) from (select *, count(*) as n from {table} group by all having n > 1)"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of samples and events. `in_flight` may have died with a collector; `altered` are rows that nobody said."""

    rows: int
    rows_stored: int
    rows_lost: int
    rows_doubled: int
    rows_altered: int
    in_flight: int
    in_flight_stored: int
    events: int
    events_stored: int
    events_lost: int
    events_doubled: int
    repeated: dict[str, int]

    @property
    def is_exact(self) -> bool:
        """Nothing lost, nothing twice, nothing invented."""
        return not any(self.faults.values()) and not self.repeated

    @property
    def faults(self) -> dict[str, int]:
        """Give the counts that must be zero."""
        names = ("rows_lost", "rows_doubled", "rows_altered", "events_lost", "events_doubled")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        return (
            f"rows {self.rows} emitted and spooled, {self.rows_stored} stored, {self.rows_lost} lost, {self.rows_doubled} doubled, "
            f"{self.rows_altered} altered; {self.in_flight} in flight at a kill, {self.in_flight_stored} of them stored; "
            f"events {self.events} logged, {self.events_stored} stored, {self.events_lost} lost, {self.events_doubled} doubled; "
            f"rows of other tables repeated: {sum(self.repeated.values())}"
        )


def judge(lake: Lake, fleet: KnownFleet) -> Verdict:
    """Compare; call it when everything has come to rest."""
    spooled, in_flight, logged = fleet.spooled(), fleet.in_flight(), fleet.logged()
    with duckdb.connect() as connection:
        for table in TABLES.values():
            lake.attach(connection, table)
        samples = Counter(Sample(*row) for row in connection.execute(_SAMPLES).fetchall())
        xids = Counter(Xid(*row) for row in connection.execute(_XIDS).fetchall())
        others = {name: _count(connection, name) for name in TABLES if name not in (GPU_SAMPLES.name, EVENTS.name)}
    return Verdict(
        rows=len(spooled),
        rows_stored=sum(samples.values()),
        rows_lost=len(spooled - samples.keys()),
        rows_doubled=samples.total() - len(samples),
        rows_altered=len(samples.keys() - spooled - in_flight),
        in_flight=len(in_flight),
        in_flight_stored=len(in_flight & samples.keys()),
        events=len(logged),
        events_stored=xids.total(),
        events_lost=len(logged - xids.keys()),
        events_doubled=xids.total() - len(xids),
        repeated={name: count for name, count in others.items() if count},
    )


def _count(connection: duckdb.DuckDBPyConnection, name: str) -> int:
    found = connection.execute(_REPEATED.format(table=name)).fetchone()
    return int(found[0]) if found else 0
