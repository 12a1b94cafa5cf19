"""A model directory is whole or refused; the pointer moves in one step and only to a model that can be used."""

from dataclasses import replace

import pytest

from ingest.errors import ModelRefused
from models.fitting import Settings, fit_model
from models.hazard import Recipe
from models.store import Store, features_hash
from models.trees import Growth

DOCUMENTS = {"metrics.json": "{}", "data.json": "{}", "card.md": "# a\n"}


@pytest.fixture(scope="module")
def model(known_fleet):
    settings = Settings(catalogue=known_fleet.catalogue, recipe=Recipe(growth=Growth(rounds=10)))
    return fit_model(known_fleet.material, settings, until=known_fleet.end, name="hazard", label_origin="synthetic")


@pytest.fixture
def store(tmp_path, known_fleet):
    return Store(tmp_path, "hazard", known_fleet.catalogue)


def two_versions(store, model, known_fleet):
    first = store.save(model, DOCUMENTS, known_fleet.end)
    second = store.save(model, {**DOCUMENTS, "card.md": "# b\n"}, known_fleet.end)
    return first.version, second.version


def test_what_is_loaded_scores_like_what_was_saved(store, model, known_fleet):
    """Hazards, calibration and everything else come back the same."""
    saved = store.save(model, DOCUMENTS, known_fleet.end)
    loaded = store.load(saved.version)
    assert loaded == saved
    rows = known_fleet.material.landmarks["gpu"][:50]
    assert (loaded.scopes["gpu"].hazards_of(rows) == model.scopes["gpu"].hazards_of(rows)).all()


def test_the_directory_is_text(store, model, known_fleet):
    """LightGBM text and JSON, a card and checksums: nothing that only this code can open."""
    version = store.save(model, DOCUMENTS, known_fleet.end).version
    names = {file.name for file in (store.path / version).iterdir()}
    assert names >= {
        "model.json",
        "calibrator.json",
        "features.json",
        "metrics.json",
        "data.json",
        "card.md",
        "SHA256SUMS",
        "gpu.hbm_ue.txt",
    }
    assert (store.path / version / "gpu.hbm_ue.txt").read_text().startswith("tree\n")


def test_the_same_model_is_the_same_version(store, model, known_fleet):
    """Saving twice leaves one version: its name comes from its bytes."""
    assert store.save(model, DOCUMENTS, known_fleet.end).version == store.save(model, DOCUMENTS, known_fleet.end).version
    assert len(store.versions()) == 1


def test_promote_and_roll_back(store, model, known_fleet):
    """Rolling back returns to the version before, and no further than there is one."""
    first, second = two_versions(store, model, known_fleet)
    store.promote(first)
    store.promote(second)
    assert store.load().version == second
    assert store.rollback().version == first
    assert store.current() == first
    with pytest.raises(ModelRefused, match="no earlier version"):
        store.rollback()


def test_nothing_in_use_is_said(store):
    """A reader learns what to do."""
    with pytest.raises(ModelRefused, match="train one or promote one"):
        store.load()


@pytest.mark.parametrize("file", ["gpu.hbm_ue.txt", "calibrator.json", "card.md"])
def test_a_changed_file_is_refused_and_the_pointer_stays(store, model, known_fleet, file):
    """One changed byte anywhere, and the version is not promoted."""
    first, second = two_versions(store, model, known_fleet)
    store.promote(first)
    damaged = store.path / second / file
    damaged.write_text(damaged.read_text() + " ")
    with pytest.raises(ModelRefused, match="checksum"):
        store.promote(second)
    assert store.current() == first


def test_a_missing_file_is_refused(store, model, known_fleet):
    """A directory that was copied in part is no model."""
    version = store.save(model, DOCUMENTS, known_fleet.end).version
    (store.path / version / "gpu.hbm_ue.txt").unlink()
    with pytest.raises(ModelRefused, match=r"gpu\.hbm_ue\.txt"):
        store.load(version)


def test_other_feature_definitions_are_refused_by_name(store, model, known_fleet, tmp_path):
    """A feature whose window changed means something else under the same name."""
    version = store.save(model, DOCUMENTS, known_fleet.end).version
    changed = tuple(replace(f, window="PT1H") if f.name == "ce_6h" else f for f in known_fleet.catalogue)
    with pytest.raises(ModelRefused, match=r"ce_6h \(defined otherwise\)"):
        Store(tmp_path, "hazard", changed).load(version)
    gone = tuple(f for f in known_fleet.catalogue if f.name != "ce_6h")
    with pytest.raises(ModelRefused, match=r"ce_6h \(gone\)"):
        Store(tmp_path, "hazard", gone).load(version)


def test_features_that_the_model_does_not_use_may_change(store, model, known_fleet, tmp_path):
    """A new precursor in the code does not take the last good model away."""
    version = store.save(model, DOCUMENTS, known_fleet.end).version
    more = (*known_fleet.catalogue, replace(known_fleet.catalogue[0], name="new_one"))
    assert Store(tmp_path, "hazard", more).load(version).version == version


def test_trees_that_lightgbm_cannot_read_are_refused(store, model, known_fleet):
    """A text from a future format is refused with the modes it was for, even where its checksum holds."""
    part = replace(model.scopes["gpu"].hazard.parts[0], text="forest\nversion=v9\n")
    hazard = replace(model.scopes["gpu"].hazard, parts=(part,))
    broken = replace(model, scopes={"gpu": replace(model.scopes["gpu"], hazard=hazard)})
    version = store.save(broken, DOCUMENTS, known_fleet.end).version
    with pytest.raises(ModelRefused, match="LightGBM"):
        store.load(version)


def test_a_reader_keeps_what_it_holds_when_the_new_one_is_refused(store, model, known_fleet):
    """The last good model stays in use; without one the refusal is raised."""
    first, second = two_versions(store, model, known_fleet)
    store.promote(first)
    held = store.refresh(None)
    assert store.refresh(held) is held
    store.promote(second)
    (store.path / second / "calibrator.json").write_text("{}")
    assert store.refresh(held) is held
    with pytest.raises(ModelRefused):
        store.refresh(None)


def test_the_hash_names_the_definitions(known_fleet):
    """Order and definition count."""
    assert features_hash(known_fleet.catalogue) != features_hash(known_fleet.catalogue[::-1])
