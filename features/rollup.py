"""Roll raw samples up into closed buckets, incrementally and in bounded memory.

    gpu_samples ─ rollup.sql ─┬─ gpu_rollups_1h ─ coarsen.sql ─ gpu_rollups_1d
                              └─ gpu_rollups_5m   the last days only
    chassis_readings ─ node_rollup.sql ─ node_rollups_1h

Every append carries a transaction whose version is the end of its last bucket (seconds since the epoch), so that the frontier of a tier
stands in the lake itself and a run that died is taken up where it ended. Late samples, those of closed buckets that were received
after all that was rolled up of their GPU and source, become further parts of their buckets (see features/buckets.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

from features import engine
from features.buckets import GPU_ROLLUPS_1D, GPU_ROLLUPS_1H, GPU_ROLLUPS_5M, NODE_ROLLUPS_1H
from features.metrics import ROLLUP_LATE_PARTS, ROLLUP_PARTS, ROLLUP_SECONDS, ROLLUP_WATERMARK
from ingest.lake import AppTransaction, Lake
from ingest.schema import CHASSIS_READINGS, GPU_SAMPLES
from ingest.tables import Table

FINE = timedelta(minutes=5)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
_APP = "rollup"
ROWS_PER_RUN = 400_000  # 60 columns of them in windows take about 0.4 GB
_CARRY_DAYS = 35  # a GPU that was silent for longer starts from a new baseline
# Where each tier begins in the whole of a first run, and how much of it it is.
_SHARE = {"gpu_rollups_1h": (0.0, 0.75), "gpu_rollups_1d": (0.75, 0.05), "gpu_rollups_5m": (0.8, 0.15), "node_rollups_1h": (0.95, 0.05)}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class RollupReport:
    """What one roll-up did: the time up to which five-minute buckets are closed, and the parts appended per table."""

    watermark: datetime
    parts: Mapping[str, int] = field(default_factory=dict)
    late_parts: Mapping[str, int] = field(default_factory=dict)


def roll_up(lake: Lake, now: datetime, *, progress: Callable[[float], None] | None = None) -> RollupReport:
    """Roll up once, with the defaults of `Rollup`."""
    with Rollup(lake) as rollup:
        return rollup.run(now, progress)


class Rollup:
    """The roll-up of one lake; it remembers the last readings of every GPU from run to run, and reads them from the lake when it does not.

    A bucket is closed when the lake has telemetry received `grace` after its end, or at the latest `patience` after it. Samples more than
    `late_by` late are left in the raw table. Five-minute buckets are made from `fine_for` before `now` on, so a long history is to be
    rolled up in one run. One process at a time rolls a lake up.
    """

    def __init__(
        self,
        lake: Lake,
        *,
        grace: timedelta = timedelta(0),
        patience: timedelta = timedelta(minutes=30),
        late_by: timedelta = timedelta(hours=3),
        fine_for: timedelta = timedelta(days=2),
        threads: int | None = None,
        memory_limit: str = "1GB",
        rows_per_run: int = ROWS_PER_RUN,
    ) -> None:
        self.lake = lake
        self._rows_per_run = rows_per_run
        self._grace = grace
        self._patience = patience
        self._late_by = late_by
        self._fine_for = fine_for
        self._open = ExitStack()
        self._connection = self._open.enter_context(engine.connect(threads, memory_limit))
        self._carried: dict[str, datetime] = {}
        self._complete_until = _EPOCH
        self._progress: Callable[[float], None] = lambda _: None
        self._parts: dict[str, int] = {}
        self._late_parts: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open.close()

    @ROLLUP_SECONDS.time()
    def run(self, now: datetime, progress: Callable[[float], None] | None = None) -> RollupReport:
        """Roll up every bucket that is closed and not yet in the lake, and what came late for closed ones."""
        self._progress = progress or (lambda _: None)
        self._parts, self._late_parts = {}, {}
        with self.lake.reading(self._connection):
            self._complete_until = self.complete_until(now)
            self._gpu_tier(GPU_ROLLUPS_1H, HOUR, None)
            self._days()
            self._gpu_tier(GPU_ROLLUPS_5M, FINE, _floor(now, DAY) - self._fine_for)
            self._node_hours()
        watermark = _floor(self._complete_until, FINE)
        ROLLUP_WATERMARK.set(watermark.timestamp())
        return RollupReport(watermark, self._parts, self._late_parts)

    def complete_until(self, now: datetime) -> datetime:
        """Tell up to when the lake is complete: the newest receipt less the grace, unless the telemetry has fallen silent."""
        since = now - self._patience
        with self.lake.reading(self._connection):
            self.lake.attach(self._connection, GPU_SAMPLES, since, now, by_time=True)
            newest = engine.value(
                self._connection, "select max(received_at) from gpu_samples where observed_at >= $since", {"since": since}
            )
        return min(now, max(newest or since, since)) - self._grace

    def _gpu_tier(self, table: Table, width: timedelta, earliest: datetime | None) -> None:
        """Roll samples up into the buckets of one width."""
        for since, until in self._spans(table, GPU_SAMPLES, width, earliest):
            self._carry(table, since)
            self.lake.attach(self._connection, GPU_SAMPLES, since - self._late_by, until, by_time=True)
            self._roll(table, "rollup", since, until, width)

    def _days(self) -> None:
        """Roll hours up into days."""
        for since, until in self._spans(GPU_ROLLUPS_1D, GPU_ROLLUPS_1H, DAY, None):
            self._carry(GPU_ROLLUPS_1D, since)
            self.lake.attach(self._connection, GPU_ROLLUPS_1H, since - self._late_by - HOUR, until, by_time=True)
            self._connection.execute("create or replace temp view hours as select * from gpu_rollups_1h")
            self._roll(GPU_ROLLUPS_1D, "coarsen", since, until, DAY)

    def _node_hours(self) -> None:
        """Roll the readings of chassis up into hours."""
        for since, until in self._spans(NODE_ROLLUPS_1H, CHASSIS_READINGS, HOUR, None):
            self.lake.attach(self._connection, NODE_ROLLUPS_1H, since - DAY, since, by_time=True)
            self._connection.execute(
                "create or replace temp table node_carry as select node, max(received_at) as received_at from node_rollups_1h group by node"
            )
            self.lake.attach(self._connection, CHASSIS_READINGS, since - self._late_by, until, by_time=True)
            self._make("node_rollup", since, until, HOUR)
            self._append(NODE_ROLLUPS_1H, until)

    def _spans(self, table: Table, raw: Table, width: timedelta, earliest: datetime | None) -> Iterator[tuple[datetime, datetime]]:
        """Split what is closed and not yet rolled up into runs of about `rows_per_run` raw rows."""
        frontier = self.lake.committed(table, _APP)
        since = _EPOCH + timedelta(seconds=frontier) if frontier is not None else None
        until = _floor(self._complete_until, width)
        if since is not None and since >= until:
            return
        self.lake.attach(self._connection, raw, since, until, by_time=True)
        rows = dict(self._connection.execute(f"select date, count(*) from {raw.name} group by date").fetchall())
        if not rows:
            return
        first = since = max(since or _EPOCH, _day_of(min(rows)), earliest or _EPOCH)
        begins, share = _SHARE[table.name]
        while since < until:
            step = _stride(rows, since, width, self._rows_per_run)
            yield since, min(since + step, until)
            since += step
            self._progress(begins + share * min(1.0, (since - first) / (until - first)))

    def _carry(self, table: Table, since: datetime) -> None:
        """Have the last readings before `since` in `carry`: remembered, or read from the tier itself and from the days before it."""
        if self._carried.get(table.name) != since:
            self.lake.attach(self._connection, table, since - 2 * DAY, since)
            self.lake.attach(self._connection, GPU_ROLLUPS_1D, since - _CARRY_DAYS * DAY, since)
            self._connection.execute(
                f"create or replace temp view rollup_parts as select * from {table.name} union all by name select * from gpu_rollups_1d"
            )
            engine.make_table(self._connection, f"carry_of_{table.name}", {"since": since}, source="carry")
        self._connection.execute(f"create or replace temp view carry as from carry_of_{table.name}")

    def _roll(self, table: Table, source: str, since: datetime, until: datetime, width: timedelta) -> None:
        """Make and append the parts of one run, and remember the readings that the next one goes on from."""
        self._make(source, since, until, width)
        self._append(table, until)
        remembered = f"carry_of_{table.name}"
        self._connection.execute(
            f"create or replace temp view rollup_parts as select * from {remembered} union all by name select * from parts"
        )
        engine.make_table(self._connection, "next_carry", {"since": until}, source="carry")
        self._connection.execute(f"create or replace temp table {remembered} as from next_carry")
        self._carried[table.name] = until

    def _make(self, source: str, since: datetime, until: datetime, width: timedelta) -> None:
        parameters = {"since": since, "until": until, "late_since": since - self._late_by, "width_s": int(width.total_seconds())}
        if source == "rollup":
            engine.make_table(self._connection, "samples", parameters)
        engine.make_table(self._connection, "parts", parameters, source=source)

    def _append(self, table: Table, until: datetime) -> None:
        """Append the parts as one commit that moves the tier's frontier to `until`."""
        rows = self._connection.sql(f"from parts order by {', '.join(table.sort_by)}").to_arrow_table()
        if not rows.num_rows:
            return
        late = engine.value(self._connection, "select count(*) from parts where revision > 0")
        self.lake.append(table, rows, AppTransaction(_APP, int((until - _EPOCH).total_seconds())))
        self._parts[table.name] = self._parts.get(table.name, 0) + rows.num_rows
        self._late_parts[table.name] = self._late_parts.get(table.name, 0) + late
        ROLLUP_PARTS.labels(table.name).inc(rows.num_rows)
        ROLLUP_LATE_PARTS.labels(table.name).inc(late)


def _stride(rows: Mapping[str, int], since: datetime, width: timedelta, most_rows: int) -> timedelta:
    """Choose how far the run from `since` goes: whole days while they are small, else as many buckets as fit."""
    day, total = _floor(since, DAY), 0
    while total + rows.get(f"{day:%Y-%m-%d}", 0) <= most_rows and day - since < timedelta(days=30):
        total += rows.get(f"{day:%Y-%m-%d}", 0)
        day += DAY
    if day > since:
        return day - since
    share = most_rows / rows[f"{day:%Y-%m-%d}"]
    return max(width, _floor(_EPOCH + share * DAY, width) - _EPOCH)


def _floor(at: datetime, width: timedelta) -> datetime:
    return at - (at - _EPOCH) % width


def _day_of(date: str) -> datetime:
    return datetime.fromisoformat(date).replace(tzinfo=UTC)
