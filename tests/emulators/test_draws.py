"""Counted randomness: the value depends on key and coordinates alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from emulators import draws

KEY = draws.key_of(7, "test")


def test_a_draw_is_the_same_alone_and_among_others() -> None:
    """One element drawn alone equals the same element of a large array, in whatever order."""
    nodes, slots = np.arange(50)[:, None], np.arange(40)[None, :]
    many = draws.uniform(KEY, nodes, slots)
    assert draws.uniform(KEY, np.array([31]), np.array([17]))[0] == many[31, 17]
    assert np.array_equal(draws.uniform(KEY, nodes[::-1], slots)[::-1], many)


@given(st.integers(0, 2**62), st.integers(0, 2**40))
def test_uniform_stays_in_range(node: int, slot: int) -> None:
    """Every draw lies in [0, 1)."""
    assert 0.0 <= draws.uniform(KEY, node, slot)[0] < 1.0


def test_draws_follow_their_distributions() -> None:
    """Uniform, normal and exponential draws pass Kolmogorov-Smirnov tests at 1 in 1000."""
    index = np.arange(20_000)
    assert stats.kstest(draws.uniform(KEY, index), "uniform").pvalue > 0.001
    assert stats.kstest(draws.normal(KEY, index, 1), "norm").pvalue > 0.001
    assert stats.kstest(draws.exponential(KEY, index, 2), "expon").pvalue > 0.001


def test_keys_and_coordinates_are_independent() -> None:
    """Neighbouring coordinates, swapped coordinates and other names give uncorrelated draws."""
    index = np.arange(20_000)
    one = draws.uniform(KEY, index, 5)
    others = [draws.uniform(KEY, index, 6), draws.uniform(KEY, 5, index), draws.uniform(draws.key_of(7, "other"), index, 5)]
    for other in others:
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.03


def test_quarters_are_four_independent_noises() -> None:
    """The four parts of one draw have mean 0, variance 1/3 and no correlation."""
    parts = np.stack(draws.quarters(KEY, np.arange(20_000)))
    assert np.allclose(parts.mean(axis=1), 0.0, atol=0.02)
    assert np.allclose(parts.var(axis=1), 1 / 3, atol=0.01)
    assert np.abs(np.corrcoef(parts) - np.eye(4)).max() < 0.03


def test_a_uuid_is_a_version_4_uuid() -> None:
    """UUIDs made by name are valid and stable."""
    one = draws.uuid_of(7, "gpu", 1)
    assert one.version == 4
    assert one == draws.uuid_of(7, "gpu", 1) != draws.uuid_of(8, "gpu", 1)
