"""What consumers say back: acknowledgements and outcomes, each stored once however often it is sent."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import pyarrow as pa

from alerting.database import Database
from alerting.schema import Ack, Action, OutcomeReport
from ingest.clock import ns_of
from ingest.lake import AppTransaction, Lake, table_rows
from ingest.schema import OUTCOMES

Receipt = Literal["stored", "known", "unknown"]
FAILED_KINDS = ("failed_in_service", "failed_while_drained")
REPAIRED_KINDS = ("part_replaced", "reset_fixed", "reboot_fixed", "no_fault_found", "decommissioned")
FOREIGN_DRAIN = "already_drained_by_other"
_LAKE_STREAM = "alerting-outcomes"


@dataclass(frozen=True, kw_only=True)
class ToldOutcome:
    """An outcome as the decision layer needs it."""

    seq: int
    outcome_id: str
    node: str
    kind: str
    at_ns: int


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What the acks to one recommendation amount to."""

    is_dismissed: bool = False  # an operator rejected it
    is_foreign_drain: bool = False  # the last word on it: somebody else had drained the node


def take_ack(database: Database, ack: Ack, *, consumer: str, webhook_id: str, received_ns: int, wall_ns: int) -> Receipt:
    """Store an ack; `known` for a call that came before, `unknown` where no such revision was ever said."""
    with database.transaction() as connection:
        said = "select 1 from revisions where recommendation_id = ? and revision = ?"
        if connection.execute(said, (ack.recommendation_id, ack.revision)).fetchone() is None:
            return "unknown"
        if not _is_new_call(connection, consumer, webhook_id, wall_ns):
            return "known"
        columns = "recommendation_id, revision, state, actor_kind, reason_code, consumer, at_ns, received_ns, body"
        values = (ack.recommendation_id, ack.revision, ack.state, ack.actor.kind, ack.reason_code, consumer)
        times = (ns_of(ack.at), received_ns, msgspec.json.encode(ack))
        connection.execute(f"insert into acks ({columns}) values (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*values, *times))
    return "stored"


def take_outcome(database: Database, outcome: OutcomeReport, *, consumer: str, received_ns: int) -> Receipt:
    """Store an outcome; `known` where its `outcome_id` has been told before."""
    columns = "outcome_id, node, kind, at_ns, received_ns, consumer, body"
    values = (outcome.outcome_id, outcome.node, outcome.kind, ns_of(outcome.at), received_ns, consumer, msgspec.json.encode(outcome))
    with database.transaction() as connection:
        sql = f"insert or ignore into outcomes ({columns}) values (?, ?, ?, ?, ?, ?, ?)"
        return "stored" if connection.execute(sql, values).rowcount else "known"


def standings(database: Database) -> dict[str, Standing]:
    """Sum up the acks to every open recommendation."""
    sql = "select recommendation_id, state, actor_kind, reason_code from acks where recommendation_id in "
    sql += "(select recommendation_id from recommendations where status = 'open') order by seq"
    found: dict[str, Standing] = {}
    for recommendation_id, state, actor_kind, reason_code in database.query(sql):
        before = found.get(recommendation_id, Standing())
        found[recommendation_id] = Standing(
            is_dismissed=before.is_dismissed or (state == "rejected" and actor_kind == "operator"),
            is_foreign_drain=reason_code == FOREIGN_DRAIN,
        )
    return found


def dismissed_since(database: Database, since_ns: int) -> dict[str, Action]:
    """Give the severest action that was dismissed on each node since a time."""
    sql = "select node, strongest from recommendations where resolution = 'dismissed' and resolved_ns > ?"
    found: dict[str, Action] = {}
    for node, strongest in database.query(sql, (since_ns,)):
        found[node] = max(Action(strongest), found.get(node, Action.NONE), key=lambda action: action.severity)
    return found


def outcomes_after(database: Database, seq: int) -> list[ToldOutcome]:
    """List the outcomes that were told after a mark, oldest first."""
    rows = database.query("select seq, outcome_id, node, kind, at_ns from outcomes where seq > ? order by seq", (seq,))
    return [ToldOutcome(seq=seq_, outcome_id=id_, node=node, kind=kind, at_ns=at_ns) for seq_, id_, node, kind, at_ns in rows]


def repairs_told(database: Database, since_ns: int) -> list[tuple[str, str, str, int]]:
    """List what outcomes say was done since a time, as (node, kind, failure mode, when)."""
    rows = database.query("select node, kind, body, at_ns from outcomes where at_ns > ? order by seq", (since_ns,))
    told = [(node, kind, msgspec.json.decode(body, type=OutcomeReport), at_ns) for node, kind, body, at_ns in rows]
    return [(node, kind, outcome.failure_mode or "unknown", at_ns) for node, kind, outcome, at_ns in told]


def repaired_at(database: Database) -> dict[str, int]:
    """Give the newest repair of each node that was told."""
    marks = ", ".join("?" * len(REPAIRED_KINDS))
    sql = f"select node, max(at_ns) from outcomes where kind in ({marks}) group by node"  # placeholders
    return dict(database.query(sql, REPAIRED_KINDS))


def flush_outcomes(database: Database, lake: Lake, limit: int = 10_000) -> int:
    """Append outcomes that the lake lacks, as one commit and exactly once; give how many."""
    last = database.query("select coalesce(max(seq), 0) from outcomes")[0][0]
    marked = database.query("select value from marks where name = 'outcomes_in_lake'")
    if marked and marked[0][0] >= last:
        return 0
    done = lake.committed(OUTCOMES, _LAKE_STREAM) or 0
    rows = database.query("select seq, received_ns, body from outcomes where seq > ? order by seq limit ?", (done, limit))
    if rows:
        lake.append(OUTCOMES, _lake_rows(rows), AppTransaction(_LAKE_STREAM, rows[-1][0]))
    with database.transaction() as connection:
        connection.execute("insert or replace into marks values ('outcomes_in_lake', ?)", (rows[-1][0] if rows else done,))
    return len(rows)


def _is_new_call(connection: sqlite3.Connection, consumer: str, webhook_id: str, wall_ns: int) -> bool:
    return connection.execute("insert or ignore into calls values (?, ?, ?)", (consumer, webhook_id, wall_ns)).rowcount == 1


def _lake_rows(rows: Sequence[tuple[int, int, bytes]]) -> pa.Table:
    told = [msgspec.json.decode(body, type=OutcomeReport) for _, _, body in rows]
    columns = {
        "node": [outcome.node for outcome in told],
        "observed_at": [outcome.at for outcome in told],
        "received_at": [received_ns // 1000 for _, received_ns, _ in rows],
        "source": [outcome.source for outcome in told],
        "outcome_id": [outcome.outcome_id for outcome in told],
        "kind": [outcome.kind for outcome in told],
        "gpu_uuid": [outcome.component for outcome in told],
        "mode": [outcome.failure_mode for outcome in told],
        "recommendation_id": [outcome.recommendation_id for outcome in told],
        "confidence": [outcome.confidence for outcome in told],
        "detail": [outcome.detail for outcome in told],
        "seq": [seq for seq, _, _ in rows],
    }
    return table_rows(OUTCOMES, columns)
