"""What fails when: the acceptance of the parameter sheet on 100,000 node-days (items 1, 3, 4, 5, 6, 7)."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from emulators.faults import LINGERING
from emulators.layout import DAY_NS, HOUR_NS, WorldSpec
from emulators.modes import MODES, OUTSIDE_THE_SUM, rates
from emulators.world import World

PLAIN = WorldSpec(
    seed=8, nodes=1000, days=100, heterogeneity=False, repeat_scale=0.0, domain_incidents=False, nodes_per_rack=32, nodes_per_row=96
)
FULL = replace(PLAIN, heterogeneity=True, repeat_scale=1.0)
FAST = (("rate_scale", 10.0), ("multiplier_cap", 10.0))  # many failures, and no node that is down most of the time


@cache
def world(spec_changes: tuple[tuple[str, object], ...] = (), *, is_plain: bool = False) -> World:
    return World(replace(PLAIN if is_plain else FULL, **dict(spec_changes)))  # type: ignore[arg-type]


def counts(fleet: World) -> Counter[str]:
    found = Counter(failure.mode for failure in fleet.failures)
    found.update(fault.mode for fault in fleet.job_faults)
    found["host_maintenance"] = len(fleet.maintenance)
    return found


@pytest.mark.parametrize("profile", ["llama3", "rsc1", "rsc2"])
def test_counts_per_mode_lie_in_the_poisson_interval(profile: str) -> None:
    """With equal nodes and repairs that help, every mode's count lies in the 99.9 % Poisson interval of its rate."""
    found = counts(world((("profile", profile),), is_plain=True))
    for mode, rate in rates(profile).items():
        low, high = stats.poisson(rate * 100).interval(0.999)
        assert low <= found[mode] <= high, mode


def test_counts_per_mode_lie_in_the_wider_interval_with_everything_on() -> None:
    """With frailty, lemons and repeats, counts lie in the 99.9 % interval of a negative binomial that repeats widen."""
    found = counts(world())
    for mode, rate in rates().items():
        mean = rate * 100
        if mean == 0:
            assert found[mode] == 0
            continue
        repeats = MODES[mode].repeat_p
        spread = (1 + repeats) / (1 - repeats) + 0.5
        low, high = stats.nbinom(mean / (spread - 1), 1 / spread).interval(0.999)
        assert low <= found[mode] <= high, mode


def test_the_rate_scale_multiplies_and_down_time_saves() -> None:
    """Ten times the rate gives ten times the failures, less those that a node already down cannot have."""
    total = sum(rate for mode, rate in rates().items() if MODES[mode].is_hardware) * 1000
    assert 0.95 * total < len(world((("rate_scale", 10.0),), is_plain=True).failures) < 1.02 * total


@pytest.mark.parametrize("scale", [0.0, 0.5, 1.0])
def test_visible_shares_follow_the_scale(scale: float) -> None:
    """Per mode, the visible failures lie in the 99.9 % binomial interval of share times scale; none at scale 0."""
    fleet = world((("precursor_share_scale", scale), *FAST))
    failed, visible = Counter[str](), Counter[str]()
    for failure in fleet.failures:
        failed[failure.mode] += 1
        visible[failure.mode] += failure.is_visible
    for mode, count in failed.items():
        low, high = stats.binom(count, MODES[mode].share * scale).interval(0.999)
        assert low <= visible[mode] <= high, mode
    assert scale > 0 or not any(visible.values())


def test_all_policies_meet_the_same_failures() -> None:
    """One seed gives the same failures, leads and repairs whatever the share of visible ones; another seed gives others."""
    changes = (("nodes", 100), ("rate_scale", 20.0))
    half, full = world((*changes, ("precursor_share_scale", 0.5))), world(changes)
    assert [(f.unit, f.mode, f.failed_ns, f.repaired_ns) for f in half.failures] == [
        (f.unit, f.mode, f.failed_ns, f.repaired_ns) for f in full.failures
    ]
    onset = {f.number: f.onset_ns for f in full.failures if f.is_visible}
    visible = [f for f in half.failures if f.is_visible]
    assert visible
    assert all(onset[f.number] == f.onset_ns for f in visible)
    assert world((*changes, ("seed", 9))).failures[0] != full.failures[0]


def test_no_node_fails_while_it_is_down() -> None:
    """Failures of one node come one after the other, each after the repair of the one before."""
    by_node = defaultdict(list)
    for failure in world(FAST).failures:
        by_node[failure.node].append(failure)
    for failures in by_node.values():
        assert all(one.repaired_ns <= next_one.failed_ns for one, next_one in pairwise(failures))
        assert all(one.failed_ns <= one.down_ns < one.repaired_ns for one in failures)


def test_signs_come_before_the_failure_and_after_the_last_repair_of_the_part() -> None:
    """Every visible failure has an onset no later than the failure; the others have none."""
    for failure in world(FAST).failures:
        assert (failure.onset_ns is not None) is failure.is_visible
        assert failure.onset_ns is None or failure.onset_ns <= failure.failed_ns


@pytest.mark.parametrize(
    ("mode", "median_h", "low_h", "high_h"), [("hbm_ue", 20, 0.05, 720), ("nvlink", 12, 0.05, 720), ("thermal", 180, 24, 336)]
)
def test_leads_follow_the_table(mode: str, median_h: float, low_h: float, high_h: float) -> None:
    """The median lead lies within a fifth of the table's; leads lie within its bounds, unless the last repair of the seat cut one short."""
    late_ns = PLAIN.start_ns + 30 * DAY_NS  # so that the start of the world cuts no lead
    failures = [f for f in visible_world().failures if f.mode == mode and f.failed_ns > late_ns]
    leads = np.array([(f.failed_ns - f.onset_ns) / HOUR_NS for f in failures if f.onset_ns is not None])
    assert len(leads) == len(failures) > 100
    assert np.median(leads) == pytest.approx(median_h, rel=0.2)
    assert (leads < 0.99 * low_h).mean() < 0.03
    assert leads.max() <= high_h * 1.001


@cache
def visible_world() -> World:
    return World(replace(PLAIN, rate_scale=30.0, shares=dict.fromkeys(("hbm_ue", "nvlink", "thermal"), 1.0)))


def test_repairs_take_a_median_of_two_hours_and_some_take_days() -> None:
    """MTTR: median 2.2 h, a tenth by hand for one to three days, and no hung GSP longer than 23 h."""
    failures = world((("rate_scale", 10.0),), is_plain=True).failures
    hours = np.array([(f.repaired_ns - f.down_ns) / HOUR_NS for f in failures])
    assert np.median(hours) == pytest.approx(2.4, rel=0.1)
    assert (hours >= 24).mean() == pytest.approx(0.1, abs=0.02)
    assert hours.max() <= 72
    assert max((f.repaired_ns - f.down_ns) / HOUR_NS for f in failures if f.mode == "gsp") <= 23


def test_repairs_that_do_not_help_repeat_the_failure() -> None:
    """About 29 % of HBM failures come back on the same GPU seat, a median of 20 h after the repair, and it does not explode."""
    failures = [f for f in world(FAST).failures if f.mode == "hbm_ue"]
    repeats = sum(f.repeats > 0 for f in failures)
    assert repeats / len(failures) == pytest.approx(0.29, abs=0.05)
    assert max(f.repeats for f in failures) <= 8


def test_no_contagion_within_a_chassis() -> None:
    """Pairs of failures in one chassis within 24 h are as many as in chassis put together by chance."""
    fleet = world((("rate_scale", 10.0), ("repeat_scale", 0.0), ("heterogeneity", False)))
    at = np.array([f.failed_ns for f in fleet.failures])
    node = np.array([f.node_index for f in fleet.failures])
    rng = np.random.default_rng(3)
    chance = [_pairs(at, rng.permutation(1000)[node]) for _ in range(200)]
    observed = _pairs(at, node)
    assert observed / np.mean(chance) == pytest.approx(1.0, abs=4 * np.std(chance) / np.mean(chance))


def _pairs(at: np.ndarray, node: np.ndarray) -> int:
    order = np.lexsort((at, node // 4))
    same = np.diff(node[order] // 4) == 0
    other_node = np.diff(node[order]) != 0
    return int((same & other_node & (np.diff(at[order]) <= DAY_NS)).sum())


def test_an_incident_takes_many_members_of_a_domain_down_at_once() -> None:
    """With incidents on, some domain loses at least three nodes within eleven minutes, named after it."""
    fleet = world((("domain_incidents", True), ("days", 300.0), ("nodes", 200)), is_plain=True)
    hit = defaultdict(list)
    for failure in fleet.failures:
        if failure.incident:
            hit[failure.incident].append(failure)
    assert hit
    assert max(len({f.node for f in failures}) for failures in hit.values()) >= 3
    assert all(not f.is_visible for failures in hit.values() for f in failures)


def test_offenders_are_mostly_benign() -> None:
    """At most one in eleven offences ends in an HBM failure: ten benign offenders per true one."""
    fleet = world(FAST)
    true = sum(f.is_visible and f.mode == "hbm_ue" for f in fleet.failures)
    assert true > 150
    assert true / (true + len(fleet.errors.benign_memory)) <= 1 / 11


def test_a_diagnostic_misses_three_silent_faults_in_ten() -> None:
    """A diagnostic run on a node with silent data corruption passes with probability 0.3."""
    fleet = world((("rate_scale", 30.0),))
    silent = [f for f in fleet.failures if f.mode == "sdc"]
    assert set(LINGERING) == {"sdc", "pcie_degraded"}
    passed = sum(not fleet.diagnose(failure, attempt) for failure in silent for attempt in range(10))
    low, high = stats.binom(10 * len(silent), 0.3).interval(0.999)
    assert low <= passed <= high


@pytest.mark.parametrize(("action", "success"), [("restart", 0.4), ("reboot", 0.6), ("reseat", 0.7), ("rma", 1.0)])
def test_actions_cancel_failures_with_their_probability(action: str, success: float) -> None:
    """An action before the failure would have cancelled it as often as the table of repairs says."""
    fleet = world(FAST)
    cured = sum(fleet.is_cured(failure, action) for failure in fleet.failures)
    low, high = stats.binom(len(fleet.failures), success).interval(0.999)
    assert low <= cured <= high


def test_the_show_fleet_has_enough_of_every_mode_to_learn_from() -> None:
    """48 nodes lose 450 to 600 in 60 days, at least 60 each of the four modes rich in signs."""
    fleet = World(WorldSpec.show())
    until_ns = fleet.spec.start_ns + 60 * DAY_NS
    found = Counter(f.mode for f in fleet.failures if f.failed_ns < until_ns)
    assert 450 <= found.total() <= 600
    assert all(found[mode] >= 60 for mode in ("hbm_ue", "nvlink", "thermal", "fell_off_bus"))
    assert set(found) - OUTSIDE_THE_SUM <= set(MODES)
