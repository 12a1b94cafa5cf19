"""Every command explains itself, and the node agent stays light."""

import subprocess
import sys
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from forewarn.cli import app


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


def test_logs_never_mix_with_results() -> None:
    """A command prints its result alone on standard output; log lines are JSON on standard error."""
    code = "from forewarn.logs import configure_logs; configure_logs(); import structlog; structlog.get_logger().info('said', node='n1')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert '"event":"said"' in done.stderr
    assert '"node":"n1"' in done.stderr
