"""Every command explains itself, and the node agent stays light."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from forewarn.cli import app
from ingest.errors import ConfigError


def leaves(command: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    children = getattr(command, "commands", {})
    return [leaf for name, child in children.items() for leaf in leaves(child, (*path, name))] if children else [path]


@pytest.mark.parametrize("path", leaves(typer.main.get_command(app)), ids=" ".join)
def test_help_shows_an_example(path: tuple[str, ...]) -> None:
    """`--help` of each command says what it does and shows how it is called."""
    shown = CliRunner().invoke(app, [*path, "--help"])
    assert shown.exit_code == 0
    assert f"Example: forewarn {' '.join(path)}" in " ".join(shown.output.split())


def test_config_check_prints_json_and_fails_on_mistakes() -> None:
    """`config check --json` is machine-readable, and its exit code says whether the file can be used."""
    good = CliRunner().invoke(app, ["config", "check", "--json"])
    assert (good.exit_code, '"mistakes": []' in good.output) == (0, True)
    bad = CliRunner().invoke(app, ["config", "check"], env={"FOREWARN__WRITE__MAX_ROW": "3"})
    assert bad.exit_code == 2
    assert "did you mean write.max_rows?" in bad.output


@pytest.mark.parametrize(
    "module", ["forewarn.cli", "forewarn.collecting", "ingest.collector", "ingest.kafka_bus", "ingest.nvml", "ingest.exporter"]
)
def test_the_node_agent_loads_nothing_heavy(module: str) -> None:
    """What `forewarn collect` runs imports no pyarrow, duckdb, numpy or lightgbm."""
    loaded = f"{module}, ingest.kernel_log, ingest.redfish.source, ingest.jobs, forewarn.compose"
    code = f"import sys, {loaded}; print([m for m in HEAVY if m in sys.modules])"
    heavy = "HEAVY = ('pyarrow', 'deltalake', 'duckdb', 'numpy', 'pandas', 'polars', 'sklearn', 'lightgbm');"
    done = subprocess.run([sys.executable, "-c", heavy + code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["alert", "--at", "2026-01-01"], "--once"),
        (["alert", "--once", "--at", "2999-01-01"], "is not between 1970 and 2200"),
        (["score", "--at", "0001-01-01"], "is not between 1970 and 2200"),
        (["train", "--cutoff", "xx"], "--cutoff = 'xx'"),
        (["features", "--grid-h", "nan"], "--grid-h nan"),
        (["features", "--since", "2026-02-01", "--until", "2026-01-01"], "a --since before --until"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(arguments: list[str], said: str) -> None:
    """Nothing is done for a time that is none, or for a look at the past that would decide live."""
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, ConfigError)
    assert said in str(result.exception)


def test_inspect_of_no_file_is_a_usage_error(tmp_path: Path) -> None:
    """A file that is not there, or a folder, is named."""
    for path in (tmp_path, tmp_path / "nofile"):
        result = CliRunner().invoke(app, ["inspect", "exporter", str(path)])
        assert result.exit_code == 2
        assert "Traceback" not in result.output


def test_logs_never_mix_with_results() -> None:
    """A command prints its result alone on standard output; log lines are JSON on standard error."""
    code = "from forewarn.logs import configure_logs; configure_logs(); import structlog; structlog.get_logger().info('said', node='n1')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert '"event":"said"' in done.stderr
    assert '"node":"n1"' in done.stderr
