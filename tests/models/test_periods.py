"""Person-period rows say who was at risk for how long, and nothing from after the cutoff gets into them."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.periods import at_risk, count_failures_once, expand, node_folds, outcomes, sample_negatives, with_part_failures

T0 = datetime(2026, 1, 1, tzinfo=UTC)
HORIZONS = (1.0, 6.0, 24.0, 168.0)


def hours(h):
    return T0 + timedelta(hours=h)


def landmarks(*at, unit="g", node="n"):
    return pl.DataFrame({"node": [node] * len(at), "unit": [unit] * len(at), "as_of": [hours(h) for h in at], "x": [0.0] * len(at)})


def episodes(*rows):
    """Rows are (started, ended, ended_by, mode, known) in hours, for unit g of node n."""
    return pl.DataFrame(
        {
            "unit": ["g"] * len(rows),
            "node": ["n"] * len(rows),
            "started_at": [hours(r[0]) for r in rows],
            "ended_at": [hours(r[1]) for r in rows],
            "ended_by": [r[2] for r in rows],
            "mode": pl.Series([r[3] for r in rows], dtype=pl.String),
            "known_at": [hours(r[4]) for r in rows],
        }
    )


def test_exposure_fills_the_bins_up_to_the_failure():
    """A unit that fails 10 h after its landmark was at risk 1, 5 and 4 h in the first three bins and failed in the third."""
    rows = at_risk(landmarks(0), episodes((0, 10, "failure", "hbm_ue", 10)), hours(500))
    periods = expand(rows, HORIZONS)
    assert periods.exposure_h.tolist() == [1.0, 5.0, 4.0]
    assert periods.failed.tolist() == [False, False, True]
    assert rows["failed_as"].to_list() == ["hbm_ue"]


def test_a_failure_at_a_bin_edge_belongs_to_the_bin_it_ends():
    """Bins are (0, 1], (1, 6], ...: a failure after exactly 6 h is in the second, and no empty row follows."""
    periods = expand(at_risk(landmarks(0), episodes((0, 6, "failure", "x", 6)), hours(500)), HORIZONS)
    assert periods.bin.tolist() == [0, 1]
    assert periods.failed.tolist() == [False, True]


def test_no_row_reaches_past_the_cutoff():
    """A failure after the cutoff is unknown: the exposure is cut and nothing has failed."""
    rows = at_risk(landmarks(0, 5), episodes((0, 10, "failure", "x", 10)), hours(8))
    assert rows["followed_h"].to_list() == [8.0, 3.0]
    assert rows["ended_by"].to_list() == ["cutoff", "cutoff"]
    assert not expand(rows, HORIZONS).failed.any()


def test_a_failure_not_known_by_the_cutoff_is_no_failure():
    """It happened before the cutoff and was reported after it: the label may not be used."""
    rows = at_risk(landmarks(0), episodes((0, 10, "failure", "x", 50)), hours(20))
    assert rows["failed_as"].to_list() == [None]
    assert rows["followed_h"].to_list() == [10.0]


def test_landmarks_outside_episodes_are_not_at_risk():
    """Time in repair, before commissioning and at the very moment of failure is no exposure."""
    spans = episodes((2, 10, "failure", "x", 10), (20, 30, "data_end", None, 30))
    rows = at_risk(landmarks(0, 2, 9, 10, 15, 20, 30), spans, hours(30))
    assert [(at - T0).total_seconds() / 3600 for at in rows["as_of"]] == [2, 9, 20]


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 60))
def test_what_happens_after_the_cutoff_changes_nothing(end, other_end, cutoff):
    """Two worlds that agree up to the cutoff give the same rows."""
    after = [cutoff + end, cutoff + other_end]
    rows = [at_risk(landmarks(*range(0, 60, 7)), episodes((0, e, "failure", f"m{e}", e)), hours(cutoff)) for e in after]
    assert rows[0].equals(rows[1])


@given(st.floats(0.01, 400), st.booleans())
def test_exposures_add_up_to_the_time_followed(followed, has_failed):
    """Bins share out the follow-up up to the last horizon, and at most one of them holds the failure."""
    rows = pl.DataFrame({"followed_h": [followed], "failed_as": pl.Series(["x" if has_failed else None], dtype=pl.String), "weight": [1.0]})
    periods = expand(rows, HORIZONS)
    assert periods.exposure_h.sum() == pytest.approx(min(followed, 168.0))
    assert periods.failed.sum() == int(has_failed and followed <= 168.0)
    assert (periods.exposure_h > 0).all()


def test_extra_landmarks_share_the_time_they_split():
    """Dense landmarks before a failure weigh as much together as the one they refine, so rates stay unbiased."""
    rows = at_risk(landmarks(0, 6, 12, 15, 17, 17.75, 18, 24, 30, 36, 42), episodes((0, 100, "data_end", None, 100)), hours(100))
    weight = dict(zip([round((at - T0).total_seconds() / 3600, 2) for at in rows["as_of"]], rows["weight"], strict=True))
    assert weight[0] == 1.0
    assert weight[12] + weight[15] + weight[17] + weight[17.75] == pytest.approx(1.0)


def test_negative_sampling_keeps_failures_and_weighted_exposure():
    """A tenth of the negatives at tenfold weight carries the exposure of all, within its sampling error."""
    rows = pl.DataFrame(
        {"followed_h": [5.0] * 20_000, "failed_as": pl.Series(["x"] * 100 + [None] * 19_900, dtype=pl.String), "weight": [1.0] * 20_000}
    )
    periods = expand(rows, (6.0,))
    kept = sample_negatives(periods, 0.1, np.random.default_rng(1))
    assert kept.failed.sum() == 100
    assert len(kept.bin) < 2500
    assert (kept.weight * kept.exposure_h).sum() == pytest.approx(100_000, rel=0.03)


def test_long_bins_do_not_count_a_failure_once_per_landmark():
    """With landmarks 6 h apart a row of the 18 h bin weighs a third and one of the 1 h bin is whole."""
    rows = at_risk(landmarks(*range(0, 60, 6)), episodes((0, 1000, "data_end", None, 1000)), hours(1000))
    periods = count_failures_once(expand(rows, HORIZONS), rows, HORIZONS)
    assert periods.weight[periods.bin == 0].tolist() == [1.0] * 10
    assert periods.weight[periods.bin == 2] == pytest.approx(np.full(10, 1 / 3))


def test_folds_keep_a_node_together():
    """No node is on both sides of a fold."""
    nodes = pl.Series([f"n{i % 17}" for i in range(500)])
    fold = node_folds(nodes, 3, seed=2)
    assert set(fold) == {0, 1, 2}
    assert all(len(set(fold[(nodes == n).to_numpy()])) == 1 for n in nodes.unique())


def test_outcomes_tell_removed_units_from_unknown_ones():
    """Within 24 h: failed, followed, cut off by the end of data, and removed before it could fail."""
    rows = pl.DataFrame(
        {
            "followed_h": [10.0, 24.0, 5.0, 5.0],
            "failed_as": pl.Series(["x", None, None, None], dtype=pl.String),
            "ended_by": ["failure", "cutoff", "data_end", "removed"],
        }
    )
    found = outcomes(rows, 24.0)
    assert found.is_known.tolist() == [True, True, False, False]
    assert found.failed.tolist() == [True, False, False, False]
    assert found.is_removed.tolist() == [False, False, False, True]


def test_a_node_fails_with_its_first_part():
    """A GPU's failure ends the node's follow-up; a later one does not count before it."""
    node_rows = at_risk(landmarks(0, 12, unit="n"), episodes((0, 100, "data_end", None, 100)).with_columns(unit=pl.lit("n")), hours(100))
    failed = with_part_failures(node_rows, episodes((0, 10, "failure", "nvlink", 10), (11, 40, "failure", "hbm_ue", 40)), hours(100))
    assert failed["followed_h"].to_list() == [10.0, 28.0]
    assert failed["failed_as"].to_list() == ["nvlink", "hbm_ue"]
    assert failed["failure"].n_unique() == 2
