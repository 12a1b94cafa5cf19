"""Reasons name what raised a unit's risk, in words with the value, the usual value, unit and window."""

import json
import re

import numpy as np
import pytest

from features.schema import FEATURES, Feature
from models.explain import as_json, explain, summarise
from models.fitting import Settings, fit_model


@pytest.fixture(scope="module")
def trained(known_fleet):
    settings = Settings(catalogue=known_fleet.catalogue)
    return fit_model(known_fleet.material, settings, until=known_fleet.end, name="h", label_origin="synthetic").scopes["gpu"]


def test_the_burst_is_the_reason(trained, known_fleet):
    """A GPU in a burst is explained by its corrected errors, with value, the fleet's usual value and the feature's unit."""
    rows = known_fleet.material.landmarks["gpu"]
    burst = rows.sort("ce_6h", descending=True)[:3]
    by_name = {f.name: f for f in known_fleet.catalogue}
    matrix = trained.hazard.matrix(burst)
    reasons = explain(trained, by_name, matrix, trained.hazards(matrix), burst["unit"].to_list())
    for row, given in zip(burst.iter_rows(named=True), reasons, strict=True):
        assert given[0].code == "ecc.ce_6h"
        assert given[0].value == pytest.approx(row["ce_6h"], rel=1e-6)
        assert given[0].baseline == 0.0
        assert given[0].contribution > 0.5
        assert given[0].component == row["unit"]
        assert "corrected memory errors, last 6 h" in given[0].summary


def test_a_quiet_unit_has_no_strong_reason(trained, known_fleet):
    """Without a burst nothing raises the hazard much."""
    quiet = known_fleet.material.landmarks["gpu"].filter(known_fleet.material.landmarks["gpu"]["ce_6h"] == 0)[:5]
    matrix = trained.hazard.matrix(quiet)
    reasons = explain(trained, {f.name: f for f in known_fleet.catalogue}, matrix, trained.hazards(matrix), quiet["unit"].to_list())
    assert all(reason.contribution < 0.5 for given in reasons for reason in given)


@pytest.mark.parametrize("feature", FEATURES, ids=lambda f: f"{f.scope}.{f.name}")
def test_every_feature_can_be_a_reason(feature):
    """Code and summary of any feature fit the webhook's schema."""
    assert re.fullmatch(r"[a-z0-9_.]+", f"{feature.family}.{feature.name}")
    assert len(summarise(feature, 1.5, 0.25, "GPU-5c89b8a2-1f00-4f0e-9a45-0d2c3b6f7a11")) <= 300


def test_words():
    """Counts carry no unit, flags say yes or no, and what was not reported is not zero."""
    count = Feature("a", "ecc", "gpu", "count", "P7D", (), "row remaps")
    flag = Feature("b", "ecc", "gpu", "0 or 1", "", (), "a remap waits")
    heat = Feature("c", "thermal", "gpu", "°C", "PT6H", (), "core above peers")
    assert summarise(count, 12.0, 0.0, "g") == "g: row remaps, last 7 d: 12 (usual in the fleet: 0)"
    assert summarise(flag, 1.0, 0.0, "g") == "g: a remap waits: yes (usual in the fleet: no)"
    assert summarise(heat, None, 0.5, "g") == "g: core above peers, last 6 h: not reported (usual in the fleet: 0.5 °C)"


def test_json_is_what_the_webhook_takes(trained, known_fleet):
    """A list of objects with numbers or null, never NaN."""
    rows = known_fleet.material.landmarks["gpu"].sort("ce_6h", descending=True)[:1]
    matrix = trained.hazard.matrix(rows)
    (given,) = explain(trained, {f.name: f for f in known_fleet.catalogue}, matrix, trained.hazards(matrix), ["g"])
    decoded = json.loads(as_json(given))
    assert decoded[0]["window"] == "PT6H"
    assert all(np.isfinite(reason["contribution"]) for reason in decoded)
