"""Error bursts of emulated parts: those that announce a failure, and at least ten times as many that announce nothing.

Burst sizes are heavy-tailed (Perlmutter: mean 52 corrected errors per event, up to 1e5 per day); a true offender's bursts come faster
as the failure nears, a benign one's are spread evenly over one to three weeks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from emulators import draws
from emulators.faults import Failure
from emulators.layout import DAY_NS, HOUR_NS, LINKS, MS_NS, WorldSpec
from emulators.modes import MODES, rates

BURST_MEDIAN, BURST_SIGMA, BURST_MOST = 6.0, 2.07, 100_000


@dataclass
class Bursts:
    """Events of one kind of counter: key (seat, or seat * 18 + link), time and amounts."""

    keys: list[int] = field(default_factory=list)
    times_ns: list[int] = field(default_factory=list)
    amounts: list[int] = field(default_factory=list)

    def add(self, key: int, at_ns: float, amount: float) -> None:
        """Note one burst."""
        self.keys.append(int(key))
        self.times_ns.append(int(at_ns) // MS_NS * MS_NS)
        self.amounts.append(max(1, int(amount)))


@dataclass(frozen=True)
class Mark:
    """One thing that a sign leaves in the kernel log."""

    at_ns: int
    seat: int
    code: int
    link: int = 0


@dataclass
class ErrorHistory:
    """All bursts of a fleet by counter, and the marks they leave in kernel logs."""

    counters: dict[str, Bursts] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    benign_memory: list[tuple[int, int, int]] = field(default_factory=list)  # (seat, from, until) of benign offenders

    def add(self, counter: str, key: int, at_ns: float, amount: float = 1) -> None:
        """Note one burst of a counter."""
        self.counters.setdefault(counter, Bursts()).add(key, at_ns, amount)


def draw_bursts(spec: WorldSpec, failures: tuple[Failure, ...]) -> ErrorHistory:
    """Draw every error burst of a fleet's life."""
    history = ErrorHistory()
    for failure in failures:
        if failure.slot is None:
            continue
        seat = failure.node_index * spec.gpus_per_node + failure.slot
        if failure.is_visible and failure.mode in _SIGNS:
            _SIGNS[failure.mode](history, failure, seat, draws.generator(spec.seed, "sign", failure.mode, seat, failure.failed_ns))
        _last_errors(history, failure, seat)
    _benign_memory(spec, history)
    _benign_links(spec, history)
    _background(spec, history)
    return history


def _spread(rng: np.random.Generator, failure: Failure, count: int, power: float) -> np.ndarray:
    """Spread burst times over the lead, denser towards the failure (density grows as the `power - 1`-th power)."""
    assert failure.onset_ns is not None
    return failure.onset_ns + (failure.failed_ns - failure.onset_ns) * np.sort(rng.uniform(size=count)) ** (1.0 / power)


def _burst_size(rng: np.random.Generator) -> float:
    return float(min(BURST_MOST, BURST_MEDIAN * np.exp(BURST_SIGMA * rng.standard_normal())))


def _lead_h(failure: Failure) -> float:
    assert failure.onset_ns is not None
    return (failure.failed_ns - failure.onset_ns) / HOUR_NS


def _memory_sign(history: ErrorHistory, failure: Failure, seat: int, rng: np.random.Generator) -> None:
    """Let corrected errors, remapped rows and, in half of the cases, a pending remap go before an uncorrectable error."""
    count = 3 + int(rng.poisson(1.3 * np.sqrt(_lead_h(failure))))
    times = _spread(rng, failure, count, 2.0)
    for number, at_ns in enumerate(times):
        history.add("dram_ce", seat, at_ns, _burst_size(rng) * (1.0 + 3.0 * number / count))
        if rng.uniform() < 0.15:
            history.add("remap_ce", seat, at_ns)
    if rng.uniform() < 0.5:
        at_ns = int(times[min(count - 1, int(count * rng.uniform(0.4, 0.95)))])
        history.add("remap_ue", seat, at_ns)
        history.add("remap_pending", seat, at_ns)
        history.marks.append(Mark(at_ns, seat, 63))
    elif rng.uniform() < 0.3:
        history.marks.append(Mark(int(times[-1]), seat, 92))


def _link_sign(history: ErrorHistory, failure: Failure, seat: int, rng: np.random.Generator) -> None:
    """Let CRC errors, replays and recoveries of one link grow."""
    link = seat * LINKS + link_of(failure)
    count = 4 + int(rng.poisson(2.0 * np.sqrt(_lead_h(failure))))
    for number, at_ns in enumerate(_spread(rng, failure, count, 2.0)):
        size = 8.0 * np.exp(1.2 * rng.standard_normal()) * (1.0 + 2.0 * number / count)
        history.add("link_crc", link, at_ns, size)
        history.add("link_replay", link, at_ns, 0.6 * size)
        if rng.uniform() < 0.25 + 0.25 * number / count:
            history.add("link_recovery", link, at_ns)


def _bus_sign(history: ErrorHistory, failure: Failure, seat: int, rng: np.random.Generator) -> None:
    """Let the PCIe link recover and correct errors in the last minutes."""
    for at_ns in _spread(rng, failure, 3, 1.0):
        history.add("pcie_correctable", seat, at_ns, 1 + 20 * rng.exponential())
        history.add("pcie_l0_to_recovery", seat, at_ns, 1 + 3 * rng.exponential())


def _faulty_sign(history: ErrorHistory, failure: Failure, seat: int, rng: np.random.Generator) -> None:
    """Leave a burst of application XIDs in the kernel log."""
    for at_ns in _spread(rng, failure, 2 + int(rng.poisson(2.0)), 1.5):
        history.marks.append(Mark(int(at_ns), seat, int(rng.choice((13, 31, 43, 45)))))


_SIGNS = {"hbm_ue": _memory_sign, "sram_ecc": _memory_sign, "nvlink": _link_sign, "fell_off_bus": _bus_sign, "gpu_faulty": _faulty_sign}


def link_of(failure: Failure) -> int:
    """Name the NVLink that a failure is about."""
    return draws.key_of(0, "link", failure.unit, failure.failed_ns) % LINKS


def fails_to_remap(failure: Failure) -> bool:
    """Tell whether no spare row was left: XID 64, and the part goes back to its maker."""
    return failure.mode == "hbm_ue" and failure.action == "rma" and draws.key_of(0, "remap", failure.unit, failure.failed_ns) % 3 == 0


def _last_errors(history: ErrorHistory, failure: Failure, seat: int) -> None:
    """Count the errors of the failure itself."""
    if failure.mode == "hbm_ue":
        history.add("dram_ue", seat, failure.failed_ns)
        history.add("remap_ue", seat, failure.failed_ns)
        history.add("remap_pending", seat, failure.failed_ns)
        if fails_to_remap(failure):
            history.add("remap_failed", seat, failure.failed_ns)
    elif failure.mode == "sram_ecc":
        history.add("sram_ue", seat, failure.failed_ns)
    elif failure.mode == "nvlink":
        history.add("link_crc", seat * LINKS + link_of(failure), failure.failed_ns, 500)
        history.add("link_recovery", seat * LINKS + link_of(failure), failure.failed_ns, 3)


def expected_visible(spec: WorldSpec, mode: str) -> float:
    """Count the failures of a mode that would have a precursor at `precursor_share_scale` 1."""
    rate = rates(spec.profile, spec.profile_scope)[mode] / 1000.0 * spec.rate_scale
    return rate * spec.nodes * spec.days * spec.shares.get(mode, MODES[mode].share)


def _benign_memory(spec: WorldSpec, history: ErrorHistory) -> None:
    """Let GPUs show corrected errors and never fail for it, whatever becomes of them otherwise."""
    rng = draws.generator(spec.seed, "benign memory")
    expected = expected_visible(spec, "hbm_ue")
    count = int(np.ceil(spec.benign_per_true * (expected + 2.5 * np.sqrt(expected))))  # also where chance gave more true ones
    for _ in range(count):
        seat = int(rng.integers(spec.nodes * spec.gpus_per_node))
        from_ns = spec.start_ns + int(rng.uniform(-10, spec.days) * DAY_NS)
        active_ns = int(rng.uniform(7, 21) * DAY_NS)
        history.benign_memory.append((seat, from_ns, from_ns + active_ns))
        times = from_ns + active_ns * np.sort(rng.uniform(size=1 + int(rng.poisson(9.0))))
        for at_ns in times:
            history.add("dram_ce", seat, at_ns, _burst_size(rng))
            if rng.uniform() < 0.015:
                history.add("remap_ce", seat, at_ns)
        if rng.uniform() < 0.02:
            history.add("remap_ue", seat, times[-1])
            history.add("remap_pending", seat, times[-1])
            history.marks.append(Mark(int(times[-1]) // MS_NS * MS_NS, seat, 63))


def _benign_links(spec: WorldSpec, history: ErrorHistory) -> None:
    """Let links show CRC errors for days without an end."""
    rng = draws.generator(spec.seed, "benign links")
    for _ in range(int(np.ceil(0.3 * spec.benign_per_true * expected_visible(spec, "nvlink")))):
        link = int(rng.integers(spec.nodes * spec.gpus_per_node * LINKS))
        from_ns = spec.start_ns + int(rng.uniform(-5, spec.days) * DAY_NS)
        for at_ns in from_ns + rng.uniform(3, 14) * DAY_NS * rng.uniform(size=2 + int(rng.poisson(8.0))):
            size = 4.0 * np.exp(1.0 * rng.standard_normal())
            history.add("link_crc", link, at_ns, size)
            history.add("link_replay", link, at_ns, 0.4 * size)
            if rng.uniform() < 0.03:
                history.add("link_recovery", link, at_ns)


def _background(spec: WorldSpec, history: ErrorHistory) -> None:
    """Sprinkle the few PCIe and SRAM errors that every fleet has."""
    rng = draws.generator(spec.seed, "background")
    seats = spec.nodes * spec.gpus_per_node
    for counter, per_day, size in (("pcie_correctable", 0.15, 2.0), ("pcie_l0_to_recovery", 0.1, 1.0), ("sram_ce", 0.01, 1.0)):
        count = int(rng.poisson(per_day * seats * (spec.days + 30)))
        bursts = history.counters.setdefault(counter, Bursts())
        bursts.keys += rng.integers(seats, size=count).tolist()
        at_ms = (rng.uniform(-30, spec.days, size=count) * 86_400_000).astype(np.int64)
        bursts.times_ns += (spec.start_ns + at_ms * MS_NS).tolist()
        bursts.amounts += (1 + rng.exponential(size, size=count)).astype(np.int64).tolist()
