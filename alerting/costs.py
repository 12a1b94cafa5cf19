"""Expected costs in node-hours and the thresholds that follow from them; every function is pure.

    L      = n (a + D + R) + m_f     loss of a failure in service; a is the work since the last checkpoint, on average T/2
    K_now  = n (C + R_p) + m_d       drain now: checkpoint and planned restart of the whole job
    K_free = m_d                     drain at a free boundary: the restart happens anyway
    drain iff (p - p0) L > K

n nodes of the job, T checkpoint interval, C blocking write of a checkpoint, D + R detection and restart, R_p planned restart, m_f and m_d
node-hours lost when the node fails in service and when it is drained, p and p0 failure probability of the node and of its replacement.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CostModel:
    """What things cost where the job does not say; hours and node-hours."""

    checkpoint_interval_h: float = 0.5  # T
    checkpoint_write_h: float = 20 / 3600  # C
    recovery_h: float = 0.25  # D + R
    planned_restart_h: float = 5 / 60  # R_p
    failed_node_h: float = 24.0  # m_f
    drained_node_h: float = 2.0  # m_d
    swap_node_h: float = 0.25  # an elastic job gives a node back
    avoid_node_h: float = 0.25  # worse placement while a node takes no gang
    boundary_rate_per_h: float = 1 / 24  # free boundaries: about one planned interruption per day
    gang_nodes: int = 16  # size of the job that an idle node would get next
    gpus_per_node: int = 8
    version: str = "1"


def failure_loss(nodes: int, lost_h: float, recovery_h: float, failed_node_h: float) -> float:
    """Give L, the node-hours that a failure in service costs."""
    return nodes * (lost_h + recovery_h) + failed_node_h


def drain_now_cost(nodes: int, checkpoint_write_h: float, planned_restart_h: float, drained_node_h: float) -> float:
    """Give K_now, the node-hours of draining a running job's node at once."""
    return nodes * (checkpoint_write_h + planned_restart_h) + drained_node_h


def drain_threshold(cost: float, loss: float, base: float = 0.0) -> float:
    """Give the failure probability above which an action of that cost pays: p* = p0 + K/L."""
    return base + cost / loss


def checkpoint_threshold(checkpoint_write_h: float, lost_h: float) -> float:
    """Give the probability of failing before the next scheduled checkpoint above which one now pays: C/a, for any job size."""
    return checkpoint_write_h / lost_h


def deferral_hazard(boundary_rate_per_h: float, drain_now: float, drain_free: float, loss: float) -> float:
    """Give the failure rate below which waiting for a free boundary beats draining now: θ (K - K_free) / (L - K)."""
    return boundary_rate_per_h * (drain_now - drain_free) / (loss - drain_now)


def expected_cost(
    *, cost: float, loss: float, incidence: Mapping[str, float], success: Mapping[str, float], wait_h: float = 0.0, rate_per_h: float = 0.0
) -> float:
    """Give the expected node-hours of an action: its cost, the failures it does not prevent, and those that come while it waits.

    `incidence` is the cumulative incidence per failure mode over the horizon (its sum is the failure probability), `success` the
    probability that the action prevents a mode (a mode that is not named: 0).
    """
    unprevented = sum((1.0 - success.get(mode, 0.0)) * p for mode, p in incidence.items())
    return cost + loss * unprevented + wait_h * rate_per_h * loss


def ladder_cost(costs: Sequence[float], success: Sequence[float]) -> float:
    """Give the expected cost of trying repairs in order until one works."""
    total, still_broken = 0.0, 1.0
    for cost, works in zip(costs, success, strict=True):
        total += cost * still_broken
        still_broken *= 1.0 - works
    return total


def ladder_order(costs: Sequence[float], success: Sequence[float]) -> list[int]:
    """Order repairs by ascending cost per success, the cheapest order for independent rungs; one that never works comes last."""
    return sorted(range(len(costs)), key=lambda rung: costs[rung] / success[rung] if success[rung] > 0 else math.inf)


def expected_lost_h(rate_per_h: float, interval_h: float) -> float:
    """Give the work lost per failure between checkpoints: 1/Λ - T/(e^{ΛT} - 1), near T/2 for a small ΛT."""
    exponent = rate_per_h * interval_h
    if exponent < 1e-6:
        return interval_h / 2
    return 1 / rate_per_h - interval_h / math.expm1(exponent)


def checkpoint_interval_h(checkpoint_write_h: float, rate_per_h: float) -> float:
    """Give the interval that wastes least for a job of that total failure rate: √(2C/Λ)."""
    return math.sqrt(2 * checkpoint_write_h / rate_per_h)
