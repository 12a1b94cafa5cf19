"""`forewarn up` as operators handle it: SIGHUP takes changed sources, refuses what is wrong, and loses nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from signal import SIGHUP

import pytest

from ingest.lake import Lake
from ingest.schema import EVENTS
from tests.forewarn.agent import Agent

pytestmark = pytest.mark.slow


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Agent]:
    """Run every stage on one kernel log."""
    append(tmp_path / "n1", 1)
    process = Agent(tmp_path, command="up", kernel_log={"n1": str(tmp_path / "n1")})
    process.start()
    yield process
    process.kill()


def append(log: Path, *numbers: int) -> None:
    """Write records of a kernel log: XIDs of code 63, of one boot that began at the start of 2026."""
    log.with_name(f"{log.name}.boot").write_text(json.dumps({"boot_id": f"boot-of-{log.name}", "boot_at_ns": 1_767_225_600 * 10**9}))
    with log.open("a") as file:
        file.writelines(f"4,{n},{n}000,-;NVRM: Xid (PCI:0000:1b:00): 63, pid=1, name=test, row remapping {n}\n" for n in numbers)


def in_lake(up: Agent) -> list[tuple[str, int]]:
    """Give node and number of the events that have reached the lake."""
    lake = Lake(up.directory / "lake")
    with lake.reading() as connection:
        lake.attach(connection, EVENTS)
        return connection.execute("select node, kernel_seq from events order by all").fetchall()


def test_hangup_takes_a_source_and_what_is_wrong_changes_nothing(up: Agent, tmp_path: Path) -> None:
    """A new log reaches the lake without a restart; a mistake is one line; what needs a restart is named; every record is there once."""
    up.until(lambda: in_lake(up) == [("n1", 1)])
    logs = {"n1": str(tmp_path / "n1"), "n2": str(tmp_path / "n2")}
    append(tmp_path / "n2", 7)
    up.configure(kernel_log=logs, spool_max_mb=99)
    up.send(SIGHUP)
    up.until(lambda: in_lake(up) == [("n1", 1), ("n2", 7)])
    assert up.metric('forewarn_collector_reloads_total{result="taken"}') == 1
    (taken,) = up.logged("configuration_taken")
    assert taken["need_restart"] == ["collect.spool_max_mb"]

    up.configure(kernel_log=logs, intervall_s=5.0)
    up.send(SIGHUP)
    up.until(lambda: up.metric('forewarn_collector_reloads_total{result="refused"}') == 1)
    (refused,) = up.logged("configuration_refused")
    assert "did you mean collect.interval_s?" in refused["mistakes"]

    append(tmp_path / "n1", 2)
    append(tmp_path / "n2", 8)
    up.until(lambda: in_lake(up) == [("n1", 1), ("n1", 2), ("n2", 7), ("n2", 8)])
    assert up.get("/healthz")[0] == 200
    assert up.stop() == 0
    assert in_lake(up) == [("n1", 1), ("n1", 2), ("n2", 7), ("n2", 8)]
