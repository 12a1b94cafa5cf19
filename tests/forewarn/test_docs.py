"""What the documents name exists."""

import importlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(
    set(re.findall(r"`((?:ingest|features|models|alerting|forewarn)\.[\w.]+)`", (ROOT / "docs" / "architecture.md").read_text()))
)


@pytest.mark.parametrize("name", NAMES)
def test_the_walk_names_real_functions(name: str) -> None:
    """Every module, class and function that docs/architecture.md names can be imported."""
    parts = name.split(".")
    for depth in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:depth]))
        except ModuleNotFoundError:
            continue
        for part in parts[depth:]:
            found = getattr(found, part)
        return
    pytest.fail(f"{name} does not exist")


def test_links_of_the_readme_lead_somewhere() -> None:
    """Every relative link of the README is a file or folder of the project."""
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_notebooks_compile() -> None:
    """The code of every notebook compiles and carries no output."""
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert notebooks
    for notebook in notebooks:
        for cell in json.loads(notebook.read_text())["cells"]:
            if cell["cell_type"] == "code":
                compile("".join(cell["source"]), notebook.name, "exec")
                assert cell["outputs"] == []
