"""Laws that every survival function must obey, and the worked examples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from models import survival as s

HORIZONS = (1.0, 6.0, 24.0, 168.0)
hazards = arrays(float, (3, 4), elements=st.floats(0, 0.5))


def test_failure_probability_of_a_constant_rate_and_of_four_bins(check):
    """A constant rate and a falling one, to 1, 6, 24 and 168 hours."""
    case = check("CV-29")
    case.expect("F_constant", s.failure_probability(np.full(4, 0.0065 / 24), HORIZONS))
    falling = np.array([0.002, 0.0012, 0.0006, 0.0003])
    case.expect("cumulative_hazard", s.cumulative_hazard(falling, HORIZONS))
    case.expect("F_bins", s.failure_probability(falling, HORIZONS))


def test_competing_modes(check):
    """The incidence of a mode is less than it would be alone."""
    hazard = np.array([[0.001, 0.0002], [0.0005, 0.0004]])  # mode, bin
    case = check("CV-53")
    case.expect("cif", s.cumulative_incidence(hazard, (6, 24))[:, -1])
    case.expect("survival", s.survival(hazard.sum(axis=0), (6, 24))[-1])
    case.expect("one_minus_km_per_mode", s.failure_probability(hazard, (6, 24))[:, -1])


def test_parts_add_up_to_the_node(check):
    """Hazards of GPUs and host modes add; the worst GPU has nearly all of it."""
    parts = np.array([1e-5] * 7 + [2e-3] + [6e-5])[:, None]
    node = s.add_parts(parts, np.zeros(9, dtype=int), 1)
    case = check("CV-58")
    case.expect("node_lambda_per_h", node[0, 0])
    case.expect("F_24h", s.failure_probability(node, (24,))[0, 0])
    case.expect("share_of_worst_gpu", parts[7, 0] / node[0, 0])
    case.expect("sum_of_gpu_and_host_probabilities", s.failure_probability(parts, (24,)).sum())


def test_shared_frailty(check):
    """Correlation makes at least one failure less likely and the first one later."""
    case = check("CV-59")
    case.expect("survival", [s.frailty_survival(1.0, a) for a in (3, 5, 8)])
    case.expect("mttf_factor", [s.frailty_mttf_factor(a) for a in (3, 5, 8)])
    assert s.frailty_mttf_factor(1) == float("inf")


def test_links(check):
    """Logit and complementary log-log part ways above five per cent."""
    p = np.array([0.001, 0.01, 0.05, 0.2, 0.5])
    check("CV-26").expect("logit", s.logit(p))
    check("CV-26").expect("cloglog", s.cloglog(p))


def test_cloglog_boosting_step(check):
    """Gradient and hessian agree with the printed ones, and the gradient with a finite difference."""
    step = s.cloglog_step([-4, -4, 0.3], [1, 0, 1])
    check("CV-27").expect("grad_hess", np.stack([step.gradient, step.hessian], axis=1))
    check("CV-27").expect("fisher", step.fisher[[0, 2]])
    loss = lambda eta: -np.log(-np.expm1(-np.exp(eta)))  # noqa: E731
    assert step.gradient[2] == pytest.approx((loss(0.3 + 1e-6) - loss(0.3 - 1e-6)) / 2e-6, abs=1e-6)


def test_kaplan_meier(check):
    """Ties and censoring: at a tie the event comes first."""
    km = s.kaplan_meier([1, 2, 2, 3, 4, 4], [1, 1, 0, 1, 0, 1])
    check("CV-28").expect("hazard", km.hazard)
    check("CV-28").expect("survival", km.survival)
    assert km.at(2.0) == pytest.approx(2 / 3)
    assert km.at(2.0, left=True) == pytest.approx(5 / 6)


@given(hazards)
def test_longer_horizons_are_never_safer(hazard):
    """F grows with the horizon and stays in [0, 1]."""
    p = s.failure_probability(hazard, HORIZONS)
    assert (np.diff(p, axis=-1) >= 0).all()
    assert ((p >= 0) & (p <= 1)).all()


@given(hazards)
def test_incidences_and_survival_add_up_to_one(hazard):
    """Every unit fails in exactly one mode or survives."""
    incidence = s.cumulative_incidence(hazard, HORIZONS)
    alive = s.survival(hazard.sum(axis=0), HORIZONS)
    np.testing.assert_allclose(incidence.sum(axis=0) + alive, 1, atol=1e-12)
    assert (np.diff(incidence, axis=-1) >= -1e-15).all()


@given(hazards)
def test_a_node_survives_when_all_its_parts_do(hazard):
    """Adding hazards multiplies survivals."""
    node = s.add_parts(hazard, np.zeros(3, dtype=int), 1)
    np.testing.assert_allclose(s.survival(node[0], HORIZONS), s.survival(hazard, HORIZONS).prod(axis=0), rtol=1e-12)


@given(st.floats(1e-6, 0.2), st.integers(1, 24))
def test_bins_compose_under_the_cloglog_link(p, parts):
    """Probabilities of equal parts of a bin shift by the log of their number."""
    whole = 1 - (1 - p) ** parts
    assert s.cloglog(whole) == pytest.approx(s.cloglog(p) + np.log(parts), abs=1e-6)


def test_horizons_must_grow():
    """Horizons that do not grow are a bug of the caller."""
    with pytest.raises(AssertionError, match="BUG"):
        s.bin_widths((6.0, 6.0))
