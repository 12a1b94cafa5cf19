"""Ranking figures count ties by expectation, and their intervals resample nodes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from models.ranking import Ranking, auroc, average_precision, capture, interval, resampled_weights


def test_ties_count_by_expectation(check):
    """Two of three tied places in the list hold two thirds of the one failure among them."""
    found = capture([0.9, 0.5, 0.5, 0.5, 0.1], [0, 1, 0, 0, 1], 2)
    check("CV-67").expect("capture", found)
    check("CV-67").expect("capture_constant_score", capture(np.ones(100), np.arange(100) < 3, 5))


def test_top_list_of_a_good_ranking(check):
    """A list of 5 % that captures 64 % of 45.5 failures has precision .58 and lifts 34-fold."""
    case = check("CV-62")
    failures = 1000 * 7 * 0.0065
    case.expect("failures", failures)
    case.expect("precision", 0.64 * failures / 50)
    case.expect("lift", [(c / 0.05) / ((1 - c) / 0.95) for c in (0.64, 0.21)])


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=4, max_size=60).filter(lambda r: len({y for _, y in r}) == 2))
def test_agrees_with_scikit_learn(rows):
    """Average precision and AUROC with ties are scikit-learn's."""
    score, y = np.array([s for s, _ in rows]), np.array([f for _, f in rows])
    assert average_precision(score, y) == pytest.approx(average_precision_score(y, score))
    assert auroc(score, y) == pytest.approx(roc_auc_score(y, score))


@given(st.integers(0, 2**32 - 1))
def test_order_of_rows_does_not_matter(seed):
    """Shuffling rows of a tied score changes no figure."""
    rng = np.random.default_rng(seed)
    score, y = rng.integers(0, 4, 50), rng.random(50) < 0.2
    order = rng.permutation(50)
    np.testing.assert_allclose(
        Ranking(score, y).figures((0.05, 0.3)), Ranking(score[order], y[order]).figures((0.05, 0.3)), equal_nan=True, atol=1e-12
    )


def test_weights_stand_for_repeated_rows():
    """Weight two is the row twice."""
    rng = np.random.default_rng(0)
    score, y = rng.integers(0, 9, 40), rng.random(40) < 0.3
    twice = np.concatenate([np.arange(40), np.arange(10)])
    weight = np.where(np.arange(40) < 10, 2.0, 1.0)
    np.testing.assert_allclose(Ranking(score, y).figures((0.1,), weight), Ranking(score[twice], y[twice]).figures((0.1,)), atol=1e-12)


def test_a_bootstrap_draw_takes_whole_nodes():
    """All rows of a node get the same weight, and a draw has as many nodes as there are."""
    node = np.repeat(["a", "b", "c"], [5, 1, 3])
    weights = resampled_weights(node, 50, seed=1)
    assert all((weights[:, node == n] == weights[:, [np.flatnonzero(node == n)[0]]]).all() for n in "abc")
    assert (weights[:, [0, 5, 6]].sum(axis=1) == 3).all()


def test_clustered_interval_is_wider_than_the_naive_one():
    """With twenty equal rows per node an interval that resampled rows would be far too sure."""
    rng = np.random.default_rng(5)
    node = np.repeat(np.arange(30), 20)
    y = np.repeat(rng.random(30) < 0.3, 20)
    score = np.repeat(rng.random(30), 20) + y * 0.3
    by_node = np.array([Ranking(score, y).figures((), w)[1] for w in resampled_weights(node, 200, 1)])
    by_row = np.array([Ranking(score, y).figures((), w)[1] for w in resampled_weights(np.arange(600), 200, 1)])
    assert np.std(by_node) > 3 * np.std(by_row)


def test_figures_without_failures_are_none():
    """Nothing to capture is no figure, not zero."""
    value = Ranking([1, 2], [0, 0]).figures((0.5,))[0]
    assert np.isnan(value)
    assert interval(np.full(100, np.nan), float(value)).value is None
