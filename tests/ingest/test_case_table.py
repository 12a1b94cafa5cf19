"""Every field case has a test, and `tests/cases/README.md` says which."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
CASES = TESTS / "cases"
ROW = re.compile(r"^\| (\S+) \| (.+) \|$", re.MULTILINE)
NAMED = re.compile(r"`(\S+\.py)`: ((?:`test_\w+`(?:, )?)+)")


def test_the_table_names_every_case_and_tests_that_are_there() -> None:
    """The cases of the table are those of the folders, in number 72, and each names tests that its files define."""
    rows = {name: NAMED.findall(tests) for name, tests in ROW.findall((CASES / "README.md").read_text()) if name != "case"}
    there = {path.stem for path in CASES.glob("*/*")} - {"cases"}
    assert rows.keys() == there
    assert len(there) == 72
    for name, files in rows.items():
        assert files, name
        for file, tests in files:
            text = (TESTS / file).read_text()
            missing = [test for test in re.findall(r"test_\w+", tests) if f"def {test}(" not in text]
            assert missing == [], f"{name}: {file}"
