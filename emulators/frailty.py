"""How unequal the nodes of a fleet are: frailty, lemons, shared domain factors, lots, position, age, and waves in time.

Every factor has mean 1 over the fleet, so that the profile's total is met whatever is switched on. Domain effects are shared
frailty, not contagion (Titan: same-blade deaths within 24 h are 1.0 times chance).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv

from emulators import draws
from emulators.draws import Floats, Ints
from emulators.layout import DAY_NS, NodeInfo, WorldSpec

GAMMA_SHAPES = {"row": 8.0, "rack": 3.0, "chassis": 5.0}
MODE_DOMAINS = {"nic": "leaf_switch", "switch_cable": "leaf_switch", "psu_vr": "power"}
MODE_DOMAIN_SHAPE = 5.0
POSITION_TOP = 3.3  # air-cooled racks, bottom to top 1 : 2 : 3.3
SLOT_FACTORS = (1.0, 1.08, 0.4, 0.3, 1.0, 1.08, 0.4, 0.3)  # Titan's four positions of a board, twice
LOT_SIGMA = 0.5
NEW_DAYS = 60
DEFECTIVE_LOT_FACTOR = 10.0


@dataclass(frozen=True)
class Hazards:
    """Relative hazard of each node, constant (`of_node`, and `of_mode` on top for some modes) and over time (`over_days`)."""

    of_node: Floats  # (nodes,), mean 1
    of_mode: dict[str, Floats]  # mode -> (nodes,), mean of the product with of_node is 1
    over_days: Floats  # (nodes, days), mean 1 weighted with of_node
    factors: dict[str, Floats]  # name -> (nodes,): what of_node is the product of

    def of(self, mode: str) -> Floats:
        """Give the constant multiplier of a mode."""
        return self.of_node * self.of_mode[mode] if mode in self.of_mode else self.of_node


def draw_hazards(spec: WorldSpec, nodes: tuple[NodeInfo, ...]) -> Hazards:
    """Draw the multipliers of a fleet."""
    days = int(np.ceil(spec.days)) + 1
    if not spec.heterogeneity:
        return Hazards(np.ones(len(nodes)), {}, np.ones((len(nodes), days)), {})
    factors = _factors(spec, nodes)
    of_node = _capped(np.prod(list(factors.values()), axis=0), spec.multiplier_cap)
    of_mode = {mode: _domain(spec, nodes, kind, MODE_DOMAIN_SHAPE) for mode, kind in MODE_DOMAINS.items()}
    of_mode = {mode: theta / np.average(theta, weights=of_node) for mode, theta in of_mode.items()}
    over_days = _over_days(spec, nodes, days)
    return Hazards(of_node, of_mode, over_days / np.average(over_days.mean(axis=1), weights=of_node), factors)


def _factors(spec: WorldSpec, nodes: tuple[NodeInfo, ...]) -> dict[str, Floats]:
    index = np.arange(len(nodes))
    sigma = spec.frailty_sigma
    frailty = np.exp(sigma * draws.normal(draws.key_of(spec.seed, "frailty"), index) - sigma**2 / 2)
    is_lemon = draws.uniform(draws.key_of(spec.seed, "lemon"), index) < spec.lemon_share
    factors = {"frailty": frailty, "lemon": np.where(is_lemon, spec.lemon_factor, 1.0)}
    factors |= {kind: _domain(spec, nodes, kind, shape) for kind, shape in GAMMA_SHAPES.items()}
    factors["lot"] = _lots(spec, nodes)
    height = np.array([node.position for node in nodes]) / max(1, spec.nodes_per_rack - 1)
    factors["position"] = POSITION_TOP**height
    return factors


def _domain(spec: WorldSpec, nodes: tuple[NodeInfo, ...], kind: str, shape: float) -> Floats:
    """Draw one Gamma(a, a) factor per domain, by inversion so that it does not depend on the number of domains."""
    names = [getattr(node, kind) for node in nodes]
    theta = {name: _gamma(draws.key_of(spec.seed, "domain", kind, name), shape) for name in set(names)}
    return np.array([theta[name] for name in names])


def _gamma(key: int, shape: float) -> float:
    return float(gammaincinv(shape, draws.uniform(key)[0]) / shape)


def _lots(spec: WorldSpec, nodes: tuple[NodeInfo, ...]) -> Floats:
    names = [node.lot for node in nodes]
    log_rate = {name: LOT_SIGMA * draws.normal(draws.key_of(spec.seed, "lot rate", name))[0] for name in set(names)}
    factors: Floats = np.exp(np.array([log_rate[name] for name in names]))
    return factors


def _capped(product: Floats, cap: float | None) -> Floats:
    """Bring the mean to 1 with no multiplier above the cap."""
    product = product / product.mean()
    if cap is not None:
        for _ in range(50):
            product = np.minimum(product, cap)
            product = product / product.mean()
    return product


def _over_days(spec: WorldSpec, nodes: tuple[NodeInfo, ...], days: int) -> Floats:
    """Compose infant mortality, power swing, firmware waves and the wear-out of a defective lot."""
    day = np.arange(days)[None, :]
    index = np.arange(len(nodes))[:, None]
    age = day + commissioned_days_before(spec, index)
    infant = np.where(age < 30, 2.0 * 0.7 * (np.maximum(age, 0.5) / 30) ** -0.3, 1.0)  # Weibull k = 0.7, ×2 in the first month
    swing = np.where(draws.uniform(draws.key_of(spec.seed, "swing"), index, day // 3) < 0.3, 1.3, 1.0)
    return infant * swing * _firmware(spec, index, day) * _wear_out(spec, nodes, day)


def commissioned_days_before(spec: WorldSpec, index: Ints) -> Floats:
    """Tell the age of nodes at the start: one in ten is new, the others are one to two years old."""
    is_new = draws.uniform(draws.key_of(spec.seed, "new"), index) < 0.1
    fresh = NEW_DAYS * draws.uniform(draws.key_of(spec.seed, "age"), index)
    return np.where(is_new, fresh, 365 + 365 * draws.uniform(draws.key_of(spec.seed, "age"), index))


def _firmware(spec: WorldSpec, index: Ints, day: Ints) -> Floats:
    """Roll firmware out in weekly waves, 1.5 roll-outs per quarter; the updated wave has three times the hazard for 3 days."""
    if not spec.firmware_waves:
        return np.ones(np.broadcast_shapes(index.shape, day.shape))
    wave = (4 * draws.uniform(draws.key_of(spec.seed, "wave"), index)).astype(int)
    offset = int(60 * draws.uniform(draws.key_of(spec.seed, "roll-out"))[0])
    since = (day + offset) % 61 - 7 * wave
    return np.where((since >= 0) & (since < 3), 3.0, 1.0)


def _wear_out(spec: WorldSpec, nodes: tuple[NodeInfo, ...], day: Ints) -> Floats:
    """Let one lot wear out: onset between the 12th and 18th month, ramp over 9 months."""
    if not spec.defective_lot:
        return np.ones((len(nodes), day.shape[1]))
    bad = sorted({node.lot for node in nodes})[0]
    is_bad = np.array([node.lot == bad for node in nodes])[:, None]
    age = day + commissioned_days_before(spec, np.arange(len(nodes))[:, None])
    onset = 365 + 180 * draws.uniform(draws.key_of(spec.seed, "wear-out"))[0]
    factor: Floats = 1.0 + (DEFECTIVE_LOT_FACTOR - 1.0) * is_bad * np.clip((age - onset) / 270.0, 0.0, 1.0)
    return factor


def cumulative_hours(spec: WorldSpec, hazards: Hazards) -> tuple[Floats, Floats]:
    """Give the day grid in hours since the start and the cumulative time-factor of each node on it, in hours."""
    grid = np.minimum(np.arange(hazards.over_days.shape[1] + 1) * 24.0, (spec.until_ns - spec.start_ns) / DAY_NS * 24.0)
    steps = hazards.over_days * np.diff(grid)[None, :]
    return grid, np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)
