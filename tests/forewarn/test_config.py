"""The configuration refuses what it cannot use, in one line that names key, file and mend."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from emulators.bmc.certificates import Authority
from forewarn.cli import app
from forewarn.config import all_items, all_keys, check, load
from forewarn.lake_tables import all_tables
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
    config, mistakes, _ = check(file, {})
    assert config is None
    assert mistakes == [
        f"{file}: collect.interval_s = '10s': give a plain number of seconds",
        f"{file}: collect.intervall_s: no such key; did you mean collect.interval_s?",
        f"{file}: alert.mode = 'loud': input should be 'shadow', 'advise' or 'enforce'",
        f"{file}: lakee: no such key; did you mean lake?",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[collect.redfish]]\npasword = "x"\n', "collect.redfish.0.pasword: no such key; did you mean collect.redfish.0.password_file?"),
        ('[[collect.nvml]]\n[[collect.nvml]]\nnod = "n2"\n', "collect.nvml.1.nod: no such key; did you mean collect.nvml.1.node?"),
        ("[[collect.redfish]]\ncolour = 1\n", "collect.redfish.0.colour: no such key"),
        ("[alert.budget]\nfleet_mx = 3\n", "alert.budget.fleet_mx: no such key; did you mean alert.budget.fleet_max?"),
        ("[alert.budgt]\n", "alert.budgt: no such key; did you mean alert.budget?"),
        ("interval_s = 3\n", "interval_s: no such key; did you mean collect.interval_s?"),
    ],
)
def test_the_nearest_key_of_the_same_table_is_named(tmp_path: Path, text: str, said: str) -> None:
    """A typo inside a list's item is held against the keys of that item, any other against those around it."""
    file = written(tmp_path, text)
    assert f"{file}: {said}" in check(file, {}).mistakes


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
    _, mistakes, _ = check(file, {})
    assert mistakes == [
        f"{file}: alert.secret_file = '{missing}': cannot be read: create the file or mend its permissions",
        f"{file}: alert.ack_secrets.slurm = '{missing}': cannot be read: create the file or mend its permissions",
    ]


@pytest.mark.parametrize("text", ["", "short", "whsec_!!notbase64", "whsec_c2hvcnQ=", "\N{LATIN SMALL LETTER E WITH ACUTE}"])
def test_a_secret_that_cannot_sign_is_named(tmp_path: Path, text: str) -> None:
    """A delivery that could never succeed is found before anything starts."""
    secret = tmp_path / "webhook.secret"
    secret.write_text(text, encoding="utf-8")
    _, mistakes, _ = check(written(tmp_path, f'[alert]\nsecret_file = "{secret}"\n'), {})
    assert len(mistakes) == 1
    assert f"alert.secret_file: {secret} must hold secrets" in mistakes[0]


def test_a_missing_or_broken_file_is_told(tmp_path: Path) -> None:
    """A file that is not there, or is not TOML, gives one line."""
    assert "cannot be read" in check(tmp_path / "none.toml", {})[1][0]
    assert "is not TOML" in check(written(tmp_path, "[collect"), {})[1][0]


def test_every_setting_says_what_it_means() -> None:
    """No key of the reference lacks a description."""
    of_items = {f"{key}.{name}": declared for key, item in all_items().items() for name, declared in item.model_fields.items()}
    assert {"collect.nvml.node", "collect.redfish.password_file"} <= of_items.keys()
    assert [key for key, declared in (all_keys() | of_items).items() if not declared.description] == []


def test_a_wrong_type_hides_no_other_mistake(tmp_path: Path) -> None:
    """Types, ranges, addresses, horizons, tables, files and keys that are missing are all told in one run, with the mend."""
    text = """
[fleet]
state_dir = "{here}/state"
[lake.keep_days]
gpu_sample = 3
[collect]
interval_s = 0
deadline_s = "2s"
[collect.exporter]
n1 = "n1:9400/metrics"
n2 = "http://n2:9400/metrics"
n3 = "http://n3:port/metrics"
[[collect.redfish]]
url = "bmc1"
password_file = "{here}/nowhere"
[train]
horizons_h = [24, 6]
[alert]
webhook_url = "ftp://host/hook"
secret_file = "{here}/nowhere"
"""
    file = written(tmp_path, text.replace("{here}", str(tmp_path)))
    config, mistakes, warnings = check(file, {})
    assert (config, warnings) == (None, [])
    assert [mistake.removeprefix(f"{file}: ").replace(str(tmp_path), "HERE") for mistake in mistakes] == [
        "collect.interval_s = 0: input should be greater than or equal to 1, in seconds",
        "collect.deadline_s = '2s': give a plain number of seconds",
        "collect.exporter.n1 = 'n1:9400/metrics': give an address like https://host:port/path",
        "collect.exporter.n3 = 'http://n3:port/metrics': give an address like https://host:port/path",
        "collect.redfish.0.node: is missing: add it",
        "collect.redfish.0.url = 'bmc1': give an address like https://host:port/path",
        "train.horizons_h = [24, 6]: give hours above zero, each more than the one before",
        "alert.webhook_url = 'ftp://host/hook': give an address like https://host:port/path",
        "collect.redfish.0.password_file = 'HERE/nowhere': cannot be read: create the file or mend its permissions",
        "alert.secret_file = 'HERE/nowhere': cannot be read: create the file or mend its permissions",
        f"lake.keep_days.gpu_sample: no table is called 'gpu_sample': use one of {', '.join(sorted(all_tables()))}",
    ]


@pytest.mark.parametrize("hours", ["[]", "[0, 1]", "[-1]", "[1, 1]", "[inf]", "[nan]"])
def test_horizons_that_are_none_are_refused(tmp_path: Path, hours: str) -> None:
    """No horizon, one that is not above zero, one twice, or one without end."""
    _, mistakes, _ = check(written(tmp_path, f"[train]\nhorizons_h = {hours}\n"), {})
    assert len(mistakes) == 1
    assert "train.horizons_h" in mistakes[0]


@pytest.mark.parametrize("value", ["3", "'x'", "[1]"])
def test_a_section_that_is_no_table_is_told_under_an_environment_too(tmp_path: Path, value: str) -> None:
    """What the environment would set in it changes nothing of the one line."""
    file = written(tmp_path, f"fleet = {value}\n")
    _, mistakes, _ = check(file, {"FOREWARN__FLEET__CLUSTER": "dc1", "FOREWARN__ALERT__BUDGET__FLEET_MAX": "3"})
    assert len(mistakes) == 1
    assert mistakes[0].startswith(f"{file}: fleet = ")
    assert mistakes[0].endswith("is a table: write its keys under [fleet]")


def test_what_may_come_yet_is_a_warning(tmp_path: Path) -> None:
    """A kernel log that is not there and a folder that cannot be made stop nothing before it is their turn."""
    (tmp_path / "taken").write_text("")
    file = written(tmp_path, f'[fleet]\nstate_dir = "{tmp_path}/taken/state"\n[collect.kernel_log]\nn1 = "{tmp_path}/kmsg"\n')
    config, mistakes, warnings = check(file, {})
    assert (config is not None, mistakes) == (True, [])
    assert [warning.removeprefix(f"{file}: ").replace(str(tmp_path), "HERE") for warning in warnings] == [
        "collect.kernel_log.n1 = 'HERE/kmsg': is not there: nothing is read of it until it is",
        "fleet.state_dir = 'HERE/taken/state': HERE/taken is no folder that this user may write to",
    ]


@pytest.mark.parametrize("address", ["http://ctl:6820", "https://proxy/slurm", "unix:/run/slurmrestd.socket"])
def test_an_address_of_slurmrestd_is_one_of_two_kinds(tmp_path: Path, address: str) -> None:
    """A server on the network or a socket; the token's file is looked at like any other."""
    (tmp_path / "token").write_text("a.b.c")
    text = f'[collect]\nslurm_rest = "{address}"\nslurm_token_file = "{tmp_path / "token"}"\n'
    assert check(written(tmp_path, text), {}).mistakes == []


@pytest.mark.parametrize("address", ["unix:run/socket", "unix:", "ctl:6820", "ftp://ctl", "http://:6820"])
def test_no_other_address_is_taken_for_one_of_slurmrestd(tmp_path: Path, address: str) -> None:
    """The mend names both kinds."""
    file = written(tmp_path, f'[collect]\nslurm_rest = "{address}"\n')
    mend = "give an address like http://host:6820 or unix:/path"
    assert check(file, {}).mistakes == [f"{file}: collect.slurm_rest = '{address}': {mend}"]


def test_two_ways_to_the_scheduler_or_half_a_one_are_mistakes(tmp_path: Path) -> None:
    """Commands beside slurmrestd would say each job twice over; over TCP slurmrestd takes nobody without a token, over a socket it may."""
    file = written(tmp_path, '[collect]\nslurm_rest = "http://ctl:6820"\nsacct = ["sacct"]\n')
    assert check(file, {}).mistakes == [
        f"{file}: collect.slurm_rest = 'http://ctl:6820': the jobs are read by commands too: take out collect.squeue and collect.sacct",
        f"{file}: collect.slurm_token_file: is missing: slurmrestd asks for a token over TCP",
    ]
    assert check(written(tmp_path, '[collect]\nslurm_rest = "unix:/run/socket"\n'), {}).mistakes == []


def test_the_example_of_the_documents_can_be_used(tmp_path: Path) -> None:
    """With its files in place `config check` finds nothing in docs/example.toml, which shows both tables that come several times."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "example.toml").read_text()
    for name in ("bmc.password", "kmsg"):
        (tmp_path / name).write_text("x\n")
    Authority(tmp_path, datetime.now(UTC)).create().path.rename(tmp_path / "bmc-ca.pem")
    for name in ("webhook.secret", "slurm.secret"):
        (tmp_path / name).write_text("whsec_" + "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=" + "\n")
    for folder in ("/etc/forewarn", "/var/lib/forewarn", "/dev"):
        text = text.replace(f'"{folder}/', f'"{tmp_path}/')
    file = written(tmp_path, text)
    done = CliRunner().invoke(app, ["config", "check", "--config", str(file), "--json"])
    assert (done.exit_code, json.loads(done.output)) == (0, {"file": str(file), "mistakes": [], "warnings": []})
    config = load(file, {})
    assert (len(config.collect.nvml), len(config.collect.redfish), config.alert.mode) == (1, 2, "shadow")
