"""Telemetry defects: their rates, that they repeat by seed, and that they can be switched off."""

from __future__ import annotations

import numpy as np

from emulators.defects import Defects
from emulators.layout import NS, WorldSpec

SPEC = WorldSpec.show()
NODES, SLOTS = np.arange(48)[:, None], np.arange(288 * 60)[None, :]


def test_loss_is_between_a_tenth_and_two_percent_with_gaps() -> None:
    """Apart from gaps each node loses 0.1-1 % of its polls; gaps add about one per twelve days of minutes to hours."""
    defects = Defects(SPEC)
    gap = defects.is_gap(NODES, SLOTS)
    lost = defects.is_lost(NODES, SLOTS)
    alone = np.array([(row & ~gaps).mean() for row, gaps in zip(lost, gap, strict=True)])
    assert alone.min() > 0.0005
    assert alone.max() < 0.012
    starts = (np.diff(gap.astype(int), axis=1) == 1).sum()
    assert 48 * 60 / 12 * 0.7 < starts < 48 * 60 / 12 * 1.3
    assert gap.mean() < 0.01


def test_a_poll_is_judged_the_same_alone() -> None:
    """One (node, slot) asked alone gives what the whole table has."""
    defects = Defects(SPEC)
    table = defects.is_lost(NODES, SLOTS)
    for node, slot in ((0, 0), (17, 4_000), (47, 17_000)):
        assert defects.is_lost(np.array([node]), np.array([slot]))[0] == table[node, slot]


def test_clocks_are_off_by_two_seconds_at_most_and_polls_are_late_and_in_order() -> None:
    """Skew stays within 2 s and changes weekly; jitter and latency are positive and keep polls apart."""
    defects = Defects(SPEC)
    skew = defects.skew_ns(NODES, SLOTS)
    assert np.abs(skew).max() <= 2 * NS
    assert len(np.unique(skew[0])) == 9
    seen = SLOTS * 300 * NS + defects.jitter_ns(NODES, SLOTS) + skew
    assert (np.diff(seen, axis=1) > 270 * NS).all()
    assert (seen > SLOTS * 300 * NS).all()
    assert (defects.latency_ns(NODES, SLOTS) > 0).all()


def test_stale_and_doubled_polls_are_rare() -> None:
    """About one in 2,000 polls repeats old values, about one in 3,000 comes twice."""
    defects = Defects(SPEC)
    assert 0.0003 < defects.is_stale(NODES, SLOTS).mean() < 0.0007
    assert 0.0002 < defects.is_doubled(NODES, SLOTS).mean() < 0.0004


def test_without_defects_every_poll_is_there() -> None:
    """The knob switches all of them off."""
    defects = Defects(WorldSpec.show(defects=False))
    for found in (defects.is_lost, defects.is_gap, defects.is_stale, defects.is_doubled, defects.skew_ns):
        assert not np.any(found(NODES, SLOTS))
