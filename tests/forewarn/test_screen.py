"""What the demo shows while it runs."""

from __future__ import annotations

import re

import pytest

from forewarn.screen import Screen


def test_a_step_is_told_when_it_begins(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the output goes to a file or a pipe, a step has a line before anything of it is done."""
    with Screen().step("rolling samples up") as progress:
        assert capsys.readouterr().out == "  rolling samples up ...\n"
        progress(0.5)
    assert re.fullmatch(r"  rolling samples up: \d+ s\n", capsys.readouterr().out)


def test_beside_a_result_as_json_nothing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A quiet screen leaves standard output to the result."""
    with Screen(is_quiet=True).step("rolling samples up") as progress:
        progress(0.5)
    assert capsys.readouterr().out == ""
