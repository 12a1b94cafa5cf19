"""Half an hour over 64 nodes while everything goes wrong costs no record, no beat and no memory; `make long` runs it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from emulators.nvml.header import HeaderMissing, find_header
from tests.contracts.conftest import LEFT_SOCKETS
from tests.faults.conftest import faulty  # noqa: F401  # a fixture
from tests.soak.run import soak

pytestmark = [
    pytest.mark.slow,
    pytest.mark.kafka,
    *(pytest.mark.filterwarnings(text) for text in LEFT_SOCKETS),
]
NODES = 64
MINUTES = float(os.environ.get("FOREWARN_TEST_SOAK_MINUTES", "30"))


@pytest.mark.skipif("FOREWARN_TEST_LONG" not in os.environ, reason="takes half an hour: make long runs it")
def test_64_nodes_at_a_second_while_everything_goes_wrong(
    tmp_path: Path,
    faulty: Path,  # noqa: F811  # the fixture
    record_property: Callable[[str, object], None],
) -> None:
    """Memory stays flat, every record is accounted for, and no beat is late by more than an interval."""
    if shutil.which("java") is None:
        pytest.skip("java is not installed (Debian: openjdk-17-jre-headless maven)")
    try:
        find_header()
    except HeaderMissing as missing:
        pytest.skip(str(missing))
    result = soak(tmp_path, nodes=NODES, minutes=MINUTES, seed=4, clock_library=faulty)
    record_property("soak", result.text())
    assert all(result.findings().values()), result.text()
