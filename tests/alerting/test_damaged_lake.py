"""A damaged table of the lake is unknown to the decision layer: told once, never a drain, and no obstacle for the tables that are whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from alerting.answers import take_outcome
from alerting.ledger import Ledger
from alerting.loop import AlertLoop
from alerting.schema import OutcomeReport
from ingest.clock import ManualClock, datetime_of
from ingest.schema import EVENTS, GPU_SAMPLES, JOBS, OUTCOMES, SOURCE_STATES, TOPOLOGY
from ingest.tables import Table
from models.schema import SCORES

Loops = Callable[..., AlertLoop]


def is_damaged(table: str) -> float | None:
    return REGISTRY.get_sample_value("forewarn_alert_lake_table_damaged", {"table": table})


def damage(fleet: Any, table: Table) -> Callable[[], None]:
    """Cut the newest file of a table; gives what mends it."""
    file = Path(fleet.lake.files(table)[0])
    whole = file.read_bytes()
    file.write_bytes(whole[:100])

    def mend() -> None:
        file.write_bytes(whole)

    return mend


def break_log(fleet: Any, table: Table) -> Callable[[], None]:
    """Put what is no JSON into the log of a table; gives what mends it."""
    entry = sorted((Path(fleet.lake.root) / table.name / "_delta_log").glob("*.json"))[-1]
    whole = entry.read_bytes()
    entry.write_text("{no")

    def mend() -> None:
        entry.write_bytes(whole)

    return mend


@pytest.mark.parametrize("hurt", [damage, break_log])
@pytest.mark.parametrize("table", [GPU_SAMPLES, SOURCE_STATES, SCORES], ids=lambda table: table.name)
def test_events_are_answered_whatever_else_is_damaged(make_fleet: Any, make_loop: Loops, hurt: Any, table: Table) -> None:
    """A failure is answered at once, the damaged table is told in one line over many passes, and so is its mend."""
    fleet = make_fleet(16)
    fleet.score({})
    fleet.sample("gpu003", boot_id="b1")
    fleet.state("nvml", "ok")
    mend = hurt(fleet, table)
    fleet.xid("gpu003", 79)
    loop = make_loop(fleet)
    with capture_logs() as lines:
        said = [(one.memory.node, one.memory.action.value) for _ in range(3) for one in loop.run_pass()]
        assert is_damaged(table.name) == 1
        mend()
        loop.run_pass()
    assert said == [("gpu003", "remove")]
    told = [line for line in lines if line["event"].startswith("lake_table")]
    assert [(line["event"], line["table"]) for line in told] == [("lake_table_damaged", table.name), ("lake_table_mended", table.name)]
    assert told[0]["reason"].endswith("run forewarn lake check")
    assert is_damaged(table.name) == 0


def test_the_intact_files_of_a_damaged_table_are_read(make_fleet: Any, make_loop: Loops) -> None:
    """One file that is cut hides its own events alone, and those are answered when it is mended."""
    fleet = make_fleet(16)
    fleet.score({})
    fleet.xid("gpu003", 79)
    mend = damage(fleet, EVENTS)
    fleet.xid("gpu004", 79)
    loop = make_loop(fleet)
    assert [one.memory.node for one in loop.run_pass()] == ["gpu004"]
    assert loop.run_pass() == []
    mend()
    assert [one.memory.node for one in loop.run_pass()] == ["gpu003"]


@pytest.mark.parametrize("hurt", [damage, break_log])
@pytest.mark.parametrize("table", [JOBS, TOPOLOGY], ids=lambda table: table.name)
def test_no_predicted_drain_while_jobs_or_places_are_unknown(
    make_fleet: Any, make_loop: Loops, ledger: Ledger, clock: ManualClock, *, hurt: Any, table: Table
) -> None:
    """A node whose job or neighbours cannot be read is not drained for a score; it is once the table is mended."""
    fleet = make_fleet(16)
    fleet.job("j1", ["gpu007"])
    fleet.score({"gpu003": 0.4})
    mend = hurt(fleet, table)
    loop = make_loop(fleet)
    (said,) = loop.run_pass()
    budget = json.loads(said.body)["budget"]
    assert (budget["decision"], budget["policy"]) == ("deferred", "input-unreadable")
    assert table.name in budget["reason"]
    mend()
    clock.advance(601)
    fleet.score({"gpu003": 0.4})
    loop.run_pass()
    assert loop.run_pass() == []
    assert [memory.budget for memory in ledger.open_recommendations().values()] == ["approved"]


def test_outcomes_wait_where_the_lake_does_not_take_them(make_fleet: Any, make_loop: Loops, ledger: Ledger, clock: ManualClock) -> None:
    """What operators told is kept in the ledger and reaches the lake when its table is mended; passes go on meanwhile."""
    fleet = make_fleet(16)
    fleet.score({})

    def tell(number: int) -> None:
        outcome = {"outcome_id": f"o{number}", "cluster": "dc1", "node": "gpu003", "kind": "part_replaced", "source": "ticket"}
        told = OutcomeReport(**outcome, at=datetime_of(clock.now_ns()), failure_mode="hbm_ue", component="GPU-1")
        take_outcome(ledger.database, told, consumer="ops", received_ns=clock.now_ns())

    loop = make_loop(fleet)
    tell(1)
    loop.run_pass()
    mend = break_log(fleet, OUTCOMES)
    tell(2)
    fleet.xid("gpu004", 79)
    assert [one.memory.node for one in make_loop(fleet).run_pass()] == ["gpu004"]
    mend()
    loop.run_pass()
    with fleet.lake.reading() as connection:
        fleet.lake.attach(connection, OUTCOMES)
        assert connection.execute("select outcome_id from outcomes order by seq").fetchall() == [("o1",), ("o2",)]
