"""The configuration refuses what it cannot use, in one line that names key, file and mend."""

from pathlib import Path

import pytest

from forewarn.config import all_keys, check, load
from ingest.errors import ConfigError


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "forewarn.toml"
    file.write_text(text)
    return file


def test_defaults_are_a_valid_configuration() -> None:
    """Without a file and without an environment there is nothing to complain about."""
    config = load(None, {})
    assert config.alert.mode == "shadow"
    assert config.train.horizons_h == [1.0, 6.0, 24.0, 168.0]


def test_every_mistake_is_found_at_once(tmp_path: Path) -> None:
    """An unknown key, a wrong unit, a wrong word and an unknown table are all told in one run."""
    file = written(tmp_path, '[collect]\nintervall_s = 3\ninterval_s = "10s"\n[alert]\nmode = "loud"\n[lakee]\n')
    config, mistakes = check(file, {})
    assert config is None
    assert mistakes == [
        f"{file}: collect.interval_s = '10s': give a plain number of seconds",
        f"{file}: collect.intervall_s: no such key; did you mean collect.interval_s?",
        f"{file}: alert.mode = 'loud': input should be 'shadow', 'advise' or 'enforce'",
        f"{file}: lakee: no such key",
    ]


def test_environment_wins_over_the_file_key_by_key(tmp_path: Path) -> None:
    """FOREWARN__SECTION__KEY overrides that key alone."""
    file = written(tmp_path, "[write]\nmax_rows = 5\nmax_age_s = 7\n")
    config = load(file, {"FOREWARN__WRITE__MAX_ROWS": "9", "FOREWARN__ALERT__BUDGET__FLEET_MAX": "3"})
    assert (config.write.max_rows, config.write.max_age_s, config.alert.budget.fleet_max) == (9, 7.0, 3)


def test_a_typo_in_the_environment_is_an_error() -> None:
    """A name that no setting has is refused, with the nearest one named."""
    with pytest.raises(ConfigError, match=r"FOREWARN__COLLECT__INTERVALL_S: no such setting.*collect\.interval_s"):
        load(None, {"FOREWARN__COLLECT__INTERVALL_S": "3"})


def test_an_unreadable_secret_file_is_named(tmp_path: Path) -> None:
    """A secret that cannot be read is told with its key and path."""
    missing = tmp_path / "nowhere"
    file = written(tmp_path, f'[alert]\nsecret_file = "{missing}"\n[alert.ack_secrets]\nslurm = "{missing}"\n')
    _, mistakes = check(file, {})
    assert mistakes == [
        f"{file}: alert.secret_file = '{missing}': cannot be read: create the file or mend its permissions",
        f"{file}: alert.ack_secrets.slurm = '{missing}': cannot be read: create the file or mend its permissions",
    ]


@pytest.mark.parametrize("text", ["", "short", "whsec_!!notbase64", "whsec_c2hvcnQ=", "\N{LATIN SMALL LETTER E WITH ACUTE}"])
def test_a_secret_that_cannot_sign_is_named(tmp_path: Path, text: str) -> None:
    """A delivery that could never succeed is found before anything starts."""
    secret = tmp_path / "webhook.secret"
    secret.write_text(text, encoding="utf-8")
    _, mistakes = check(written(tmp_path, f'[alert]\nsecret_file = "{secret}"\n'), {})
    assert len(mistakes) == 1
    assert f"alert.secret_file: {secret} must hold secrets" in mistakes[0]


def test_a_missing_or_broken_file_is_told(tmp_path: Path) -> None:
    """A file that is not there, or is not TOML, gives one line."""
    assert "cannot be read" in check(tmp_path / "none.toml", {})[1][0]
    assert "is not TOML" in check(written(tmp_path, "[collect"), {})[1][0]


def test_every_setting_says_what_it_means() -> None:
    """No key of the reference lacks a description."""
    assert [key for key, declared in all_keys().items() if not declared.description] == []
