"""A node's newest scores as the decision layer sees them: probabilities per horizon, modes, reasons, and how old the telemetry is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from alerting.hazard import Hazard
from alerting.schema import Horizon, Reason

_CODE = re.compile(r"[a-z0-9_.]+")


@dataclass(frozen=True, kw_only=True)
class ScoreRow:
    """One node-scope row of `scores`; None in `p_fail` means that the model abstains."""

    node: str
    as_of_ns: int
    horizon_h: float
    p_fail: float | None
    p_low: float | None = None
    p_high: float | None = None
    p_base: float | None = None
    cif: Mapping[str, float] | None = None
    worst_unit: str | None = None
    reasons: str | None = None
    abstained_because: str | None = None
    telemetry_age_s: float | None = None
    missing_sources: tuple[str, ...] = ()
    model: str = ""
    model_version: str = ""


@dataclass(frozen=True, kw_only=True)
class Risk:
    """All horizons of one node as of one time; `abstained_because` is set where no probability is printed."""

    node: str
    as_of_ns: int
    horizons: tuple[Horizon, ...]
    incidence: Mapping[str, float] = field(default_factory=dict)  # per failure mode, over the decision horizon
    worst_unit: str | None = None
    reasons: tuple[Reason, ...] = ()
    abstained_because: str | None = None
    telemetry_age_s: float | None = None
    missing_sources: tuple[str, ...] = ()
    model: str = ""
    model_version: str = ""

    @property
    def hazard(self) -> Hazard:
        """The node's own rate per hour."""
        return Hazard.from_probabilities((point.hours, point.p_fail) for point in self.horizons)

    @property
    def base(self) -> Hazard:
        """The fleet's rate per hour, by which a replacement is expected to fail."""
        return Hazard.from_probabilities((point.hours, point.p_base or 0.0) for point in self.horizons)


def risks(rows: Iterable[ScoreRow], horizon_h: float) -> dict[str, Risk]:
    """Gather score rows into one risk per node, the newest; modes and reasons come from the row of the decision horizon."""
    newest: dict[str, dict[float, ScoreRow]] = {}
    for row in sorted(rows, key=lambda row: row.as_of_ns):
        known = newest.get(row.node, {})
        is_newer = any(other.as_of_ns < row.as_of_ns for other in known.values())
        newest[row.node] = {row.horizon_h: row} if is_newer else {**known, row.horizon_h: row}
    return {node: _risk([group[hours] for hours in sorted(group)], horizon_h) for node, group in newest.items()}


def abstained(risk: Risk, because: str) -> Risk:
    """Take the probabilities out of a risk, for example because they have become too old."""
    return replace(risk, horizons=(), incidence={}, reasons=(), abstained_because=because)


def _risk(rows: list[ScoreRow], horizon_h: float) -> Risk:
    main = min(rows, key=lambda row: abs(row.horizon_h - horizon_h))
    printed = [row for row in rows if row.p_fail is not None]
    because = next((row.abstained_because for row in rows if row.abstained_because), None)
    if because is None and any(row.p_base is None for row in printed):
        because = "no_base_rate"  # a risk that cannot be compared says nothing about draining
    return Risk(
        node=main.node,
        as_of_ns=main.as_of_ns,
        horizons=() if because else _horizons(printed),
        incidence=main.cif or {},
        worst_unit=main.worst_unit,
        reasons=parse_reasons(main.reasons),
        abstained_because=because or (None if printed else "no_probability"),
        telemetry_age_s=main.telemetry_age_s,
        missing_sources=main.missing_sources,
        model=main.model,
        model_version=main.model_version,
    )


def _horizons(rows: list[ScoreRow]) -> tuple[Horizon, ...]:
    """Keep probabilities from falling with the horizon and inside their interval: each horizon was calibrated on its own."""
    points: list[Horizon] = []
    floor = 0.0
    for row in rows:
        p_fail = max(floor, row.p_fail or 0.0)
        low = None if row.p_low is None else min(row.p_low, p_fail)
        high = None if row.p_high is None else max(row.p_high, p_fail)
        points.append(Horizon(hours=row.horizon_h, p_fail=p_fail, p_low=low, p_high=high, p_base=row.p_base))
        floor = p_fail
    return tuple(points)


def parse_reasons(text: str | None) -> tuple[Reason, ...]:
    """Read the reasons that the scorer wrote, at most ten; what is no reason is left out rather than silencing the node."""
    try:
        told = msgspec.json.decode(text, type=tuple[Reason, ...]) if text else ()
    except msgspec.DecodeError:
        return ()
    sayable = [reason for reason in told if _CODE.fullmatch(reason.code)][:10]
    return tuple(msgspec.structs.replace(reason, summary=reason.summary[:300]) for reason in sayable)
