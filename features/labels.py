"""Label at-risk episodes: from when to when a unit was in service and could have failed, and how that ended.

    inventory, telemetry ─ stays.sql ──────────────────────────┐
    events, outcomes ─ failure_signs.sql ─ outages.find_outages ─ episodes.episodes_of ─ table `episodes`
    maintenance, drains ─ planned.sql ─────┘

A failure ends the episode of the unit that failed; its node's other units are censored at that moment (`node_down`). A unit is at risk
again when telemetry, a repair, an insert or a job shows its node again, or after a default time. Silence alone ends nothing: it may
be the failure. Software and job failures never count. Every run labels everything anew as of `now`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from features import engine
from features.buckets import GPU_ROLLUPS_1H
from features.engine import Connection
from features.episodes import Stay, episodes_of
from features.metrics import EPISODES_LABELLED
from features.modes import MODE_OF_XID, NOT_HARDWARE
from features.outages import Outage, Presence, Sign, find_outages
from features.schema import EPISODES, Episode
from ingest.lake import Lake, table_rows
from ingest.schema import EVENTS, INVENTORY, JOBS, OUTCOMES
from ingest.tables import TIMESTAMP


@dataclass(frozen=True)
class LabelReport:
    """How many episodes there are, and how many of them ended with a failure."""

    episodes: int
    failures: int


def label(
    lake: Lake,
    now: datetime,
    *,
    settle: timedelta = timedelta(hours=1),
    repair: timedelta = timedelta(days=1),
) -> LabelReport:
    """Replace the table `episodes` by the labels as known at `now`.

    After a failure a node counts as back at the earliest `settle` later; one without telemetry, repairs or jobs is back after `repair`.
    """
    with engine.connect() as connection, lake.reading(connection):
        _attach(lake, connection, now)
        episodes = _label(connection, now, settle, repair)
    _replace(lake, episodes)
    failures = sum(episode.ended_by == "failure" for episode in episodes)
    _measure(episodes)
    return LabelReport(len(episodes), failures)


def _attach(lake: Lake, connection: Connection, now: datetime) -> None:
    for table in (EVENTS, INVENTORY, OUTCOMES, JOBS, GPU_ROLLUPS_1H):
        lake.attach(connection, table, until=now)
    connection.register("xid_modes", pa.table({"code": list(MODE_OF_XID), "mode": list(MODE_OF_XID.values())}))
    connection.register("not_hardware", pa.table({"mode": sorted(NOT_HARDWARE)}))
    for name in ("seats", "failure_signs", "stays", "planned", "telemetry_spans", "presence"):
        engine.make_table(connection, name, {"now": now})


def _label(connection: Connection, now: datetime, settle: timedelta, repair: timedelta) -> list[Episode]:
    known = {"now": now}
    data_end = engine.value(connection, "select max(happened_at) from presence")
    signs: dict[str, list[Sign]] = defaultdict(list)
    for row in _rows(connection, "select * from failure_signs where known_at <= $now", known):
        signs[row["node"]].append(Sign(**row))
    planned: dict[str, list[Outage]] = defaultdict(list)
    for row in _rows(connection, "select * from planned", {}):
        planned[row["node"]].append(Outage(**{**row, "ended_at": row["ended_at"] or row["started_at"]}))
    spans: dict[str, list[tuple[datetime, datetime]]] = defaultdict(list)
    for row in _rows(connection, "select * from telemetry_spans", {}):
        spans[row["node"]].append((row["started_at"], row["ended_at"]))
    moments: dict[str, list[datetime]] = defaultdict(list)
    for row in _rows(connection, "select node, happened_at from presence where is_return order by happened_at", {}):
        moments[row["node"]].append(row["happened_at"])
    outages = {
        node: find_outages(signs[node], planned[node], Presence(spans[node], moments[node], settle, repair))
        for node in sorted(signs.keys() | planned.keys())
    }
    stays = [Stay(**row) for row in _rows(connection, "select * from stays order by scope, unit, started_at", {})]
    return list(episodes_of(stays, outages, min(data_end or now, now), now))


def _rows(connection: Connection, sql: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    result = connection.execute(sql, dict(parameters))
    names = [column[0] for column in result.description]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def _replace(lake: Lake, episodes: list[Episode]) -> None:
    """Put the new labels in the place of all old ones, as one commit."""
    columns: dict[str, Any] = {}
    for column in EPISODES.own_columns:
        values = [getattr(episode, column.field) for episode in episodes]
        columns[column.name] = [value // 1000 for value in values] if column.type == TIMESTAMP else values
    rows = table_rows(EPISODES, columns)
    years = [f"{value.year}-01-01" for value in rows["started_at"].to_pylist()]
    with engine.connect() as connection, lake.reading(connection):
        lake.attach(connection, EPISODES)
        old = [date for (date,) in connection.execute("select distinct date from episodes").fetchall()]
    if episodes or old:
        lake.replace(EPISODES, rows.append_column("date", pa.array(years, pa.string())), {*old, *years})


def _measure(episodes: list[Episode]) -> None:
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for episode in episodes:
        counts[episode.scope, episode.ended_by] += 1
    EPISODES_LABELLED.clear()
    for (scope, ended_by), count in counts.items():
        EPISODES_LABELLED.labels(scope, ended_by).set(count)
