"""What the fleet looks like now: riskiest nodes, open recommendations, silent telemetry, and how fresh each table is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from forewarn.compose import lake_of
from forewarn.listing import recommendation_rows
from forewarn.settings import Config
from ingest.errors import LakeUnreadable
from ingest.lake import Lake
from ingest.lake_care import files_of
from ingest.schema import EVENTS, GPU_SAMPLES, SOURCE_STATES
from ingest.tables import Table
from models.schema import SCORES

_RISKIEST = (Path(__file__).parent / "sql" / "riskiest.sql").read_text()
_SILENT = (Path(__file__).parent / "sql" / "silent_sources.sql").read_text()


def status(config: Config, now: datetime) -> dict[str, Any]:
    """Gather the state of the fleet as plain values; nothing is written. A table that cannot be read is told under `unreadable`."""
    lake = lake_of(config)
    unreadable: dict[str, str] = {}

    def asked(table: Table, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except LakeUnreadable as error:
            unreadable[table.name] = str(error)
            return None

    return {
        "cluster": config.fleet.cluster,
        "as_of": now.isoformat(),
        "mode": config.alert.mode,
        "riskiest": asked(SCORES, lambda: _query(lake, now, SCORES, _RISKIEST)) or [],
        "recommendations": recommendation_rows(config),
        "telemetry": asked(SOURCE_STATES, lambda: _query(lake, now, SOURCE_STATES, _SILENT, days=31)) or [],
        "newest": {table.name: asked(table, partial(_newest, lake, now, table)) for table in (GPU_SAMPLES, EVENTS, SCORES)},
        "unreadable": unreadable,
    }


def render(result: dict[str, Any]) -> str:
    """Write the state as text for people."""
    lines = [
        f"{result['cluster']} as of {result['as_of']} ({result['mode']} mode)",
        "",
        "riskiest nodes (probability of failing within 24 h)",
    ]
    for row in result["riskiest"]:
        p = (
            "abstained: " + str(row["abstained_because"])
            if row["p_fail"] is None
            else f"{row['p_fail']:.1%} (fleet {row['p_base'] or 0:.1%})"
        )
        lines.append(f"  {row['node']:<10} {p}   as of {row['as_of']}")
    lines += ["", f"open recommendations: {len(result['recommendations'])}"]
    lines += [f"  {r['node']:<10} {r['action']:<16} since {r['opened']}  budget {r['budget']}" for r in result["recommendations"]]
    lines += ["", f"telemetry that is not ok: {len(result['telemetry'])}"]
    lines += [f"  {r['node']:<10} {r['source']:<10} {r['state']} since {r['since']}" for r in result["telemetry"]]
    newest = {name: at or "nothing yet" for name, at in result["newest"].items()} | dict.fromkeys(result["unreadable"], "unknown")
    lines += ["", *(f"newest {name}: {newest[name]}" for name in result["newest"])]
    lines += result["unreadable"].values()
    return "\n".join(lines)


def _query(lake: Lake, now: datetime, table: Table, sql: str, *, days: int = 2) -> list[dict[str, Any]]:
    with lake.reading() as connection:
        lake.attach(connection, table, since=now - timedelta(days=days), until=now + timedelta(days=1))
        cursor = connection.execute(sql, {"now": now})
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _newest(lake: Lake, now: datetime, table: Table) -> str | None:
    """Tell the newest time of a table, however long ago: of the last date that has files."""
    delta = lake.open(table)
    dates = {file.date for file in files_of(delta) if file.date <= f"{now + timedelta(days=1):%Y-%m-%d}"} if delta else set()
    if not dates:
        return None
    last = datetime.fromisoformat(max(dates)).replace(tzinfo=UTC)
    with lake.reading() as connection:
        lake.attach(connection, table, since=last, until=last)
        found = connection.execute(f'select max({table.time})::text from "{table.name}"').fetchone()
        return found[0] if found else None
