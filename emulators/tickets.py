"""What operators write down about failures: late, and in one case out of eight with the wrong reason."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emulators import draws
from emulators.faults import LINGERING, Failure
from emulators.layout import DAY_NS, HOUR_NS, WorldSpec
from emulators.modes import MODES

_ENDED_BY = {"reset": "reset_fixed", "restart": "reset_fixed", "reboot": "reboot_fixed", "reseat": "reboot_fixed", "rma": "part_replaced"}


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """One outcome: what became of a node at `at_ns`, as the product hears of it at `reported_ns`."""

    outcome_id: str
    node: str
    kind: str
    gpu_uuid: str | None
    mode: str | None
    at_ns: int
    reported_ns: int
    confidence: str
    detail: str


def write_tickets(spec: WorldSpec, failures: tuple[Failure, ...]) -> tuple[Ticket, ...]:
    """Write two tickets per failure, about the failure and about its repair, in the order of reporting."""
    tickets = [ticket for failure in failures for ticket in _about(spec, failure)]
    return tuple(sorted(tickets, key=lambda ticket: (ticket.reported_ns, ticket.outcome_id)))


def _about(spec: WorldSpec, failure: Failure) -> tuple[Ticket, Ticket]:
    key = draws.key_of(spec.seed, "ticket", failure.unit, failure.failed_ns)
    wrong, which, late, later = draws.uniform(key, np.arange(4))
    mode = _another(failure, which) if wrong < spec.wrong_label_share else failure.mode
    delay_ns = int((0.3 + 1.5 * -np.log1p(-late)) * HOUR_NS)
    failed = Ticket(
        outcome_id=str(draws.uuid_of(spec.seed, "outcome", failure.unit, failure.failed_ns)),
        node=failure.node,
        kind="diag_failed" if failure.mode in LINGERING else "failed_in_service",
        gpu_uuid=failure.unit if failure.scope == "gpu" else None,
        mode=mode,
        at_ns=failure.down_ns if failure.mode in LINGERING else failure.failed_ns,
        reported_ns=failure.down_ns + delay_ns,
        confidence="suspected" if wrong < 2 * spec.wrong_label_share else "confirmed",
        detail=f"{failure.node} out of service",
    )
    return failed, _repair(spec, failure, mode, later)


def _repair(spec: WorldSpec, failure: Failure, mode: str, later: float) -> Ticket:
    """Report the repair when the node is back; the truth about a returned part comes 3 to 20 days later."""
    is_rma = failure.action == "rma"
    return Ticket(
        outcome_id=str(draws.uuid_of(spec.seed, "repair", failure.unit, failure.failed_ns)),
        node=failure.node,
        kind=_ENDED_BY[failure.action],
        gpu_uuid=failure.unit if failure.scope == "gpu" else None,
        mode=failure.mode if is_rma else mode,
        at_ns=failure.repaired_ns,
        reported_ns=failure.repaired_ns + int((3 + 17 * later) * DAY_NS if is_rma else 600e9),
        confidence="confirmed",
        detail=f"{failure.action} of {failure.unit}",
    )


def _another(failure: Failure, coin: float) -> str:
    others = [mode.id for mode in MODES.values() if mode.scope == failure.scope and mode.id != failure.mode and mode.rate > 0]
    return others[int(len(others) * coin)]
