"""A user's own history arrives in the lake once, with every record accounted for."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ingest.errors import ConfigError
from ingest.import_fleet import month_of
from ingest.imports import import_history
from ingest.lake import Lake
from tests.ingest.import_folder import NOW, at, rows, taken, write

DATA = Path(os.environ.get("FOREWARN_DATA", "../shared/data"))


def test_codes_and_modes_are_guessed_from_what_the_file_says(tmp_path: Path) -> None:
    """XIDs, Titan's DBE and OTB, and recorded causes become codes and modes; what says nothing stays empty; the text is kept."""
    texts = ["xid48_double_bit_ecc", "OTB", "DBE", "Xid 74", "comp2"]
    causes = [None, None, None, None, None]
    write(
        tmp_path,
        "events",
        node_id=["n1"] * 5 + ["s1n1"] * 5,
        device_id=["g1", "g2", "g3", "g4", "n1"] + ["s1n1"] * 5,
        ts=[at(1, hour) for hour in range(10)],
        kind=["failure"] * 9 + ["maintenance"],
        cause=[*causes, "Hardware", "Hardware", "Software", "Undetermined", "Hardware"],
        detail=[*texts, "Memory Dimm", "CPU", "DST", "Undetermined", "Memory Dimm"],
    )
    lake = Lake(tmp_path / "lake")
    import_history(tmp_path, lake, now=NOW)

    assert rows(lake, "events", "observed_at, gpu_uuid, code, mode, detail")[0][0] == datetime(2024, 1, 1, tzinfo=UTC)
    assert [row[1:] for row in rows(lake, "events", "observed_at, gpu_uuid, code, mode, detail")] == [
        ("g1", 48, "hbm_ue", "xid48_double_bit_ecc"),
        ("g2", 79, "fell_off_bus", "OTB"),
        ("g3", 48, "hbm_ue", "DBE"),
        ("g4", 74, "nvlink", "Xid 74"),
        (None, None, None, "comp2"),
        (None, None, "dram", "Hardware; Memory Dimm"),
        (None, None, "cpu", "Hardware; CPU"),
        (None, None, "software", "Software; DST"),
        (None, None, None, "Undetermined; Undetermined"),
        (None, None, None, "Hardware; Memory Dimm"),
    ]
    assert rows(lake, "events", "bool_and(received_at = observed_at), bool_and(source = 'import')") == [(True, True)]


def test_telemetry_goes_where_its_names_belong(tmp_path: Path) -> None:
    """Canonical fields of a GPU become samples; other names and node-level values other readings; a missing value makes no row."""
    write(
        tmp_path,
        "telemetry",
        node_id=["n1", "n1", "n2"],
        device_id=["g1", "g2", "n2"],
        ts=[at(1), at(1), at(1)],
        temp_c=[40.0, None, 50.0],
        vibration=[0.5, None, 0.25],
        comment=["a", None, None],
    )
    lake = Lake(tmp_path / "lake")
    report = import_history(tmp_path, lake, now=NOW)

    assert rows(lake, "gpu_samples", "node, gpu_uuid, temp_c") == [("n1", "g1", 40.0), ("n1", "g2", None)]
    assert rows(lake, "other_readings", "node, device, name, value") == [
        ("n1", "g1", "vibration", 0.5),
        ("n2", None, "temp_c", 50.0),
        ("n2", None, "vibration", 0.25),
    ]
    assert report.files[0].rejected == {"not_a_number:comment": 1}


def test_levels_become_domains_named_by_their_path(tmp_path: Path) -> None:
    """A chassis number means something only inside its cabinet; chassis and slot together are the position; it holds from the start."""
    write(tmp_path, "events", node_id=["n1"], ts=[at(3)], kind=["error"], detail=["x"])
    write(tmp_path, "topology", node_id=["n1", "n2"], cabinet=["c1", "c2"], chassis=[1, 1], slot=[0, 3], cab_row=[7, None])
    lake = Lake(tmp_path / "lake")
    import_history(tmp_path, lake, now=NOW)

    assert rows(lake, "topology", "node, kind, domain, date") == [
        ("n1", "cab_row", "7", "2024-01-03"),
        ("n1", "chassis", "c1/1", "2024-01-03"),
        ("n1", "position", "1/0", "2024-01-03"),
        ("n1", "rack", "c1", "2024-01-03"),
        ("n2", "chassis", "c2/1", "2024-01-03"),
        ("n2", "position", "1/3", "2024-01-03"),
        ("n2", "rack", "c2", "2024-01-03"),
    ]


def test_units_that_never_failed_are_added(tmp_path: Path) -> None:
    """A system's node count adds the nodes without a record, in service since the system is; a removal counts only inside the records."""
    write(
        tmp_path,
        "events",
        node_id=["s1n0", "s1n2", "s2n0"],
        ts=[datetime(2002, 6, 1), datetime(2002, 7, 1), datetime(2004, 3, 3)],  # noqa: DTZ001
        kind=["failure"] * 3,
        nodes=[4.0, 4.0, 1.0],
        **{"node prod": ["2-May", "2-May", "before tracking"], "node decom": ["3-Dec", "current", "5-Nov"]},
    )
    lake = Lake(tmp_path / "lake")
    report = import_history(tmp_path, lake, now=NOW)

    assert report.units_added == 2
    assert rows(lake, "inventory", "node, gpu_uuid, action, observed_at::date::varchar") == [
        ("s1n0", None, "insert", "2002-05-01"),
        ("s1n0", None, "remove", "2004-01-01"),
        ("s1n1", None, "insert", "2002-05-01"),
        ("s1n2", None, "insert", "2002-05-01"),
        ("s1n3", None, "insert", "2002-05-01"),
        ("s2n0", None, "insert", "2004-03-03"),
    ]


@pytest.mark.parametrize(("population", "added"), [(5, 3), ({"n": 4}, 2), (None, 0), (1, 0)])
def test_a_given_population_is_filled_up(tmp_path: Path, population: object, added: int) -> None:
    """A number for the fleet, or one per prefix, says how many units there were; fewer than are seen adds none."""
    write(tmp_path, "events", node_id=["n1", "n2"], ts=[at(1), at(2)], kind=["failure"] * 2)
    lake = Lake(tmp_path / "lake")
    report = import_history(tmp_path, lake, population=population, now=NOW)
    assert report.units_added == added
    assert len(rows(lake, "inventory", "node")) == 2 + added


def test_importing_again_adds_nothing_and_a_changed_file_is_new(tmp_path: Path) -> None:
    """The content of a file is its identity; a unit that the lake knows stays known."""
    write(tmp_path, "events", node_id=["n1"], ts=[at(1)], kind=["failure"])
    lake = Lake(tmp_path / "lake")
    first = import_history(tmp_path, lake, now=NOW)
    again = import_history(tmp_path, lake, now=NOW)
    write(tmp_path, "events", node_id=["n1"], ts=[at(2)], kind=["failure"])
    changed = import_history(tmp_path, lake, now=NOW)

    assert taken(first) == {"events": 1, "inventory": 1}
    assert taken(again) == {}
    assert again.files[0].known == {"events": 1}
    assert taken(changed) == {"events": 1}


def test_jobs_and_outcomes_come_by_the_names_of_their_columns(tmp_path: Path) -> None:
    """A list of nodes may be text; an outcome without an id gets one from what it says."""
    write(tmp_path, "jobs", job_id=[7], ts=[at(1)], state=["completed"], nodes=["n1 n2"], gpus=[16], started_at=["2024-01-01T00:00:00Z"])
    write(tmp_path, "outcomes", node_id=["n1"], device_id=["g1"], ts=[at(1)], kind=["part_replaced"], mode=["hbm_ue"])
    lake = Lake(tmp_path / "lake")
    import_history(tmp_path, lake, now=NOW)

    assert rows(lake, "jobs", "job_id, state, nodes, gpus, epoch(started_at)") == [("7", "completed", ["n1", "n2"], 16, 1704067200.0)]
    ((outcome_id, *rest),) = rows(lake, "outcomes", "outcome_id, kind, mode, gpu_uuid")
    assert rest == ["part_replaced", "hbm_ue", "g1"]
    assert outcome_id.startswith("n1/2024-01-01")


def test_a_folder_without_history_is_an_error(tmp_path: Path) -> None:
    """It says which names are known."""
    with pytest.raises(ConfigError, match="no telemetry, events"):
        import_history(tmp_path, Lake(tmp_path / "lake"), now=NOW)


@pytest.mark.parametrize(
    ("text", "first", "after"),
    [
        ("Dec-96", (1996, 12), (1997, 1)),
        ("2-May", (2002, 5), (2002, 6)),
        ("5-Nov", (2005, 11), (2005, 12)),
        ("current", None, None),
        ("before tracking", None, None),
        (None, None, None),
    ],
)
def test_reads_months_also_where_a_spreadsheet_mangled_them(
    text: str | None, first: tuple[int, int] | None, after: tuple[int, int] | None
) -> None:
    """Month and year are told apart by which of them is a name."""
    assert month_of(text) == (first and datetime(*first, 1, tzinfo=UTC))
    assert month_of(text, is_end=True) == (after and datetime(*after, 1, tzinfo=UTC))


@pytest.mark.data
@pytest.mark.skipif(not DATA.exists(), reason="the public failure data is not part of the project (docs say where it comes from)")
@pytest.mark.parametrize(
    ("folder", "expected", "added"),
    [
        ("lanl", {"events": 15_713, "inventory": 3_537}, 1_646),
        ("titan_to_2016", {"events": 3_022, "inventory": 30_546, "topology": 112_122}, 0),
        ("azure_pdm_synthetic", {"events": 7_966, "other_readings": 146_000, "inventory": 100}, 0),
        ("alibaba_ssd_tickets", {"events": 18_387, "topology": 24_066, "inventory": 12_033}, 0),
    ],
)
def test_imports_the_public_failure_data(tmp_path: Path, folder: str, expected: dict[str, int], added: int) -> None:
    """Every record of the four public sets is taken, and LANL's healthy nodes are added."""
    report = import_history(DATA / folder, Lake(tmp_path), now=NOW)
    assert taken(report) == expected
    assert report.units_added == added
    assert not any(file.rejected for file in report.files)
