"""The formulas of fleet and job reliability give the worked examples that their sources print."""

from itertools import pairwise
from math import exp, inf, prod, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import reliability as r

MIN_PER_DAY = 1440.0


def test_availability_of_all_parts(check):
    """p^n falls to one half at the number of parts the article gives."""
    case = check("CV-01")
    case.expect("p_all", [r.p_all(n, 0.999) for n in (128, 512, 2048)])
    case.expect("n_for_half", r.parts_for_half(0.999))
    assert r.p_all_of([0.5, 0.5, 0.9]) == pytest.approx(0.225)


def test_demand_over_supply_counts_our_drains_against_supply(check):
    """The gauge alarms above one, and a drained node is no supply."""
    check("CV-02").expect("improvement_factor", 2.63 / 0.98)
    assert r.demand_over_supply(100, 100) == 1.0
    assert r.demand_over_supply(100, 100, drained=2) > 1.0
    assert r.demand_over_supply(1, 2, drained=2) == inf


@pytest.mark.parametrize(
    ("cv", "gpus", "output", "unit"),
    [("CV-07", 16384, "mttf_h", 24), ("CV-08", 131072, "mttf_h", 24), ("CV-09", 1024, "mttf_h", 24), ("CV-10", 8, "mttf_d", 1)],
)
def test_series_law(check, cv, gpus, output, unit):
    """The MTTF of a job is that of a node over its number of nodes."""
    check(cv).expect(output, unit * r.mttf_series(gpus / 8, 0.0065))


def test_implied_rates_of_small_jobs(check):
    """Measured MTTFs of small jobs imply a rate over three times the fleet's."""
    rates = [1000 * r.implied_rate_per_node(7.9 / 24, 128), 1000 * r.implied_rate_per_node(47.7, 1)]
    case = check("CV-74")
    case.expect("implied_per_1000_node_days", rates)
    case.expect("ratio_to_r_f", [rate / 6.5 for rate in rates])


@pytest.mark.parametrize(
    ("cv", "gpus", "intervals_min", "output"),
    [
        ("CV-11", (2048, 4096), (60, 60), "ettr"),
        ("CV-12", (16384, 16384), (5, 60), "ettr"),
        ("CV-12", (16000, 16000), (5, 60), "ettr_at_16000_gpus"),
    ],
)
def test_ettr(check, cv, gpus, intervals_min, output):
    """Expected productive share at the published scales."""
    found = [r.ettr(n / 8 * 0.0065 / MIN_PER_DAY, t, 0, 5) for n, t in zip(gpus, intervals_min, strict=True)]
    check(cv).expect(output, found)


def test_ettr_at_the_best_interval(check):
    """Rates and writes that reach .9 at 12,000 GPUs, each at its own best interval."""
    cases = [(0.0065, 5), (0.001, 5), (0.0065, 1 / 6)]
    rates = [1500 * rate / MIN_PER_DAY for rate, _ in cases]
    intervals = [r.ettr_interval(rate, write) for rate, (_, write) in zip(rates, cases, strict=True)]
    case = check("CV-13")
    case.expect("interval_min", intervals)
    case.expect("ettr", [r.ettr(rate, t, write, 5) for rate, t, (_, write) in zip(rates, intervals, cases, strict=True)])


def test_largest_blocking_write(check):
    """The longest write that still gives .90 at the Llama 3 rate."""
    rate = 419 / 54 / MIN_PER_DAY
    writes = [r.largest_write(rate, u0, 0.9) for u0 in (5, 10)]
    case = check("CV-14")
    case.expect("write_s", [60 * w for w in writes])
    case.expect("interval_min", [r.ettr_interval(rate, w) for w in writes])
    case.expect(
        "ratio_form_ettr_at_same_point", [r.ettr(rate, r.ettr_interval(rate, w), w, u0) for w, u0 in zip(writes, (5, 10), strict=True)]
    )


def test_ettr_with_two_minute_restart_and_with_a_queue(check):
    """The 100,000-GPU claim, and the 8,000-GPU one with a minute in the queue."""
    check("CV-15").expect("ettr", r.ettr(12500 * 0.00234 / MIN_PER_DAY, 2, 0, 2))
    check("CV-64").expect("ettr", r.ettr(1000 * 0.0065 / MIN_PER_DAY, 30, 0, 5, queue=1))


def test_tolerated_losses(check):
    """A job that tolerates f losses fails when more than f of its unequal nodes do."""
    check("CV-17").expect("p_loss", [r.p_loss([0.01, 0.02, 0.03], f) for f in (0, 1, 2)])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_loss_probability_falls_with_tolerance(p):
    """Tolerating one more loss never hurts, and tolerating none is one minus all surviving."""
    risks = [r.p_loss(p, f) for f in range(len(p) + 1)]
    assert risks[0] == pytest.approx(1 - prod(1 - x for x in p), abs=1e-12)
    assert all(a >= b - 1e-12 for a, b in pairwise(risks))
    assert risks[-1] == 0


def test_storage_rows(check):
    """Interval, volume and bandwidth follow from an interval of five per cent of the MTTF."""
    rows = [r.checkpoint_row(n) for n in (16_000, 100_000, 1_000_000)]
    check("CV-18").expect("failures_per_day", [row.failures_per_day for row in rows])
    check("CV-18").expect("mttf_min", [row.mttf_min for row in rows])
    check("CV-19").expect("eps_mttf_rule", rows[0].interval_min / rows[1].interval_min)
    check("CV-19").expect("sqrt_rule", sqrt(rows[0].mttf_min / rows[1].mttf_min))
    check("CV-20").expect("interval_min", [row.interval_min for row in rows[:2]])
    check("CV-20").expect("checkpoints_per_day", [row.checkpoints_per_day for row in rows[:2]])
    check("CV-21").expect("write_s", [row.optimal_write_s for row in rows[:2]])
    check("CV-21").expect("waste", r.young_waste(rows[0].mttf_min, rows[0].optimal_write_s / 60))
    check("CV-23").expect("pb_per_day", rows[1].petabytes_per_day)
    check("CV-23").expect("tb_per_s", rows[1].terabytes_per_s)


def test_young(check):
    """Twenty seconds of writing at 7.67 failures a day."""
    mttf_min = MIN_PER_DAY / 7.67
    check("CV-24").expect("interval_min", r.young_interval(mttf_min, 20 / 60))
    check("CV-24").expect("waste", r.young_waste(mttf_min, 20 / 60))


def test_lemons(check):
    """Five lemons in two thousand carry a fifth of the failures."""
    rate = r.total_rate([2043 * 0.0065, 5 * 0.65])
    case = check("CV-43")
    case.expect("rate_per_day", rate)
    case.expect("mttf_h", 24 / rate)
    case.expect("lemon_share_of_failures", 5 * 0.65 / rate)
    case.expect("mttf_h_without_lemons_2048", 24 * r.mttf_series(2048, 0.0065))


def test_lost_work(check):
    """Lost work per failure is just under half an interval, less as failures come faster."""
    check("CV-44").expect("lost_over_T", [r.lost_share(x) for x in (0.01, 0.1, 0.5, 1)])


def test_checkpoint_optima(check):
    """Young, Daly and the exact optimum side by side."""
    found = [
        [r.young_interval(m, c), r.young_interval(m, c) - c, r.daly_interval(m, c), r.exact_interval(m, c)]
        for m, c in ((147.69, 5), (432.69, 0.5))
    ]
    check("CV-45").expect("interval_min", found)
    assert r.daly_interval(10, 30) == 10


@given(st.floats(50, 5000), st.floats(0.1, 10))
def test_exact_interval_is_a_minimum(mttf, write):
    """Moving away from the exact interval lengthens the run."""
    best = r.exact_interval(mttf, write)
    at_best = r.wall_over_solve(best, write, mttf, 1.0)
    assert at_best <= r.wall_over_solve(best * 1.01, write, mttf, 1.0) + 1e-9
    assert at_best <= r.wall_over_solve(best * 0.99, write, mttf, 1.0) + 1e-9


def test_hazard_aware_interval(check):
    """One hot node among 128 halves the interval."""
    calm = 128 * 0.0065 / 24
    hot = 127 * 0.0065 / 24 + 0.1
    check("CV-46").expect("interval_min", [60 * r.ettr_interval(rate, 20 / 3600) for rate in (calm, hot)])


def test_ettr_with_prediction(check):
    """Planned swaps pay above the break-even precision and cost below it."""
    rate, write = 2048 * 0.0065 / MIN_PER_DAY, 20 / 60
    cases = [(0, 1), (0.3, 0.84), (0.3, 0.5), (0.3, 0.2), (0.3, 0.05), (0.6, 0.5)]
    check("CV-47").expect("ettr", [r.ettr_with_prediction(rate, write, 10, r.Predictor(*c, swap=3)) for c in cases])
    interval = r.ettr_interval(rate, write)
    check("CV-63").expect("T_no_prediction_min", interval)
    check("CV-63").expect("fixed_T", r.break_even_precision(3, 10, interval))
    shorter = [r.break_even_precision(3, 10, r.ettr_interval(rate * (1 - recall), write)) for recall in (0.3, 0.6)]
    check("CV-63").expect("at_reoptimised_T", shorter)
    plain = r.ettr_with_prediction(rate, write, 10, r.Predictor(0, 1, 3))
    for recall, precision in ((0.3, 0.2106), (0.6, 0.2031)):
        assert r.ettr_with_prediction(rate, write, 10, r.Predictor(recall, precision, 3)) == pytest.approx(plain, abs=5e-5)


def test_placement_risk_has_a_heavier_tail_than_independence():
    """Shared frailty makes losing several nodes of a rack likelier: mean .728, shape 8, at least four: .0099 against .0066."""
    assert r.placement_risk(0.728, 4, 8) == pytest.approx(0.00990, abs=5e-6)
    poisson = 1 - exp(-0.728) * (1 + 0.728 + 0.728**2 / 2 + 0.728**3 / 6)
    assert poisson == pytest.approx(0.00659, abs=5e-6)
