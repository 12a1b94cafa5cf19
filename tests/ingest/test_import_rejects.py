"""What is wrong in a user's history is kept out, named and counted, and stops nothing else."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.imports import import_history
from ingest.lake import Lake
from tests.ingest.import_folder import NOW, at, rows, taken, write


def test_every_record_is_taken_or_rejected_with_its_reason(tmp_path: Path) -> None:
    """Rows without node, time or known kind, or from the future, are counted by reason; the others are taken."""
    (tmp_path / "events.csv").write_text(
        "node_id,device_id,ts,kind,detail\n"
        "1,1,2024-01-01T00:00:00Z,failure,a\n"
        "1,1,2024-01-01 05:00:00+05:00,failure,b\n"
        ",1,2024-01-01,failure,c\n"
        "1,1,yesterday,failure,d\n"
        "1,1,2031-01-01,failure,e\n"
        "1,1,2024-01-02,party,f\n"
    )
    lake = Lake(tmp_path / "lake")
    report = import_history(tmp_path, lake, now=NOW)

    assert report.files[0].read == 6
    assert report.files[0].taken == {"events": 2}
    assert report.files[0].rejected == {"no_node": 1, "no_time": 1, "in_the_future": 1, "unknown_kind": 1}
    assert rows(lake, "events", "node, epoch(observed_at), detail") == [("1", 1704067200.0, "a"), ("1", 1704067200.0, "b")]


BROKEN: dict[str, tuple[str, bytes]] = {
    "no_parquet": ("jobs.parquet", b"PAR1 not really"),
    "empty": ("jobs.csv", b""),
    "binary": ("jobs.csv", b"job_id,ts,state\n\xff\xfe\x00\x01\x80,2024-01-01,\xc3(\n"),
    "binary_head": ("jobs.csv", b"\xff\xfe\x00\x01\x80\n1\n"),
    "no_column": ("jobs.csv", b"job_id,state\n1,running\n"),
    "column_twice": ("jobs.csv", b"job_id,ts,ts\n1,2024-01-01,2024-01-01\n"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_cannot_be_read_stops_no_other(tmp_path: Path, name: str) -> None:
    """It is reported with why, in printable words, and nothing of it is taken; the others are."""
    file, content = BROKEN[name]
    (tmp_path / file).write_bytes(content)
    write(tmp_path, "events", node_id=["n1"], ts=[at(1)], kind=["failure"])
    write(tmp_path, "outcomes", node_id=["n1"], ts=[at(2)], kind=["part_replaced"])
    report = import_history(tmp_path, Lake(tmp_path / "lake"), now=NOW)
    assert taken(report) == {"events": 1, "outcomes": 1, "inventory": 1}
    (broken,) = [each for each in report.files if each.file == file]
    assert (broken.taken, bool(broken.error)) == ({}, True)
    assert str(broken.error).isascii()
    assert str(broken.error).isprintable()


def test_a_file_that_breaks_off_is_not_taken_by_half(tmp_path: Path) -> None:
    """What is mended later is another file: its first half would come twice."""
    pq.write_table(
        pa.table({"node_id": ["n1"] * 5000, "ts": [at(1)] * 5000, "vibration": list(range(5000))}), tmp_path / "telemetry.parquet"
    )
    pages = pq.ParquetFile(tmp_path / "telemetry.parquet").metadata.row_group(0).column(2)
    content = bytearray((tmp_path / "telemetry.parquet").read_bytes())
    content[pages.data_page_offset : pages.data_page_offset + 60] = bytes(60)
    (tmp_path / "telemetry.parquet").write_bytes(content)
    report = import_history(tmp_path, Lake(tmp_path / "lake"), now=NOW)
    assert taken(report) == {}
    assert report.files[0].error


def test_a_line_with_other_cells_than_the_head_is_rejected_alone(tmp_path: Path) -> None:
    """Too few or too many cells reject the line, and every line is counted."""
    (tmp_path / "events.csv").write_text("node_id,ts,kind\nn1,2024-01-01,failure\nn1,2024-01-02\nn1,2024-01-03,failure,more\n")
    (report, _) = import_history(tmp_path, Lake(tmp_path / "lake"), now=NOW).files
    assert (report.read, report.taken, report.rejected) == (3, {"events": 1}, {"wrong_number_of_cells": 2})


def test_what_is_no_number_is_marked_and_what_is_empty_is_missing(tmp_path: Path) -> None:
    """Infinity and words where a number was due are None with the code `invalid` and counted; an empty cell is neither."""
    (tmp_path / "telemetry.csv").write_text(
        "node_id,device_id,ts,temp_c,pcie_replay_total,vibration,comment\n"
        "n1,g1,2024-01-01,40,3,0.5,fine\n"
        "n1,g2,2024-01-01,inf,2.5,-inf,\n"
        "n1,g3,2024-01-01,hot,,oops,\n"
        "n1,g4,2024-01-01,,4,0.25,\n"
        "n1,g5,2024-01-01,,,0.75,\n"
    )
    lake = Lake(tmp_path / "lake")
    report = import_history(tmp_path, lake, now=NOW)

    assert rows(lake, "gpu_samples", "gpu_uuid, temp_c, pcie_replay_total, quality") == [
        ("g1", 40.0, 3, None),
        ("g2", None, None, {"temp_c": "invalid", "pcie_replay_total": "invalid"}),
        ("g3", None, None, {"temp_c": "invalid"}),
        ("g4", None, 4, None),
        ("g5", None, None, None),
    ]
    assert rows(lake, "other_readings", "device, value, quality") == [
        ("g1", 0.5, None),
        ("g2", None, "invalid"),
        ("g3", None, "invalid"),
        ("g4", 0.25, None),
        ("g5", 0.75, None),
    ]
    assert report.files[0].rejected == {
        "not_a_number:temp_c": 2,
        "not_a_number:pcie_replay_total": 1,
        "not_a_number:vibration": 2,
        "not_a_number:comment": 1,
    }


def test_infinity_in_parquet_is_no_value(tmp_path: Path) -> None:
    """The type of a column vouches for nothing."""
    write(
        tmp_path, "telemetry", node_id=["n1"] * 3, device_id=["g1"] * 3, ts=[at(1), at(2), at(3)], temp_c=[float("inf"), float("nan"), 4.0]
    )
    lake = Lake(tmp_path / "lake")
    import_history(tmp_path, lake, now=NOW)
    assert rows(lake, "gpu_samples", "temp_c, quality") == [(4.0, None), (None, {"temp_c": "invalid"}), (None, {"temp_c": "invalid"})]


def test_a_word_among_the_numbers_of_a_job_is_rejected(tmp_path: Path) -> None:
    """The job is taken without the value."""
    (tmp_path / "jobs.csv").write_text("job_id,ts,state,gpus\n1,2024-01-01,running,8\n2,2024-01-01,running,many\n")
    lake = Lake(tmp_path / "lake")
    report = import_history(tmp_path, lake, now=NOW)
    assert rows(lake, "jobs", "job_id, gpus") == [("1", 8), ("2", None)]
    assert report.files[0].rejected == {"not_a_number:gpus": 1}


def test_another_population_adds_only_what_it_adds(tmp_path: Path) -> None:
    """Units of an earlier import are known; a larger population adds those that are more."""
    write(tmp_path, "events", node_id=["n1", "n2"], ts=[at(1), at(2)], kind=["failure"] * 2)
    lake = Lake(tmp_path / "lake")
    reports = [import_history(tmp_path, lake, population=population, now=NOW) for population in (4, 6, 3, None)]
    assert [taken(report).get("inventory", 0) for report in reports] == [4, 2, 0, 0]
    assert reports[1].files[-1].known == {"inventory": 4}
    names = [row[0] for row in rows(lake, "inventory", "node")]
    assert names == ["n1", "n2", "unseen-00001", "unseen-00002", "unseen-00003", "unseen-00004"]


def test_an_earlier_record_moves_a_unit_to_its_start(tmp_path: Path) -> None:
    """A later import that shows a unit in service before is told, another that shows it later is not."""
    lake = Lake(tmp_path / "lake")
    for day in (5, 9, 2):
        write(tmp_path, "events", node_id=["n1"], ts=[at(day)], kind=["failure"])
        import_history(tmp_path, lake, now=NOW)
    assert rows(lake, "inventory", "date") == [("2024-01-02",), ("2024-01-05",)]


def test_a_node_in_two_racks_at_once_is_rejected(tmp_path: Path) -> None:
    """Nobody knows which is right: both are kept out with the reason; what agrees, and a move at another time, is taken."""
    write(
        tmp_path,
        "topology",
        node_id=["n1", "n1", "n2", "n2", "n3", "n3"],
        ts=[at(1), at(1), at(1), at(1), at(1), at(2)],
        rack=["r1", "r2", "r3", "r3", "r4", "r5"],
        room=["a", "a", "b", "b", "c", "c"],
    )
    lake = Lake(tmp_path / "lake")
    report = import_history(tmp_path, lake, now=NOW)
    assert report.files[0].rejected == {"contradiction:rack": 2}
    assert rows(lake, "topology", "distinct node, domain") == [
        ("n1", "a"),
        ("n2", "b"),
        ("n2", "r3"),
        ("n3", "c"),
        ("n3", "r4"),
        ("n3", "r5"),
    ]


def test_odd_cells_stop_nothing(tmp_path: Path) -> None:
    """A time beyond all calendars is none, and a number of nodes that is none says nothing."""
    (tmp_path / "events.csv").write_text("node_id,ts,kind,nodes,node prod\n1,1e300,failure,4,2002\n1,2024-01-01,failure,many,7\n")
    write(tmp_path, "jobs", job_id=[1, 2], ts=[1e300, 1704067200.0], state=["running"] * 2)
    write(tmp_path, "outcomes", node_id=[{"a": 1}], ts=[at(1)], kind=["part_replaced"])
    lake = Lake(tmp_path / "lake")
    events, jobs, outcomes, _ = import_history(tmp_path, lake, now=NOW).files
    assert (events.rejected, events.taken) == ({"no_time": 1}, {"events": 1})
    assert (jobs.rejected, jobs.taken) == ({"no_time": 1}, {"jobs": 1})
    assert str(outcomes.error).startswith("unreadable_columns: ")


def test_rows_that_lack_what_they_must_have_are_rejected(tmp_path: Path) -> None:
    """A job without an id or a state is no job; one without nodes is pending; a file without the column is not taken at all."""
    (tmp_path / "jobs.csv").write_text("job_id,ts,state\n1,2024-01-01,pending\n,2024-01-01,running\n3,2024-01-01,\n")
    (tmp_path / "outcomes.csv").write_text("node_id,ts\nn1,2024-01-01\n")
    lake = Lake(tmp_path / "lake")
    jobs, outcomes = import_history(tmp_path, lake, now=NOW).files
    assert rows(lake, "jobs", "job_id, state, nodes") == [("1", "pending", [])]
    assert jobs.rejected == {"no_job_id": 1, "no_state": 1}
    assert (outcomes.taken, outcomes.error) == ({}, "no column kind")
