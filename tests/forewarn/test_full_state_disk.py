"""A collector whose state folder lies on a full disk stays, says so, and tells what happened meanwhile when there is room again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.disks import small_disk
from tests.forewarn.agent import Agent

pytestmark = pytest.mark.slow


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    """Make a collector of one kernel log whose state lies on a file system of 512 KiB."""
    (tmp_path / "kmsg").write_text(xid(1))
    (tmp_path / "kmsg.boot").write_text('{"boot_id": "b1", "boot_at_ns": 1790000000000000000}')
    with small_disk(tmp_path / "state", "512k"):
        made = Agent(tmp_path, kernel_log={"n1": str(tmp_path / "kmsg")}, interval_s=1.0)
        yield made
        made.kill()


def xid(number: int) -> str:
    """Write a record of the kernel log that does not compress: an XID of code 63."""
    return f"4,{number},{number}000,-;NVRM: Xid (PCI:0000:1b:00): 63, pid=1, name=test, row remapping {os.urandom(100).hex()}\n"


def test_events_of_a_full_disk_are_kept_and_told(agent: Agent, tmp_path: Path) -> None:
    """They wait in memory under a metric and a log line, the process is healthy, and all are in the spool in the end."""
    agent.start()
    agent.until(lambda: agent.metric("forewarn_collector_emitted_records_total") >= 1)
    filler = tmp_path / "state" / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(os.urandom(4096)) == 4096:
            pass
    with (tmp_path / "kmsg").open("a") as log:
        log.writelines(xid(number) for number in range(2, 400))
    agent.until(lambda: agent.metric("forewarn_collector_held_records") >= 1)
    agent.until(lambda: agent.logged("event_held_in_memory"))
    assert agent.get("/healthz")[0] == 200
    filler.unlink()
    with (tmp_path / "kmsg").open("a") as log:
        log.write(xid(400))
    agent.until(lambda: agent.metric("forewarn_collector_held_records") == 0)
    assert agent.stop() == 0
    seqs = [row.kernel_seq for row in agent.spooled("events")]  # type: ignore[attr-defined]
    assert sorted(seqs) == list(range(1, 401))
