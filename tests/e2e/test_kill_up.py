"""SIGKILL of `forewarn up` at random moments loses nothing, doubles nothing, and says nothing under a second id."""

from __future__ import annotations

import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from ingest.lake import Lake
from ingest.schema import CHASSIS_READINGS, EVENTS, GPU_SAMPLES, INVENTORY, JOBS, LINK_SAMPLES, OUTCOMES, SOURCE_STATES
from tests.e2e.conftest import SmallFleet

KILLS = int(os.environ.get("FOREWARN_TEST_KILLS", "20"))
KEYS = {
    GPU_SAMPLES: "node, gpu_uuid, source, observed_at",
    LINK_SAMPLES: "node, gpu_uuid, link, observed_at",
    CHASSIS_READINGS: "node, sensor, observed_at, origin, seq",
    EVENTS: "node, source, kind, code, observed_at, gpu_uuid, kernel_seq",
    INVENTORY: "node, gpu_uuid, action, observed_at, origin, seq",
    JOBS: "job_id, state, observed_at, restarts",
    OUTCOMES: "outcome_id",
    SOURCE_STATES: "node, source, state, observed_at",
}
pytestmark = [pytest.mark.e2e, pytest.mark.nvml]


Xid = tuple[str, str, int]  # node, boot id, number of the kernel's record


@pytest.fixture
def killed(small_fleet: Callable[..., SmallFleet]) -> tuple[SmallFleet, set[Xid]]:
    """Make a fleet whose `up` was killed many times and then ended in order, with the XIDs that its kernels held while `up` last ran."""
    fleet = small_fleet()
    moments = random.Random(11)
    for number in range(KILLS):
        process = start_up(fleet)
        if number % 4:  # every fourth dies while it starts
            fleet.wait_until_up()
        assert wait(process, moments.uniform(0.0, 4.0)) is None, (fleet.directory / "up.log").read_text()[-2000:]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    process = start_up(fleet)
    fleet.wait_until_up()
    logged = wait_for_xids(fleet.directory / "fleet", at_least=3)
    assert wait(process, 10.0) is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=40) == 0
    return fleet, logged


def start_up(fleet: SmallFleet) -> subprocess.Popen[bytes]:
    with (fleet.directory / "up.log").open("ab") as log:
        command = [sys.executable, "-m", "forewarn", "up", "--config", str(fleet.configuration)]
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None


def wait_for_xids(directory: Path, *, at_least: int, patience_s: float = 90.0) -> set[Xid]:
    """Wait until the kernels hold so many XIDs of their present boots: each reboot empties a log."""
    deadline = time.monotonic() + patience_s
    while len(logged := set(logged_xids(directory))) < at_least:
        assert time.monotonic() < deadline, f"{len(logged)} XIDs within {patience_s:.0f} s"
        time.sleep(0.1)
    return logged


def test_kills_lose_and_double_nothing(killed: tuple[SmallFleet, set[Xid]]) -> None:
    """Every row is in the lake once, every XID of the kernel logs is there, events keep their ids, and the ledger is sound."""
    fleet, logged = killed
    with duckdb.connect() as connection:
        rows = {table.name: doubled(connection, Lake(fleet.directory / "lake"), table, key) for table, key in KEYS.items()}
        found = connection.execute("select node, boot_id, kernel_seq from events where source = 'kernel_log' and kind = 'xid'").fetchall()
    assert {name: twice for name, (_, twice) in rows.items() if twice} == {}
    assert rows["gpu_samples"][0] > 1000
    assert logged - set(found) == set()
    check_consumer(fleet.directory / "state" / "consumer.sqlite")
    check_ledger(fleet.directory / "state" / "ledger.sqlite")


def doubled(connection: duckdb.DuckDBPyConnection, lake: Lake, table: object, key: str) -> tuple[int, list[object]]:
    lake.attach(connection, table)  # type: ignore[arg-type]
    name = table.name  # type: ignore[attr-defined]
    count = connection.execute(f"select count(*) from {name}").fetchall()[0][0]
    return count, connection.execute(f"select {key}, count(*) from {name} group by all having count(*) > 1 limit 5").fetchall()


def logged_xids(directory: Path) -> list[Xid]:
    """Read the XIDs that the emulated kernels hold now, which is since their last boot, by node, boot and sequence number."""
    found = []
    for log in directory.glob("*/kmsg*"):
        if log.suffix != ".boot" and (boot := re.search(r'"boot_id": *"([^"]+)"', log.with_name(log.name + ".boot").read_text())):
            found += [(log.parent.name, boot[1], int(line.split(",")[1])) for line in log.read_text().splitlines() if "NVRM: Xid" in line]
    return found


def check_consumer(path: Path) -> None:
    """Every revision of every recommendation came under one id."""
    with sqlite3.connect(path) as database:
        data = "json_extract(cast(data as text), '$.revision')"
        twice = database.execute(
            f"select recommendation_id, {data} from seen group by 1, 2 having count(distinct webhook_id) > 1"
        ).fetchall()
        assert twice == []
        assert database.execute("select count(*) from seen").fetchone()[0] > 0


def check_ledger(path: Path) -> None:
    """Require that the file is whole, revisions count from 1 without a gap, and an outbox event is pending or settled."""
    with sqlite3.connect(path) as database:
        assert database.execute("pragma integrity_check").fetchone()[0] == "ok"
        counted = "select recommendation_id from revisions group by 1 having min(revision) <> 1 or max(revision) <> count(*)"
        assert database.execute(counted).fetchall() == []
        assert (
            database.execute("select count(*) from recommendations where status = 'open' group by node having count(*) > 1").fetchall()
            == []
        )
