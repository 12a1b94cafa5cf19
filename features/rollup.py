"""Roll raw samples up into closed buckets, incrementally and in bounded memory.

    gpu_samples ─ rollup.sql ─┬─ gpu_rollups_5m   the last days only
                              └─ gpu_rollups_1h ─ coarsen.sql ─ gpu_rollups_1d
    chassis_readings ─ node_rollup.sql ─ node_rollups_1h

Every append carries a transaction whose version is the end of its last bucket (seconds since the epoch), so that the frontier of a tier
stands in the lake itself and a run that died is taken up where it ended. Late samples, those of closed buckets that were received
after all that was rolled up of their GPU and source, become further parts of their buckets (see features/buckets.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from features import engine
from features.buckets import GPU_ROLLUPS_1D, GPU_ROLLUPS_1H, GPU_ROLLUPS_5M, NODE_ROLLUPS_1H
from features.engine import Connection
from features.metrics import ROLLUP_LATE_PARTS, ROLLUP_PARTS, ROLLUP_SECONDS, ROLLUP_WATERMARK
from ingest.lake import AppTransaction, Lake
from ingest.schema import CHASSIS_READINGS, GPU_SAMPLES
from ingest.tables import Table

FINE = timedelta(minutes=5)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
_APP = "rollup"
_ROWS_PER_RUN = 400_000  # 60 columns of them in windows take about 0.4 GB
_CARRY_DAYS = 35  # a GPU that was silent for longer starts from a new baseline
# Where each tier begins in the whole of a first run, and how much of it it is.
_SHARE = {"gpu_rollups_1h": (0.0, 0.75), "gpu_rollups_5m": (0.75, 0.15), "gpu_rollups_1d": (0.9, 0.05), "node_rollups_1h": (0.95, 0.05)}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class RollupReport:
    """What one roll-up did: the time up to which five-minute buckets are closed, and the parts appended per table."""

    watermark: datetime
    parts: Mapping[str, int] = field(default_factory=dict)
    late_parts: Mapping[str, int] = field(default_factory=dict)


def roll_up(
    lake: Lake,
    now: datetime,
    *,
    grace: timedelta = timedelta(0),
    patience: timedelta = timedelta(minutes=30),
    late_by: timedelta = timedelta(hours=6),
    fine_for: timedelta = timedelta(days=2),
    threads: int | None = None,
    memory_limit: str = "1GB",
    progress: Callable[[float], None] | None = None,
) -> RollupReport:
    """Roll up every bucket that is closed and not yet in the lake, and what came late for closed ones.

    A bucket is closed when the lake has telemetry received `grace` after its end, or at the latest `patience` after it. Samples more
    than `late_by` late are left in the raw table. Five-minute buckets are made from `fine_for` before `now` on, so a long history is
    rolled up in one call, whose `progress` hears the share done.
    """
    with ROLLUP_SECONDS.time(), engine.connect(threads, memory_limit) as connection:
        run = _Run(lake, connection, late_by, progress or (lambda _: None))
        run.complete_until = _complete_until(run, now, patience) - grace
        fine_from = _floor(now, DAY) - fine_for
        run.gpu_tier(GPU_ROLLUPS_1H, HOUR, None)
        run.gpu_tier(GPU_ROLLUPS_5M, FINE, fine_from)
        run.days()
        run.node_hours()
    watermark = _floor(run.complete_until, FINE)
    ROLLUP_WATERMARK.set(watermark.timestamp())
    return RollupReport(watermark, run.parts, run.late_parts)


def _complete_until(run: _Run, now: datetime, patience: timedelta) -> datetime:
    """Tell up to when the lake is complete: the newest receipt, unless the telemetry has fallen silent."""
    since = now - patience
    run.lake.attach(run.connection, GPU_SAMPLES, since, now)
    newest = engine.value(run.connection, "select max(received_at) from gpu_samples where observed_at >= $since", {"since": since})
    return min(now, max(newest or since, since))


class _Run:
    """One roll-up: the tiers one after another, with what they appended."""

    def __init__(self, lake: Lake, connection: Connection, late_by: timedelta, progress: Callable[[float], None]) -> None:
        self.lake = lake
        self.connection = connection
        self.late_by = late_by
        self.progress = progress
        self.complete_until = _EPOCH
        self.parts: dict[str, int] = {}
        self.late_parts: dict[str, int] = {}

    def gpu_tier(self, table: Table, width: timedelta, earliest: datetime | None) -> None:
        """Roll samples up into the buckets of one width."""
        spans = self._spans(table, GPU_SAMPLES, width, earliest)
        for since, until in spans:
            self._carry(table, since)
            self.lake.attach(self.connection, GPU_SAMPLES, since - self.late_by, until)
            self._make("rollup", since, until, width)
            self._append(table, until)

    def days(self) -> None:
        """Roll hours up into days."""
        for since, until in self._spans(GPU_ROLLUPS_1D, GPU_ROLLUPS_1H, DAY, None):
            self._carry(GPU_ROLLUPS_1D, since)
            self.lake.attach(self.connection, GPU_ROLLUPS_1H, since - self.late_by, until)
            self.connection.execute("create or replace temp view hours as select * from gpu_rollups_1h")
            self._make("coarsen", since, until, DAY)
            self._append(GPU_ROLLUPS_1D, until)

    def node_hours(self) -> None:
        """Roll the readings of chassis up into hours."""
        for since, until in self._spans(NODE_ROLLUPS_1H, CHASSIS_READINGS, HOUR, None):
            self.lake.attach(self.connection, NODE_ROLLUPS_1H, since - DAY, since)
            self.connection.execute(
                "create or replace temp table node_carry as select node, max(received_at) as received_at from node_rollups_1h group by node"
            )
            self.lake.attach(self.connection, CHASSIS_READINGS, since - self.late_by, until)
            self._make("node_rollup", since, until, HOUR)
            self._append(NODE_ROLLUPS_1H, until)

    def _spans(self, table: Table, raw: Table, width: timedelta, earliest: datetime | None) -> Iterator[tuple[datetime, datetime]]:
        """Split what is closed and not yet rolled up into runs of about `_ROWS_PER_RUN` raw rows."""
        frontier = self.lake.committed(table, _APP)
        since = _EPOCH + timedelta(seconds=frontier) if frontier is not None else None
        until = _floor(self.complete_until, width)
        if since is not None and since >= until:
            return
        self.lake.attach(self.connection, raw, since, until)
        rows = dict(self.connection.execute(f"select date, count(*) from {raw.name} group by date").fetchall())
        if not rows:
            return
        since = max(since or _EPOCH, _day_of(min(rows)), earliest or _EPOCH)
        first = since
        while since < until:
            step = _stride(rows, since, width)
            yield since, min(since + step, until)
            since += step
            self.progress(_SHARE[table.name][0] + _SHARE[table.name][1] * min(1.0, (since - first) / (until - first)))

    def _carry(self, table: Table, since: datetime) -> None:
        """Know the last readings before `since`, from the tier itself and from the days before it."""
        self.lake.attach(self.connection, table, since - 2 * DAY, since)
        self.lake.attach(self.connection, GPU_ROLLUPS_1D, since - _CARRY_DAYS * DAY, since)
        self.connection.execute(
            f"create or replace temp view rollup_parts as select * from {table.name} union all by name select * from gpu_rollups_1d"
        )
        engine.make_table(self.connection, "carry", {"since": since})

    def _make(self, source: str, since: datetime, until: datetime, width: timedelta) -> None:
        parameters = {"since": since, "until": until, "late_since": since - self.late_by, "width_s": int(width.total_seconds())}
        engine.make_table(self.connection, "parts", parameters, source=source)

    def _append(self, table: Table, until: datetime) -> None:
        """Append the parts as one commit that moves the tier's frontier to `until`."""
        rows = self.connection.sql(f"from parts order by {', '.join(table.sort_by)}").to_arrow_table()
        if not rows.num_rows:
            return
        late = engine.value(self.connection, "select count(*) from parts where revision > 0")
        self.lake.append(table, rows, AppTransaction(_APP, int((until - _EPOCH).total_seconds())))
        self.parts[table.name] = self.parts.get(table.name, 0) + rows.num_rows
        self.late_parts[table.name] = self.late_parts.get(table.name, 0) + late
        ROLLUP_PARTS.labels(table.name).inc(rows.num_rows)
        ROLLUP_LATE_PARTS.labels(table.name).inc(late)


def _stride(rows: Mapping[str, int], since: datetime, width: timedelta) -> timedelta:
    """Choose how far the run from `since` goes: whole days while they are small, else as many buckets as fit."""
    day, total = _floor(since, DAY), 0
    while total + rows.get(f"{day:%Y-%m-%d}", 0) <= _ROWS_PER_RUN and day - since < timedelta(days=30):
        total += rows.get(f"{day:%Y-%m-%d}", 0)
        day += DAY
    if day > since:
        return day - since
    share = _ROWS_PER_RUN / rows[f"{day:%Y-%m-%d}"]
    return max(width, _floor(_EPOCH + share * DAY, width) - _EPOCH)


def _floor(at: datetime, width: timedelta) -> datetime:
    return at - (at - _EPOCH) % width


def _day_of(date: str) -> datetime:
    return datetime.fromisoformat(date).replace(tzinfo=UTC)
