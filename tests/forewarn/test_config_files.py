"""Files that a configuration names and that are not what they are named for: one line each, and no traceback."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from emulators.bmc.certificates import Authority
from forewarn.config import check, load
from forewarn.named_files import secret
from ingest.errors import ConfigError

BINARY = b"\xff\xfe\x00\x80"
BMC = '[[collect.redfish]]\nnode = "n1"\nurl = "https://bmc"\nusername = "u"\npassword_file = "{here}/password"\nca_file = "{here}/ca"\n'


def mistakes(here: Path, text: str) -> list[str]:
    file = here / "forewarn.toml"
    file.write_text(text.replace("{here}", str(here)))
    return [mistake.removeprefix(f"{file}: ").replace(str(here), "HERE") for mistake in check(file, {}).mistakes]


def test_what_a_bmc_needs_is_loaded(tmp_path: Path) -> None:
    """An authority's certificate and a password in text are no mistakes; a binary password is one, a BMC's broken authority a warning."""
    Authority(tmp_path, datetime.now(UTC)).create().path.rename(tmp_path / "ca")
    (tmp_path / "password").write_text("s\u00e9same\n", encoding="utf-8")
    assert mistakes(tmp_path, BMC) == []
    (tmp_path / "ca").write_text("x\n")
    (tmp_path / "password").write_bytes(BINARY)
    assert mistakes(tmp_path, BMC) == [
        "collect.redfish.0.password_file: secret file HERE/password: is not UTF-8 text: write the secret alone into it"
    ]
    (warning,) = check(tmp_path / "forewarn.toml", {}).warnings
    assert f"collect.redfish.0.ca_file: {tmp_path}/ca: holds no certificate in PEM form" in warning
    assert warning.endswith("nothing is read of n1 until it is mended")


@pytest.mark.parametrize("content", [b"", b"x", BINARY, b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_what_is_no_authority_is_named(tmp_path: Path, content: bytes) -> None:
    """An empty, foreign, binary or damaged CA file of the brokers is found before they are asked."""
    (tmp_path / "ca").write_bytes(content)
    assert [mistake.partition(" (")[0] for mistake in mistakes(tmp_path, '[bus]\nca_file = "{here}/ca"\n')] == [
        "bus.ca_file: HERE/ca: holds no certificate in PEM form"
    ]


@pytest.mark.parametrize(
    ("section", "key"), [("bus", "ca_file"), ("bus", "password_file"), ("alert", "secret_file"), ("collect", "xid_catalogue")]
)
def test_a_folder_or_no_name_in_place_of_a_file_is_named(tmp_path: Path, section: str, key: str) -> None:
    """A folder is not taken for a file, nor a name that no file can have."""
    assert mistakes(tmp_path, f'[{section}]\n{key} = "{{here}}"\n') == [f"{section}.{key} = 'HERE': is a folder: name a file"]
    (said,) = mistakes(tmp_path, f'[{section}]\n{key} = "a\\u0000b"\n')
    assert said.startswith(f"{section}.{key} = ")
    assert "can be no file" in said


@pytest.mark.parametrize("content", [BINARY, b"", b"code,use\n1,label\n"])
def test_a_catalogue_that_is_none_is_named(tmp_path: Path, content: bytes) -> None:
    """`config check` reads the catalogue."""
    (tmp_path / "xids.csv").write_bytes(content)
    (said,) = mistakes(tmp_path, '[collect]\nxid_catalogue = "{here}/xids.csv"\n')
    assert said.startswith("collect.xid_catalogue: XID catalogue HERE/xids.csv: ")


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("", "is a folder: name the log, such as /dev/kmsg"),
        ("/", "is a folder: name the log, such as /dev/kmsg"),
        ("/dev/zero", "is a device, and not that of the kernel log: name /dev/kmsg or a file"),
    ],
)
def test_a_kernel_log_that_can_be_none_is_named(tmp_path: Path, log: str, said: str) -> None:
    """An empty name, a folder and another device are mistakes; a log that is not there yet is none."""
    assert mistakes(tmp_path, f'[collect.kernel_log]\nkb = "{log}"\n') == [f"collect.kernel_log.kb = {str(Path(log))!r}: {said}"]
    assert mistakes(tmp_path, '[collect.kernel_log]\nkb = "{here}/kmsg"\n') == []


@pytest.mark.parametrize(
    "text",
    ["a = " + "[" * 5_000 + "]" * 5_000, "a = " + "{a=" * 5_000 + "1" + "}" * 5_000, ".".join("a" * 5_000) + " = 1"],
    ids=["lists", "tables", "dots"],
)
def test_a_file_nested_without_end_is_told(tmp_path: Path, text: str) -> None:
    """A nesting that cannot be followed is one line, here and where a command loads the file."""
    (said,) = mistakes(tmp_path, text)
    assert said.endswith("is nested too deep: a setting is a key of a table, or of a table of a list")
    with pytest.raises(ConfigError, match="nested too deep"):
        load(tmp_path / "forewarn.toml", {})


def test_a_number_without_end_is_told(tmp_path: Path) -> None:
    """A number of 5,000 digits is no TOML."""
    (said,) = mistakes(tmp_path, f"[collect]\ninterval_s = {'9' * 5000}\n")
    assert "is not TOML" in said


def test_a_secret_that_is_no_text_is_a_mistake(tmp_path: Path) -> None:
    """A password file that became binary after the check names itself where it is read."""
    (tmp_path / "password").write_bytes(BINARY)
    with pytest.raises(ConfigError, match="password: is not UTF-8 text"):
        secret(tmp_path / "password")
