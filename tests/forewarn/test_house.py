"""The rules of the house that can be counted."""

import ast
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def tracked(*suffixes: str) -> list[Path]:
    """List the files of the checkout; without git, those on disk."""
    try:
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
        files = [ROOT / name for name in listed if name]
    except (subprocess.CalledProcessError, FileNotFoundError):
        files = [file for file in ROOT.rglob("*") if ".venv" not in file.parts]
    return [file for file in files if file.suffix in suffixes and file.exists()]


def test_no_file_is_longer_than_300_lines() -> None:
    """A Python or SQL file has at most 300 lines."""
    assert [str(f) for f in tracked(".py", ".sql") if f.read_text().count("\n") > 300] == []


def test_no_function_is_longer_than_50_lines() -> None:
    """A function has at most 50 lines."""
    long = [
        f"{file}:{node.name}"
        for file in tracked(".py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno >= 50
    ]
    assert long == []


def test_no_path_of_a_machine_and_no_registry_host() -> None:
    """Nothing that is committed names a folder of one machine or the host of a package registry."""
    forbidden = re.compile(r"(?<![\w.])/(work|farm|root|home/[a-z]+)/|pypi\.org|pythonhosted|npmjs|maven\.org|deb\.debian")
    found = []
    for file in tracked(".py", ".sql", ".md", ".toml", ".sh", ".c", ".h", ".lock", ".yml", ".in", ".xml", ".ipynb"):
        if file.name != "test_house.py":
            found += [f"{file}:{n}" for n, line in enumerate(file.read_text().split("\n"), 1) if forbidden.search(line)]
    assert found == []


def test_broad_excepts_stand_only_in_loops() -> None:
    """`except Exception` stands at most once in a file of production."""
    many = [str(f) for f in tracked(".py") if "tests" not in f.parts and len(re.findall(r"except Exception\b", f.read_text())) > 1]
    assert many == []
