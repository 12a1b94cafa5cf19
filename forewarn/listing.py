"""The ledger's recommendations as plain rows for people and scripts."""

from __future__ import annotations

from typing import Any

import msgspec

from alerting.ledger import Entry, Ledger
from forewarn.settings import Config
from ingest.clock import datetime_of


def recommendation_rows(config: Config, *, everything: bool = False) -> list[dict[str, Any]]:
    """List recommendations, oldest first: those that are open, or all of them."""
    path = config.fleet.ledger
    if not path.exists():
        return []
    ledger = Ledger(path)
    try:
        entries = [entry for entry in ledger.entries() if everything or entry.resolved_ns is None]
        return [_row(ledger, entry) for entry in entries]
    finally:
        ledger.close()


def _row(ledger: Ledger, entry: Entry) -> dict[str, Any]:
    return {
        "recommendation_id": entry.recommendation_id,
        "node": entry.node,
        "origin": entry.origin,
        "action": entry.action.value,
        "strongest": entry.strongest.value,
        "p": round(entry.p_fail, 4),
        "opened": _time(entry.opened_ns),
        "resolved": f"{_time(entry.resolved_ns)} {entry.resolution}" if entry.resolved_ns else "",
        "budget": entry.budget,
        "because": _first_reason(ledger, entry.recommendation_id),
    }


def _first_reason(ledger: Ledger, recommendation_id: str) -> str:
    bodies = ledger.bodies(recommendation_id)
    reasons = msgspec.json.decode(bodies[-1])["reasons"] if bodies else []
    return str(reasons[0]["summary"]) if reasons else ""


def _time(at_ns: int) -> str:
    return datetime_of(at_ns).isoformat(timespec="minutes").removesuffix("+00:00") + "Z"
