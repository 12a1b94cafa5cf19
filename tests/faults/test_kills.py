"""Processes that are killed at random moments lose nothing, double nothing, and no event is missing."""

from __future__ import annotations

import os
from pathlib import Path

from tests.faults.killing import KINDS, run_kills

KILLS = int(os.environ.get("FOREWARN_TEST_KILLS", "1000" if os.environ.get("FOREWARN_TEST_LONG") else "12"))


def test_random_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    """Collectors, writers, the compactor, the broker and all at once are killed; the lake has what the fleet said, once."""
    outcome = run_kills(tmp_path, kills=KILLS, seed=7, say=print)
    print(outcome)  # noqa: T201  # the figures of a long run
    assert outcome.is_sound, str(outcome)
    assert outcome.kills.keys() == KINDS.keys()
    assert not outcome.ended, str(outcome)
    assert outcome.verdict.rows > 50
    assert outcome.verdict.events > 10
