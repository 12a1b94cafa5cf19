"""A command whose extra is not installed says so in one line, and the command says its own version."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from emulators.nvml.build import CompilerMissing
from emulators.nvml.header import HeaderMissing
from forewarn.cli import app
from forewarn.extras import EXTRA_OF_MODULE, build_tools_named, what_to_install
from ingest.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
MODULE_OF_PACKAGE = {"scikit-learn": "sklearn"}  # others are called as their package
WITHOUT_MODULE = {"nvidia-nvml-dev"}  # a header alone
WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
sys.argv = ["forewarn", *{arguments!r}]
from forewarn.cli import main
main()
"""


def run_without(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = WITHOUT.format(module=module, arguments=arguments)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_every_package_of_an_extra_is_known() -> None:
    """The table names each package of pyproject.toml's extras with an extra that brings it, and no other."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    brought = {
        (MODULE_OF_PACKAGE.get(name, name.replace("-", "_")), extra)
        for extra, needs in extras.items()
        for name in (re.split(r"[\[>=]", need)[0] for need in needs)
        if name not in {"forewarn", *WITHOUT_MODULE}
    }
    assert {module for module, _ in brought} == EXTRA_OF_MODULE.keys()
    assert set(EXTRA_OF_MODULE.items()) <= brought


def test_the_extra_of_a_missing_package_is_named() -> None:
    """The line can be pasted into a shell from its command on."""
    assert what_to_install("duckdb") == (
        "duckdb is not installed, which this command needs: pip install 'forewarn[lake]', or 'forewarn[all]' for every command"
    )


@pytest.mark.parametrize("module", [None, "", "kafka", "forewarn.nowhere", "pyarrow.nowhere"])
def test_what_no_extra_brings_is_left_alone(module: str | None) -> None:
    """A package of the bare installation, one of ours, or a part of a package that is there, is a fault to be seen whole."""
    assert what_to_install(module) is None


def test_a_command_without_its_extra_ends_with_one_line() -> None:
    """Where a package is not installed the command says what to install and ends as with a configuration that cannot be used."""
    done = run_without("duckdb", "lake", "stats")
    assert (done.returncode, done.stderr) == (2, f"{what_to_install('duckdb')}\n")


def test_any_other_missing_module_is_seen_whole() -> None:
    """What should be there and is not stays a traceback."""
    done = run_without("forewarn.status", "status")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "No module named 'forewarn.status'" in done.stderr


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (HeaderMissing("nvml.h is not installed; run: pip install nvidia-nvml-dev"), "pip install 'forewarn[emulators]'"),
        (CompilerMissing("no C compiler named cc; install gcc or clang"), "install gcc or clang"),
    ],
)
def test_what_the_emulated_library_needs_is_named(missing: Exception, said: str) -> None:
    """Without the header or a compiler there is a mend instead of a traceback."""
    with pytest.raises(ConfigError, match=re.escape(said)), build_tools_named():
        raise missing


@pytest.mark.nvml
def test_a_machine_without_compiler_gets_one_line(tmp_path: Path, nvml_cache: Path) -> None:
    """`forewarn emulate nvml` says in one line that there is no compiler."""
    done = subprocess.run(
        [sys.executable, "-m", "forewarn", "emulate", "nvml", "--directory", str(tmp_path / "nvml")],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")},
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "no C compiler named cc" in done.stderr


def test_the_command_says_its_version() -> None:
    """`--version` prints the version that is installed and ends with 0."""
    shown = CliRunner().invoke(app, ["--version"])
    assert (shown.exit_code, shown.output) == (0, f"forewarn {version('forewarn')}\n")


@pytest.mark.nvml
def test_the_steps_that_help_shows_can_be_inspected(tmp_path: Path, nvml_cache: Path) -> None:
    """The file in the help of `inspect nvml` is one, and of eight GPUs one is lost after it."""
    shown = CliRunner().invoke(app, ["inspect", "nvml", "--help"]).output
    file = tmp_path / "lost-gpu.json"
    file.write_text(re.findall(r"^ +(\{.*?^ +\]\})$", shown, re.DOTALL | re.MULTILINE)[0])
    done = CliRunner().invoke(app, ["inspect", "nvml", str(file)])
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in done.output.splitlines()]
    lost = {(row["poll"], row["gpu_uuid"]) for row in rows if row["table"] == "gpu_samples" and row["quality"].get("temp_c") == "lost"}
    assert lost == {(1, "GPU-00000003-0000-4000-8000-000000000000"), (2, "GPU-00000003-0000-4000-8000-000000000000")}
