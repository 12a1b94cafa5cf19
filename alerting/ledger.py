"""The memory of the decision layer: what was said, granted and refused, with the alternatives, in one file.

A decision, its audit and the events that announce it are one transaction: what was not written was not said, and what was said is
sent. `answers` keeps what consumers say, `outbox` what is still to be sent.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from alerting.causes import Cause, CauseKey
from alerting.database import Database
from alerting.lifecycle import OpenRecommendation
from alerting.schema import Action

Change = Literal["opened", "updated", "resolved"]


@dataclass(frozen=True, kw_only=True)
class OutboxEvent:
    """An event to send: `expires_ns` is fleet time after which it is not worth sending."""

    id: str
    key: str
    body: bytes
    expires_ns: int


@dataclass(frozen=True, kw_only=True)
class Audit:
    """How a decision came about: enough to evaluate another policy on it later."""

    options: Mapping[str, float]
    budget: Mapping[str, Any]
    facts: Mapping[str, Any]
    propensity: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Said:
    """One revision: memory of the recommendation after it, the payload, and why it was said."""

    change: Change
    why: str
    memory: OpenRecommendation
    body: bytes
    audit: Audit
    event: OutboxEvent
    resolution: str | None = None


@dataclass(frozen=True, kw_only=True)
class PassRecord:
    """Everything that one pass writes."""

    at_ns: int
    said: Sequence[Said] = ()
    held: Sequence[OpenRecommendation] = ()
    causes: Sequence[Cause] = ()
    marks: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One recommendation over its whole life; `drain_ns` is when it first asked for a drain, None where it never did."""

    recommendation_id: str
    node: str
    origin: str
    opened_ns: int
    drain_ns: int | None
    strongest: Action
    resolved_ns: int | None
    resolution: str | None
    revision: int
    action: Action
    budget: str
    p_fail: float
    first_p_fail: float


@dataclass(frozen=True, kw_only=True)
class RevisionEntry:
    """One revision as it was said."""

    recommendation_id: str
    revision: int
    change: Change
    why: str
    issued_ns: int
    action: Action
    budget: str
    p_fail: float
    body: bytes


class Ledger:
    """Reads and writes of the decision layer; `endpoints` are the consumers to whom every event goes."""

    def __init__(self, path: str | Path, endpoints: Sequence[str] = ()) -> None:
        self.database = Database(path)
        self.endpoints = tuple(endpoints)

    def close(self) -> None:
        """Close the file."""
        self.database.close()

    def open_recommendations(self) -> dict[str, OpenRecommendation]:
        """Give the open recommendation of each node."""
        rows = self.database.query("select memory from recommendations where status = 'open'")
        memories = [msgspec.json.decode(memory, type=OpenRecommendation) for (memory,) in rows]
        return {memory.node: memory for memory in memories}

    def causes(self) -> dict[CauseKey, Cause]:
        """Give every cause that is remembered."""
        rows = self.database.query("select body from causes")
        return {cause.key: cause for (body,) in rows for cause in [msgspec.json.decode(body, type=Cause)]}

    def marks(self) -> dict[str, int]:
        """Give the marks up to which inputs were read, and the budget's trip (`budget_tripped_ns`)."""
        return dict(self.database.query("select name, value from marks"))

    def grants(self, since_ns: int) -> list[tuple[str, int]]:
        """List the drains approved since a time, as (node, when)."""
        return [(node, at_ns) for node, at_ns in self.database.query("select node, at_ns from grants where at_ns > ?", (since_ns,))]

    def write(self, record: PassRecord, created_wall_ns: int) -> None:
        """Write one pass as one transaction."""
        with self.database.transaction() as connection:
            for said in record.said:
                _write_said(connection, said, record.at_ns)
                _enqueue(connection, said.event, self.endpoints, created_wall_ns)
            rows = [(msgspec.json.encode(held), held.recommendation_id) for held in record.held]
            connection.executemany("update recommendations set memory = ? where recommendation_id = ?", rows)
            causes = [(*cause.key, cause.last_seen_ns, msgspec.json.encode(cause)) for cause in record.causes]
            connection.executemany("insert or replace into causes values (?, ?, ?, ?, ?)", causes)
            connection.executemany("insert or replace into marks values (?, ?)", list(record.marks.items()))

    def entries(self) -> list[Entry]:
        """List every recommendation, oldest first."""
        sql = "select origin, drain_ns, strongest, resolved_ns, resolution, memory, (select p_fail from revisions v where "
        sql += "v.recommendation_id = r.recommendation_id and v.revision = 1) from recommendations r order by opened_ns, recommendation_id"
        return [_entry(row) for row in self.database.query(sql)]

    def revisions(self, recommendation_id: str | None = None) -> list[RevisionEntry]:
        """List the revisions of one recommendation, or of all, in the order in which they were said."""
        sql = "select recommendation_id, revision, change, why, issued_ns, action, budget, p_fail, body from revisions "
        sql += "where ?1 is null or recommendation_id = ?1 order by issued_ns, recommendation_id, revision"
        return [_revision(row) for row in self.database.query(sql, (recommendation_id,))]

    def bodies(self, recommendation_id: str | None = None) -> list[bytes]:
        """Give the newest revision of one recommendation, or of all that are open."""
        sql = "select body from recommendations where coalesce(recommendation_id = ?, status = 'open') order by opened_ns"
        return [body for (body,) in self.database.query(sql, (recommendation_id,))]

    def reset_budget(self) -> None:
        """Let drains be approved again after a trip; what is still wanted is judged anew, with fresh scores, at the next pass."""
        with self.database.transaction() as connection:
            connection.execute("delete from marks where name = 'budget_tripped_ns'")


def _write_said(connection: sqlite3.Connection, said: Said, at_ns: int) -> None:
    memory = said.memory
    if said.change == "opened":
        values = (memory.recommendation_id, memory.node, memory.origin, "open", memory.opened_at_ns, memory.action, b"", b"")
        sql = "insert into recommendations (recommendation_id, node, origin, status, opened_ns, strongest, memory, body)"
        connection.execute(f"{sql} values (?, ?, ?, ?, ?, ?, ?, ?)", values)
    strongest, drain_ns = connection.execute(
        "select strongest, drain_ns from recommendations where recommendation_id = ?", (memory.recommendation_id,)
    ).fetchone()
    if memory.action.severity > Action(strongest).severity:
        strongest = memory.action
    if drain_ns is None and memory.action.is_drain:
        drain_ns = at_ns
    ended = ("resolved", at_ns, said.resolution) if said.change == "resolved" else ("open", None, None)
    sql = "update recommendations set status = ?, resolved_ns = ?, resolution = ?, strongest = ?, drain_ns = ?, memory = ?, body = ?"
    values = (*ended, strongest, drain_ns, msgspec.json.encode(memory), said.body, memory.recommendation_id)
    connection.execute(f"{sql} where recommendation_id = ?", values)
    _write_revision(connection, said, at_ns)


def _write_revision(connection: sqlite3.Connection, said: Said, at_ns: int) -> None:
    memory, audit = said.memory, said.audit
    identity = (memory.recommendation_id, memory.revision)
    told = (said.change, said.why, at_ns, memory.action, memory.budget, memory.p_fail, said.body)
    connection.execute("insert into revisions values (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*identity, *told))
    texts = [msgspec.json.encode(part).decode() for part in (audit.options, audit.budget, audit.facts)]
    values = (*identity, at_ns, memory.node, memory.action, texts[0], audit.propensity, texts[1], texts[2])
    columns = "recommendation_id, revision, at_ns, node, chosen, options, propensity, budget, facts"
    connection.execute(f"insert into audit ({columns}) values (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)  # constants
    if memory.granted_at_ns is not None:
        grant = (memory.recommendation_id, memory.node, memory.granted_at_ns)
        connection.execute("insert or ignore into grants values (?, ?, ?)", grant)


def _enqueue(connection: sqlite3.Connection, event: OutboxEvent, endpoints: Sequence[str], created_wall_ns: int) -> None:
    disabled = {name for (name,) in connection.execute("select endpoint from disabled_endpoints")}
    sql = "insert into outbox (id, endpoint, key, body, created_wall_ns, expires_ns, next_wall_ns) values (?, ?, ?, ?, ?, ?, ?)"
    for endpoint in endpoints:
        if endpoint not in disabled:
            connection.execute(sql, (event.id, endpoint, event.key, event.body, created_wall_ns, event.expires_ns, created_wall_ns))


def _entry(row: tuple[Any, ...]) -> Entry:
    origin, drain_ns, strongest, resolved_ns, resolution, memory, first_p_fail = row
    last = msgspec.json.decode(memory, type=OpenRecommendation)
    return Entry(
        recommendation_id=last.recommendation_id,
        node=last.node,
        origin=origin,
        opened_ns=last.opened_at_ns,
        drain_ns=drain_ns,
        strongest=Action(strongest),
        resolved_ns=resolved_ns,
        resolution=resolution,
        revision=last.revision,
        action=last.action,
        budget=last.budget,
        p_fail=last.p_fail,
        first_p_fail=first_p_fail,
    )


def _revision(row: tuple[Any, ...]) -> RevisionEntry:
    recommendation_id, revision, change, why, issued_ns, action, budget, p_fail, body = row
    return RevisionEntry(
        recommendation_id=recommendation_id,
        revision=revision,
        change=change,
        why=why,
        issued_ns=issued_ns,
        action=Action(action),
        budget=budget,
        p_fail=p_fail,
        body=body,
    )
