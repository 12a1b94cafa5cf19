"""From stays and outages to at-risk episodes: survival data with every kind of censoring named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from features.outages import Outage
from features.schema import Episode
from ingest.clock import ns_of


@dataclass(frozen=True, kw_only=True)
class Stay:
    """A unit in service on a node; `ended_at` None: still there."""

    scope: str
    unit: str
    node: str
    started_at: datetime
    ended_at: datetime | None = None
    ended_known_at: datetime | None = None


def episodes_of(stays: Sequence[Stay], outages: Mapping[str, Sequence[Outage]], data_end: datetime, now: datetime) -> Iterator[Episode]:
    """Cut every stay at the outages of its node; stays of one unit come in order, so that its past failures add up."""
    failures: Counter[str] = Counter()
    for stay in stays:
        for episode in _cut(stay, outages.get(stay.node, ()), data_end, now, failures):
            failures[stay.unit] += episode.ended_by == "failure"
            yield episode


def _cut(stay: Stay, outages: Sequence[Outage], data_end: datetime, now: datetime, failures: Mapping[str, int]) -> Iterator[Episode]:
    end = min(stay.ended_at or data_end, data_end)
    since = stay.started_at
    for outage in outages:
        if outage.started_at > end or (outage.started_at == end and not _is_own(outage, stay)):
            break
        if outage.started_at > since:
            yield _ended_by_outage(stay, since, outage, now, failures[stay.unit])
        since = max(since, outage.ended_at)
        if outage.reason == "decommissioned":
            return
    if since < end:
        is_removed = stay.ended_at is not None and stay.ended_at <= data_end
        yield _episode(
            stay,
            since,
            end,
            now,
            failures[stay.unit],
            ended_by="removed" if is_removed else "data_end",
            known_at=(stay.ended_known_at or end) if is_removed else end,
        )


def _is_own(outage: Outage, stay: Stay) -> bool:
    """Tell whether the unit itself failed; records often have it removed at the very moment of its failure."""
    return outage.reason == "failure" and outage.unit == stay.unit


def _ended_by_outage(stay: Stay, since: datetime, outage: Outage, now: datetime, failures: int) -> Episode:
    is_own = _is_own(outage, stay)
    return _episode(
        stay,
        since,
        outage.started_at,
        now,
        failures,
        ended_by=outage.reason if outage.reason != "failure" or is_own else "node_down",
        known_at=outage.known_at,
        mode=outage.mode if is_own else None,
        confidence=("confirmed" if outage.is_confirmed else "inferred") if is_own else None,
    )


def _episode(
    stay: Stay,
    since: datetime,
    until: datetime,
    now: datetime,
    failures: int,
    *,
    ended_by: str,
    known_at: datetime,
    mode: str | None = None,
    confidence: str | None = None,
) -> Episode:
    return Episode(
        scope=stay.scope,
        unit=stay.unit,
        node=stay.node,
        started_at_ns=ns_of(since),
        ended_at_ns=ns_of(until),
        ended_by=ended_by,
        mode=mode,
        confidence=confidence,
        past_failures=failures,
        known_at_ns=ns_of(max(known_at, until)),
        labelled_at_ns=ns_of(now),
    )
