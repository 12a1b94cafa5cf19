"""What `forewarn lake` does to a lake and says about it, as an operator runs it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from typer.testing import CliRunner

from features.schema import GPU_ROLLUPS_1H
from forewarn.cli import app
from ingest.clock import SharedClock, ns_of
from ingest.lake import Lake, table_rows
from ingest.schema import EVENTS, GPU_SAMPLES

TODAY = datetime(2026, 6, 15, tzinfo=UTC)
DAYS_AGO = (800, 40, 5, 0)
COUNTS = {column.name: [0, 0] for column in GPU_ROLLUPS_1H.own_columns if column.type == "int64" and not column.nullable}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Give a lake with three files of two rows on each of four dates, in each of three tables."""
    made = Lake(tmp_path / "lake")
    for days in DAYS_AGO:
        for second in range(3):
            at = [TODAY - timedelta(days=days, seconds=-second)] * 2
            common = {"node": ["n2", "n1"], "received_at": at, "source": ["t"] * 2}
            made.append(GPU_SAMPLES, table_rows(GPU_SAMPLES, {**common, "observed_at": at, "gpu_uuid": ["g"] * 2, "tier": ["hot"] * 2}))
            made.append(EVENTS, table_rows(EVENTS, {**common, "observed_at": at, "kind": ["xid"] * 2, "code": [79, 48]}))
            rollup = {"started_at": at, "known_at": at, "last_at": at, "gpu_uuid": ["g"] * 2, **COUNTS}
            made.append(GPU_ROLLUPS_1H, table_rows(GPU_ROLLUPS_1H, common | rollup))
    return made


def run(lake: Lake, *arguments: str, keep: str = "") -> Result:
    """Run `forewarn lake`, with lines of [lake.keep_days] where they are given."""
    file, clock_file = (Path(lake.root).with_suffix(suffix) for suffix in (".toml", ".clock"))
    SharedClock.create(clock_file, ns_of(TODAY + timedelta(hours=12)), scale=1.0)
    file.write_text(f'[fleet]\nclock_file = "{clock_file}"\n[lake]\npath = "{lake.root}"\n[lake.keep_days]\n{keep}\n')
    return CliRunner().invoke(app, ["lake", *arguments, "--config", str(file)])


def answer(lake: Lake, *arguments: str, keep: str = "") -> dict[str, dict[str, Any]]:
    """Run `forewarn lake` with --json and give its result by table."""
    done = run(lake, *arguments, "--json", keep=keep)
    assert done.exit_code == 0, done.output
    return {result["table"]: result for result in json.loads(done.stdout)}


def test_stats_tell_rows_files_dates_and_how_long_each_table_is_kept(lake: Lake) -> None:
    """Samples are kept for 30 days, roll-ups for two years, events for ever, unless the configuration says otherwise."""
    found = answer(lake, "stats")
    assert {name: (table["rows"], table["files"], table["kept_days"]) for name, table in found.items()} == {
        "gpu_samples": (24, 12, 30),
        "events": (24, 12, 0),
        "gpu_rollups_1h": (24, 12, 730),
    }
    assert found["events"]["newest"] == f"{TODAY:%Y-%m-%d}"
    assert answer(lake, "stats", keep="events = 90")["events"]["kept_days"] == 90


def test_expire_deletes_what_is_older_than_its_table_is_kept(lake: Lake) -> None:
    """A dry run says the same and deletes nothing; afterwards samples have two dates left, roll-ups three, events all."""
    planned = answer(lake, "expire", "--dry-run")
    assert {name: table["rows"] for name, table in planned.items()} == {"gpu_samples": 12, "events": 0, "gpu_rollups_1h": 6}
    assert {name: table["rows"] for name, table in answer(lake, "stats").items()} == dict.fromkeys(planned, 24)

    assert answer(lake, "expire") == planned

    left = {name: table["rows"] for name, table in answer(lake, "stats").items()}
    assert left == {"gpu_samples": 12, "events": 24, "gpu_rollups_1h": 18}
    assert run(lake, "check").exit_code == 0


def test_a_table_that_does_not_exist_is_refused_by_name(lake: Lake) -> None:
    """A mistake in the retention or on the command line never means that everything is kept or deleted."""
    wrong = run(lake, "expire", keep="gpu_sample = 3")
    assert "no table is called 'gpu_sample'" in str(wrong.exception)
    assert "keep_days.events = -5" in str(run(lake, "expire", keep="events = -5").exception)
    assert "no table is called 'event'" in str(run(lake, "stats", "--table", "event").exception)
    assert answer(lake, "stats")["gpu_samples"]["rows"] == 24


def test_compact_and_vacuum_leave_one_file_a_date(lake: Lake) -> None:
    """Compaction sorts the closed dates and merges today's; the vacuum removes exactly what was replaced once its hours are over."""
    done = answer(lake, "compact")["gpu_samples"]
    assert (done["files_before"], done["files_after"], len(done["sorted"]), len(done["merged"]), done["postponed"]) == (12, 4, 3, 1, [])
    assert answer(lake, "vacuum")["gpu_samples"]["files_removed"] == 0
    assert len(list(Path(lake.root, "gpu_samples").glob("date=*/*.parquet"))) == 16
    assert [line.split()[:3] for line in run(lake, "stats", "--table", "events").output.splitlines()][1] == ["events", "24", "4"]


def test_check_names_every_finding_and_ends_with_one(lake: Lake) -> None:
    """A file that is gone is told with its table, kind, place and meaning, as text and as JSON."""
    assert run(lake, "check").output.strip() == "0 problems in 3 tables"
    gone = Path(lake.files(EVENTS)[0])
    gone.unlink()

    text, plain = run(lake, "check", "--table", "events"), run(lake, "check", "--json")

    assert (text.exit_code, plain.exit_code) == (1, 1)
    assert text.output.startswith("events: file_unreadable (a live file is gone or broken): ")
    assert [(found["table"], found["kind"], Path(found["where"]).name) for found in json.loads(plain.stdout)["problems"]] == [
        ("events", "file_unreadable", gone.name)
    ]


def test_what_reads_a_lake_refuses_a_folder_without_tables(tmp_path: Path) -> None:
    """A wrong address is an error with the mend, not a lake without problems."""
    for arguments in (("check",), ("stats",), ("export", str(tmp_path / "out"))):
        assert "check lake.path" in str(run(Lake(tmp_path / "elsewhere"), *arguments).exception)


def test_export_is_plain_parquet_that_counts_every_row_once(lake: Lake, tmp_path: Path) -> None:
    """A glob over the copy finds each row once, also after a compaction and a second export; nothing else lies there."""
    answer_of_first = json.loads(run(lake, "export", str(tmp_path / "out"), "--table", "events", "--json").stdout)
    run(lake, "compact")
    run(lake, "export", str(tmp_path / "out"), "--table", "events")

    assert [done["rows"] for done in answer_of_first] == [6, 6, 6, 6]
    files = sorted(path for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert [file.relative_to(tmp_path / "out").parts[0::2] for file in files] == [("events", "part-0.parquet")] * 4
    assert "date" not in pq.ParquetFile(files[0]).schema_arrow.names
    with duckdb.connect() as connection:
        glob = f"{tmp_path}/out/events/*/*.parquet"
        found = connection.execute(f"select count(*), count(distinct date) from read_parquet('{glob}', hive_partitioning = true)")
        assert found.fetchall() == [(24, 4)]


def test_export_takes_a_span_of_dates(lake: Lake, tmp_path: Path) -> None:
    """Both ends are included; a date that cannot be read is refused with its name."""
    first, last = f"{TODAY - timedelta(days=40):%Y-%m-%d}", f"{TODAY - timedelta(days=5):%Y-%m-%d}"
    done = run(lake, "export", str(tmp_path / "out"), "--table", "events", "--since", first, "--until", last, "--json")
    assert [found["date"] for found in json.loads(done.stdout)] == [first, last]
    assert "give a date like" in str(run(lake, "export", str(tmp_path / "out"), "--since", "yesterday").exception)


def test_a_table_that_cannot_be_read_does_not_stop_the_others(lake: Lake) -> None:
    """It is named, the others are done, and the command ends with 2."""
    log = Path(lake.root, "events", "_delta_log")
    for entry in log.iterdir():
        entry.write_text("{not json")
    done = run(lake, "compact", "--json")
    assert done.exit_code == 2
    found = {result["table"]: result for result in json.loads(done.stdout)}
    assert "run forewarn lake check" in found["events"]["error"]
    assert found["gpu_samples"]["files_after"] == 4


def test_a_date_that_misses_a_file_is_left_as_it_is_and_the_others_are_sorted(lake: Lake) -> None:
    """The file is named, nothing of its date is replaced, later dates are done, and the command ends with 2."""
    gone = Path(lake.files(EVENTS, until=TODAY - timedelta(days=800))[0])
    gone.unlink()
    done = run(lake, "compact", "--table", "events", "--json")
    (found,) = json.loads(done.stdout)
    assert done.exit_code == 2
    assert gone.name in found["error"]
    assert len(lake.files(EVENTS, until=TODAY - timedelta(days=800))) == 3
    assert len(lake.files(EVENTS, since=TODAY - timedelta(days=40))) == 3
