"""The action of least expected cost changes where the thresholds of the cost model say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerting.costs import CostModel
from alerting.hazard import Hazard
from alerting.options import Option, RunningJob, cheapest, stakes, weigh
from alerting.schema import Action

NO_RISK = Hazard.constant(0.0, 24.0)
MODEL = CostModel(checkpoint_interval_h=1.0, gang_nodes=128)
JOB = RunningJob(job_id="48213", nodes=128, checkpoint_interval_h=1.0)


def best(hazard: Hazard, job: RunningJob | None = JOB, base: Hazard = NO_RISK, model: CostModel = MODEL, **more: float) -> Action:
    asked = {"horizon_h": 24.0, "deadline_h": 0.0, **more}
    return cheapest(weigh(hazard, base, job, model, horizon_h=asked["horizon_h"], deadline_h=asked["deadline_h"])).action


def cost_of(options: tuple[Option, ...], action: Action) -> float:
    return next(option.cost for option in options if option.action is action)


def test_stakes() -> None:
    """The worked example of 128 nodes: a failure costs 120 node-hours, a drain now 13.38, one at a free boundary 2."""
    at_stake = stakes(JOB, MODEL)
    assert (at_stake.job_loss, at_stake.drain_free) == (120.0, 2.0)
    assert at_stake.drain_now == pytest.approx(13.3778, abs=5e-5)


@pytest.mark.parametrize(("rate_per_h", "action"), [(0.00440, Action.DRAIN_AFTER_JOB), (0.00449, Action.DRAIN_NOW)])
def test_waiting_for_a_boundary(rate_per_h: float, action: Action) -> None:
    """Draining now beats waiting above the hazard of CV-56 (0.0044463 per hour), with a horizon that sees all of it."""
    assert best(Hazard.constant(rate_per_h, 24.0), horizon_h=10_000.0) is action


@given(st.floats(0.0, 0.3), st.floats(0.0, 0.9))
def test_idle_node_drains_iff_it_pays(p_base: float, p_fail: float) -> None:
    """Without a job a drain beats doing nothing if and only if (p - p0) L > K."""
    hazard, base = Hazard.from_probabilities([(24.0, p_fail)]), Hazard.from_probabilities([(24.0, p_base)])
    options = weigh(hazard, base, None, MODEL, horizon_h=24.0, deadline_h=0.0)
    gain = (p_fail - p_base) * 120.0 - 2.0
    assert cost_of(options, Action.NONE) - cost_of(options, Action.DRAIN_NOW) == pytest.approx(gain, abs=1e-6)


def test_no_excess_no_action() -> None:
    """A node as risky as its replacement is left alone, though both are risky."""
    common = Hazard.from_probabilities([(24.0, 0.3)])
    assert best(common, base=common) is Action.NONE
    assert best(common, job=None, base=common) is Action.NONE


def test_the_mildest_output_exists() -> None:
    """A slightly raised risk on an idle node is worth keeping gangs away, not worth a drain."""
    assert best(Hazard.from_probabilities([(24.0, 0.012)]), job=None) is Action.AVOID_NEW_GANGS


def test_rising_hazard_is_drained_by_a_deadline() -> None:
    """A risk that comes late lets short jobs end first: drain by the time it comes, not now."""
    rising = Hazard((6.0, 24.0), (1e-5, 0.1))
    model = CostModel(checkpoint_interval_h=1.0, gang_nodes=128, boundary_rate_per_h=1 / 4)
    assert best(rising, model=model, deadline_h=6.0) is Action.DRAIN_BY


def test_checkpoint_now_pays_above_its_threshold() -> None:
    """C = 20 s and half an hour at risk: a checkpoint pays above 1.11 % until the next scheduled one (CV-55)."""

    def gain(p_until_next: float) -> float:
        hazard = Hazard.from_probabilities([(0.5, p_until_next), (24.0, p_until_next)])
        options = weigh(hazard, NO_RISK, JOB, MODEL, horizon_h=24.0, deadline_h=0.0)
        return cost_of(options, Action.NONE) - cost_of(options, Action.CHECKPOINT_NOW)

    assert gain(0.0112) > 0 > gain(0.0110)


@pytest.mark.parametrize("mode", ["per_iter", "jit"])
def test_continuous_checkpoints_lose_nothing(mode: str) -> None:
    """A job that checkpoints every step has no work at risk and nothing to checkpoint."""
    job = RunningJob(job_id="1", nodes=128, checkpoint_mode=mode)
    assert stakes(job, MODEL).lost_h == 0.0
    assert Action.CHECKPOINT_NOW not in {option.action for option in weigh(NO_RISK, NO_RISK, job, MODEL, horizon_h=24.0, deadline_h=1.0)}


def test_known_checkpoint_age_is_used() -> None:
    """The age of the newest checkpoint replaces half the interval."""
    assert stakes(RunningJob(job_id="1", nodes=8, checkpoint_age_h=0.9), MODEL).lost_h == 0.9


def test_tolerant_job_loses_only_the_node() -> None:
    """A job that survives a node's loss costs the node and a swap, not everybody's work."""
    tolerant = stakes(RunningJob(job_id="1", nodes=128, tolerates_failures=1), MODEL)
    assert (tolerant.job_loss, tolerant.drain_now) == (24.25, 2.25)
    assert stakes(RunningJob(job_id="1", nodes=128, is_elastic=True), MODEL).drain_now == 2.25
