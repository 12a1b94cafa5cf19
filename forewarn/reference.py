"""Print the references under docs/ from the code, and tell whether what is there has drifted: `python -m forewarn.reference [--check]`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import typer
from prometheus_client import REGISTRY
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from typer.testing import CliRunner

from features import schema as features_schema
from forewarn.config import ENV_PREFIX, all_items, all_keys
from forewarn.lake_tables import all_tables
from ingest import schema as ingest_schema

METRIC_MODULES = ("ingest.metrics", "alerting.metrics", "models.metrics", "features.metrics", "forewarn.analysis")


def tables() -> str:
    """Render docs/tables.md: every table of the lake with type, unit and meaning per column."""
    declared = all_tables().values()
    parts = [
        "# Tables of the lake",
        "",
        "A missing value is null, never zero; `quality` of a row names the code of each field that is not ok:",
        "",
    ]
    parts += [f"- `{code}`: {meaning}" for code, meaning in ingest_schema.QUALITY.items()]
    for table in declared:
        rows = [(f"`{c.name}`", c.type.replace("|", "\\|"), c.unit, c.meaning) for c in table.columns]
        parts += [
            "",
            f"## {table.name}",
            "",
            f"{table.meaning} Placed by `{table.time}`.",
            "",
            *_markdown(("column", "type", "unit", "meaning"), rows),
        ]
    return "\n".join(parts) + "\n"


def features() -> str:
    """Render docs/features.md: every feature with its window and the failure modes it is a precursor of."""
    parts = ["# Features", "", "A feature that cannot be computed is null, never zero."]
    for scope in ("gpu", "node"):
        rows = [
            (f"`{f.name}`", f.family, f.unit, f.window, ", ".join(f.precursor_of), f.meaning)
            for f in features_schema.FEATURES
            if f.scope == scope
        ]
        parts += ["", f"## Of a {scope.upper() if scope == 'gpu' else scope}", ""]
        parts += _markdown(("feature", "family", "unit", "window", "precursor of", "meaning"), rows)
    return "\n".join(parts) + "\n"


def metrics() -> str:
    """Render docs/metrics.md: every metric that a process of forewarn exposes."""
    for module in METRIC_MODULES:
        if importlib.util.find_spec(module):
            importlib.import_module(module)
    rows = sorted(
        (f"`{metric.name}`", metric.type, metric.documentation) for metric in REGISTRY.collect() if metric.name.startswith("forewarn_")
    )
    return "\n".join(["# Metrics", "", "Counters carry the suffix `_total`.", "", *_markdown(("metric", "type", "meaning"), rows)]) + "\n"


def configuration() -> str:
    """Render docs/configuration.md: every setting with its default, also of the tables that may come several times."""
    parts = [
        "# Configuration",
        "",
        f"One TOML file, one table per process. `{ENV_PREFIX}SECTION__KEY` in the environment wins over the file.",
        "[example.toml](example.toml) is a small one that is complete. A table in double brackets comes once for each item.",
    ]
    keys_of_table: dict[str, dict[str, FieldInfo]] = {}
    for key, declared in all_keys().items():
        section, _, name = key.rpartition(".")
        keys_of_table.setdefault(f"[{section}]", {})[name] = declared
        if item := all_items().get(key):
            keys_of_table[f"[[{key}]]"] = dict(item.model_fields)
    for table, keys in keys_of_table.items():
        rows = [(f"`{name}`", _default(declared), declared.description or "") for name, declared in keys.items()]
        parts += ["", f"## {table}", "", *_markdown(("key", "default", "meaning"), rows)]
    return "\n".join(parts) + "\n"


def cli() -> str:
    """Render docs/cli.md: the help of every command."""
    from forewarn.cli import app  # noqa: PLC0415  # the command imports this module's package

    parts = ["# The command", ""]
    runner = CliRunner(env={"COLUMNS": "110", "TERMINAL_WIDTH": "110"})
    for path in _paths(typer.main.get_command(app), ()):
        shown = runner.invoke(app, [*path, "--help"], prog_name="forewarn").output
        parts += [f"## {' '.join(('forewarn', *path))}", "", "```", shown.strip(), "```", ""]
    return "\n".join(parts)


REFERENCES: dict[str, Callable[[], str]] = {
    "docs/tables.md": tables,
    "docs/features.md": features,
    "docs/metrics.md": metrics,
    "docs/cli.md": cli,
    "docs/configuration.md": configuration,
}


def main(arguments: list[str], root: Path = Path()) -> int:
    """Write the references, or with --check name those that differ from what the code says."""
    drifted = []
    for name, render in REFERENCES.items():
        file, text = root / name, render()
        if "--check" not in arguments:
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            drifted.append(name)
    for name in drifted:
        print(f"{name} differs from the code: run make docs")
    return 1 if drifted else 0


def _paths(command: Any, path: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    yield path
    for name, child in getattr(command, "commands", {}).items():
        yield from _paths(child, (*path, name))


def _default(declared: FieldInfo) -> str:
    value = declared.get_default(call_default_factory=True, validated_data={})
    return "required" if value is PydanticUndefined else "none" if value is None else f"`{value}`"


def _markdown(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
