"""History in bulk: the rows are what the devices show, poll by poll, and nothing of the truth is among them."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from emulators.history import write_history, write_truth
from emulators.layout import DAY_NS, NS, WorldSpec
from emulators.world import World
from ingest.lake import Lake
from ingest.schema import TABLES

DAYS = 5


@cache
def fleet() -> World:
    return World(WorldSpec.show(seed=9, nodes=8, days=10, rate_scale=300.0))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(tmp_path_factory.mktemp("lake"))
    write_history(fleet(), lake, until_ns=fleet().spec.start_ns + DAYS * DAY_NS)
    return lake


@pytest.fixture(scope="module")
def tables(lake: Lake) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    for table in TABLES.values():
        lake.attach(connection, table)
    return connection


def rows(tables: duckdb.DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    found = tables.execute(query)
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def ns(at: datetime) -> int:
    return int((at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000 + 0.5) * 1000


def test_rows_are_what_the_devices_show(tables: duckdb.DuckDBPyConnection) -> None:
    """A row in 301 is held against the GPU's state when its poll was due, or one poll before where it is stale."""
    compared = 0
    cadence_ns = 300 * NS
    for row in rows(tables, "select * from gpu_samples where gpu_present and temp_c is not null order by node, gpu_uuid, observed_at")[
        ::37
    ]:
        due_ns = (ns(row["observed_at"]) - fleet().spec.start_ns) // cadence_ns * cadence_ns + fleet().spec.start_ns
        states = [
            {s.gpu_uuid: s for s in fleet().gpu_states(row["node"], due_ns - back * cadence_ns)}.get(row["gpu_uuid"]) for back in (0, 1)
        ]
        state = next((s for s in states if s and s.energy_mj_total == row["energy_mj_total"]), None)
        assert state is not None
        for name in (
            "temp_c",
            "power_w",
            "gpu_util_ratio",
            "sm_clock_mhz",
            "dram_ce_volatile_total",
            "pcie_replay_total",
            "recovery_action",
        ):
            assert row[name] == getattr(state, name), name
        assert row["ecc_ce_volatile_total"] == state.dram_ce_volatile_total + state.sram_ce_volatile_total
        compared += 1
    assert compared > 200


def test_a_node_that_is_down_has_no_rows(tables: duckdb.DuckDBPyConnection) -> None:
    """No GPU sample is due within a down time, and the source says so."""
    for row in rows(tables, "select distinct node, observed_at from gpu_samples"):
        due_ns = (ns(row["observed_at"]) - fleet().spec.start_ns) // (300 * NS) * 300 * NS + fleet().spec.start_ns
        assert fleet().is_up(row["node"], due_ns)
    states = {row["state"] for row in rows(tables, "select distinct state from source_states")}
    assert states == {"ok", "error(503)", "driver_not_loaded(9)"}


def test_nearly_all_polls_of_nodes_that_are_up_are_there(tables: duckdb.DuckDBPyConnection) -> None:
    """Between 96 % and 100 % of the polls that were due on nodes that were up have their eight rows."""
    due = sum(fleet().is_up(node.name, fleet().spec.start_ns + slot * 300 * NS) for node in fleet().nodes for slot in range(DAYS * 288))
    counted = rows(tables, "select count(distinct (node, observed_at)) as polls, count(*) as n from gpu_samples")[0]
    assert 0.96 * due < counted["polls"] <= due
    assert 8 * counted["polls"] <= counted["n"] < 8.1 * counted["polls"]


def test_both_clocks_are_kept(tables: duckdb.DuckDBPyConnection) -> None:
    """Every sample is received after it was observed, within two seconds and a bit."""
    late = rows(tables, "select min(received_at - observed_at) as low, max(received_at - observed_at) as high from gpu_samples")[0]
    assert 0 < late["low"].total_seconds() <= late["high"].total_seconds() < 2.1


def test_sources_say_what_they_can(tables: duckdb.DuckDBPyConnection) -> None:
    """The agent knows boot and uptime and reads identity rarely; a page has identity always, the last XID, and no uptime."""
    query = """
        select source, count(*) as n, count(boot_id) as boots, count(uptime_s) as uptimes, count(gpu_model) as models,
            count(xid_last) as xids, count(nvlink_crc_total) as links
        from gpu_samples where gpu_present and temp_c is not null group by source
    """
    found = {row["source"]: row for row in rows(tables, query)}
    nvml, exporter = found["nvml"], found["exporter"]
    assert nvml["boots"] == nvml["uptimes"] == nvml["n"]
    assert 0 < nvml["models"] < 0.02 * nvml["n"] < nvml["n"] == nvml["links"]
    assert nvml["xids"] == exporter["boots"] == exporter["uptimes"] == 0
    assert exporter["models"] == exporter["links"] == exporter["n"] > exporter["xids"] > 0


def test_lost_and_hidden_gpus_are_rows_without_values(tables: duckdb.DuckDBPyConnection) -> None:
    """A lost GPU of the agent names each field as lost; a GPU off the list or off the page is not present; neither has a value."""
    bad = rows(tables, "select * from gpu_samples where temp_c is null")
    assert len(bad) > 5
    for row in bad:
        assert row["energy_mj_total"] is None
        assert row["recovery_action"] is None
        if row["gpu_present"]:
            assert row["source"] == "nvml"
            assert set(row["quality"].values()) == {"lost"}
            assert "temp_c" in row["quality"]
        else:
            assert row["quality"] is None
    missing = rows(tables, "select distinct gpu_uuid from events where kind = 'gpu_missing'")
    assert {row["gpu_uuid"] for row in missing} == {row["gpu_uuid"] for row in bad if not row["gpu_present"]}


def test_events_are_those_of_the_kernel_logs(tables: duckdb.DuckDBPyConnection) -> None:
    """Every XID before the end is there once, with its class; a loss of the bus is one event with code 79."""
    until_ns = fleet().spec.start_ns + DAYS * DAY_NS
    said = [e for e in fleet().events if fleet().spec.start_ns <= e.at_ns < until_ns and e.kind != "boot"]
    lost = {(e.node, e.pci) for e in said if e.kind == "bus_loss"}
    stored = rows(tables, "select * from events where source = 'kernel_log'")
    assert sum(row["kind"] == "bus_loss" for row in stored) == sum(e.kind == "bus_loss" for e in said) > 0
    assert all(row["code"] == 79 for row in stored if row["kind"] == "bus_loss")
    others = [e for e in said if e.kind == "xid" and not (e.code == 79 and (e.node, e.pci) in lost)]
    assert len([row for row in stored if row["kind"] == "xid" and not (row["code"] == 79 and (row["node"], row["pci"]) in lost)]) == len(
        others
    )
    assert all(row["use"] != "unknown" and row["gpu_uuid"] for row in stored)
    assert {row["recovery_action"] for row in stored if row["code"] == 154} <= {1, 2}
    assert all(row["link"] in range(18) for row in stored if row["code"] == 74)


def test_the_classes_of_xids_are_the_catalogues() -> None:
    """The emulated classes agree with the product's table."""
    from emulators.history_events import USES  # noqa: PLC0415
    from ingest.xid import read_catalogue  # noqa: PLC0415

    catalogue = read_catalogue()
    assert {code: catalogue.use(code) for code in USES} == USES


def test_links_chassis_and_topology_are_complete(tables: duckdb.DuckDBPyConnection) -> None:
    """18 links per GPU every six hours, 30 sensors per BMC every hour, eight kinds of domain per node, one seat per GPU."""
    links = rows(tables, "select count(*) / count(distinct (gpu_uuid, observed_at)) as per_poll from link_samples")[0]["per_poll"]
    assert links == 18
    assert rows(tables, "select count(*) as n from chassis_readings")[0]["n"] == 8 * DAYS * 24 * (4 + 6 + 4 * 3 + 8)
    assert rows(tables, "select count(*) as n from topology")[0]["n"] == 8 * 8
    assert rows(tables, "select count(*) as n from inventory where action = 'insert'")[0]["n"] >= 64


def test_link_samples_agree_with_the_states(tables: duckdb.DuckDBPyConnection) -> None:
    """The CRC count of every link with errors is the device's."""
    found = rows(tables, "select * from link_samples where crc_total > 0 order by node, gpu_uuid, link, observed_at")
    assert found
    for row in found[::11]:
        due_ns = (ns(row["observed_at"]) - fleet().spec.start_ns) // (300 * NS) * 300 * NS + fleet().spec.start_ns
        state = next(s for s in fleet().gpu_states(row["node"], due_ns) if s.gpu_uuid == row["gpu_uuid"])
        assert (state.links[row["link"]].crc_total, state.links[row["link"]].is_up) == (row["crc_total"], row["is_up"])


def test_outcomes_are_those_reported_by_the_end(tables: duckdb.DuckDBPyConnection) -> None:
    """An outcome is there when it was reported before the end, whatever it is about."""
    reported = fleet().outcomes(fleet().spec.start_ns, fleet().spec.start_ns + DAYS * DAY_NS)
    assert {row["outcome_id"] for row in rows(tables, "select outcome_id from outcomes")} == {ticket.outcome_id for ticket in reported}


def test_jobs_say_start_and_end(tables: duckdb.DuckDBPyConnection) -> None:
    """The newest row of a finished run has its state and end; nothing ends in the future."""
    last = rows(tables, "select max(observed_at) as at from jobs")[0]["at"]
    assert ns(last) < fleet().spec.start_ns + DAYS * DAY_NS
    ended = rows(tables, "select * from jobs where state <> 'running'")
    assert {row["state"] for row in ended} >= {"completed", "failed", "node_fail"}
    assert all(row["started_at"] <= row["ended_at"] == row["observed_at"] for row in ended)


def test_the_same_seed_writes_the_same_rows(tables: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    """A second history of a new world with the same seed has equal sums over every numeric column."""
    again = Lake(tmp_path)
    write_history(World(fleet().spec), again, until_ns=fleet().spec.start_ns + DAYS * DAY_NS)
    other = duckdb.connect()
    again.attach(other, TABLES["gpu_samples"])
    query = "select count(*), sum(power_w), sum(energy_mj_total), sum(epoch_us(observed_at)), sum(hash(gpu_uuid)) from gpu_samples"
    assert other.execute(query).fetchone() == tables.execute(query).fetchone()


def test_the_truth_is_a_file_of_its_own(lake: Lake, tmp_path: Path) -> None:
    """`truth.parquet` has every failure; no table of the lake knows what was visible."""
    write_truth(fleet(), tmp_path / "truth.parquet")
    truth = duckdb.sql(f"select * from '{tmp_path}/truth.parquet'").fetchall()
    assert len(truth) == len(fleet().failures)
    assert duckdb.sql(f"select * from '{tmp_path}/truth.parquet'").columns == [
        "unit",
        "scope",
        "node",
        "mode",
        "visible",
        "onset_at",
        "failed_at",
        "repaired_at",
    ]
    assert not any("visible" in table.names for table in TABLES.values())
    assert all(lake.version(table) is not None for name, table in TABLES.items() if name not in ("other_readings", "gpu_pods"))


def test_progress_ends_at_one(tmp_path: Path) -> None:
    """Progress never falls and ends at 1."""
    told: list[float] = []
    world = World(WorldSpec.show(nodes=2, days=2))
    write_history(world, Lake(tmp_path), until_ns=world.spec.start_ns + 2 * DAY_NS, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
