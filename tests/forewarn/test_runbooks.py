"""What the runbooks name exists: metrics with their labels, commands with their options, settings, findings and log lines."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from prometheus_client import REGISTRY

from forewarn.cli import app
from forewarn.config import all_keys
from forewarn.reference import METRIC_MODULES
from ingest.lake_check import KINDS

ROOT = Path(__file__).resolve().parents[2]
PAGES = {page.stem: page.read_text() for page in sorted((ROOT / "docs" / "runbooks").glob("*.md"))}
SOURCE = "\n".join(file.read_text() for package in ("ingest", "forewarn") for file in (ROOT / package).rglob("*.py"))
SETTINGS = re.compile(r"`\[?((?:bus|lake|write|collect|fleet)\.\w+)")


def metrics() -> set[str]:
    """Name every metric as a query names it."""
    for module in METRIC_MODULES:
        importlib.import_module(module)
    found = set()
    for metric in REGISTRY.collect():
        endings = {"counter": ("_total",), "histogram": ("", "_bucket", "_count", "_sum")}.get(metric.type, ("",))
        found |= {metric.name + ending for ending in endings}
    return found


def command(words: list[str]) -> tuple[Any, list[str]]:
    """Find the command that a line calls, and the words behind it."""
    found: Any = typer.main.get_command(app)
    while words and words[0] in getattr(found, "commands", {}):
        found, words = found.commands[words[0]], words[1:]
    return found, words


@pytest.mark.parametrize("name", ["lag", "spool-growing", "lake-conflict", "disk-full", "rejected-messages"])
def test_a_page_says_what_the_alert_means_what_to_look_at_and_what_to_do(name: str) -> None:
    """Each has the three parts, an alert expression over a metric, and a command to look with."""
    page = PAGES[name]
    assert re.findall(r"(?m)^## (.*)$", page) == ["What the alert means", "What to look at", "What to do"]
    assert re.search(r"\| `[^`]*forewarn_\w+[^`]*` \|", page)
    assert re.search(r"(?m)^forewarn ", page)


@pytest.mark.parametrize("name", PAGES)
def test_every_metric_exists(name: str) -> None:
    """A name that starts with forewarn_ is a metric of a process."""
    assert set(re.findall(r"\bforewarn_\w+", PAGES[name])) - metrics() == set()


@pytest.mark.parametrize("name", PAGES)
def test_every_command_exists_with_its_options(name: str) -> None:
    """Commands in blocks and in the text lead to a command, and their options are its own."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGES[name], re.DOTALL)
    lines = [line for block in blocks for line in block.strip().splitlines()] + re.findall(r"`(forewarn [^`]*)`", PAGES[name])
    assert lines
    for line in lines:
        found, rest = command(shlex.split(line)[1:])
        assert not getattr(found, "commands", {}), f"{line}: no such command"
        options = {option for parameter in found.params for option in parameter.opts}
        assert {word for word in rest if word.startswith("--")} <= options, line


@pytest.mark.parametrize("name", PAGES)
def test_every_setting_exists(name: str) -> None:
    """A setting is named as in docs/configuration.md."""
    assert set(SETTINGS.findall(PAGES[name])) - all_keys().keys() == set()


def test_findings_reasons_and_log_lines_are_those_of_the_code() -> None:
    """Every kind of finding has its row, and every reason or log line that is named stands in the code."""
    assert {kind for kind in KINDS if f"`{kind}`" not in PAGES["lake-conflict"]} == set()
    for page in PAGES.values():
        named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", page)) - set(KINDS)
        named = {word for word in named if not word.startswith("forewarn_")}
        assert {word for word in named if word not in SOURCE} == set()


def test_links_lead_somewhere() -> None:
    """Every relative link of a runbook is a page."""
    for page in PAGES.values():
        assert [link for link in re.findall(r"\]\(([^)]+)\)", page) if not (ROOT / "docs" / "runbooks" / link).exists()] == []
